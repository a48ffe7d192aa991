//! JSON objects in the text of a model: alone, in a fenced block, or between words. Nothing that
//! stands inside thinking is one (case C16), nor what stands inside a string of one (case C18).

use serde_json::Value;

use super::json::parse_json;
use super::thinking::{split_thinking, thinking_at_start};

/// Bytes looked at in search of closing braces; a text of braces alone would take for ever.
const MOST_BYTES_SEEN: usize = 32 << 20;

/// The objects in `text` that no other one encloses, in order. Braces that enclose no JSON are
/// passed over.
pub fn json_objects(text: &str) -> Vec<Value> {
    // First as a whole: a string in it may hold what looks like thinking.
    if let Ok(whole @ Value::Object(_)) = parse_json(text.trim().as_bytes()) {
        return vec![whole];
    }
    let (_, text) = split_thinking(text);
    let mut found = Vec::new();
    let mut left = MOST_BYTES_SEEN;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(length) = thinking_at_start(rest) {
            at += length;
        } else if let Some((object, length)) = object_at_start(rest, &mut left) {
            found.push(object);
            at += length;
        } else {
            let next = rest.char_indices().skip(1).find(|(_, character)| "{<".contains(*character));
            at += next.map_or(rest.len(), |(index, _)| index);
        }
    }
    found
}

fn object_at_start(text: &str, left: &mut usize) -> Option<(Value, usize)> {
    let length = balanced(text.as_bytes(), left)?;
    let object = parse_json(text.get(..length)?.as_bytes()).ok().filter(Value::is_object)?;
    Some((object, length))
}

/// Bytes up to the brace that closes the first one, those in strings not counted.
fn balanced(bytes: &[u8], left: &mut usize) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    if bytes.first() != Some(&b'{') {
        return None;
    }
    for (index, byte) in bytes.iter().enumerate() {
        *left = left.checked_sub(1)?;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

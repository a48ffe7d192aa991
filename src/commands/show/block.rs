//! Texts and JSON values as lines for a terminal, and how many of them are shown.

use serde_json::Value;

use crate::text::head;

/// Longest line where lines are shortened, in bytes.
const LONGEST_LINE_BYTES: usize = 400;

/// The lines of a text; JSON text of an object or list is laid out.
pub fn lines_of_text(text: &str) -> Vec<String> {
    let laid_out = text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten();
    match laid_out {
        Some(value @ (Value::Object(_) | Value::Array(_))) => lines_of_value(&value),
        _ => text.lines().map(str::to_owned).collect(),
    }
}

/// The lines of a value: `name: value` for an object, with texts of several lines below their name.
pub fn lines_of_value(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                lines.extend(named(&format!("{name}:"), value, is_one_line(value)));
            }
        }
        Value::Array(values) if !values.is_empty() => {
            for value in values {
                lines.extend(named("-", value, true));
            }
        }
        Value::Null => {}
        Value::String(text) if !text.is_empty() => lines.extend(text.lines().map(str::to_owned)),
        other => lines.push(other.to_string()),
    }
    lines
}

fn is_one_line(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains('\n'),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    }
}

/// The value behind its name, in the same line or below it.
fn named(name: &str, value: &Value, same_line: bool) -> Vec<String> {
    let lines = if value.is_null() { vec!["null".to_owned()] } else { lines_of_value(value) };
    let mut named = if same_line { Vec::new() } else { vec![name.to_owned()] };
    for line in lines {
        let lead = if named.is_empty() { format!("{name} ") } else { "  ".to_owned() };
        named.push(format!("{lead}{line}"));
    }
    if named.is_empty() { vec![name.to_owned()] } else { named }
}

/// Lines as they are shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Shortened {
    /// The first ones.
    pub head: Vec<String>,
    /// How many are left out after them.
    pub left_out: usize,
    /// The last ones.
    pub tail: Vec<String>,
}

/// How many lines are shown of a longer text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// From its beginning.
    pub first: usize,
    /// From its end: results of tests stand there.
    pub last: usize,
}

/// At most so many of the lines, none of them endless. `None` shows everything.
pub fn shortened(mut lines: Vec<String>, limit: Option<Limit>) -> Shortened {
    let Some(Limit { first, last }) = limit else { return Shortened { head: lines, left_out: 0, tail: Vec::new() } };
    let mut tail = Vec::new();
    let mut left_out = 0;
    // Leaving out one line to say so would save nothing.
    if lines.len() > first + last + 1 {
        tail = lines.split_off(lines.len() - last);
        left_out = lines.len() - first;
        lines.truncate(first);
    }
    let cut = |lines: Vec<String>| lines.into_iter().map(cut_line).collect();
    Shortened { head: cut(lines), left_out, tail: cut(tail) }
}

fn cut_line(line: String) -> String {
    if line.len() <= LONGEST_LINE_BYTES {
        return line;
    }
    let kept = head(&line, LONGEST_LINE_BYTES);
    format!("{kept} [… {} characters left out …]", line[kept.len()..].chars().count())
}

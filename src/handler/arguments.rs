//! Tool arguments as models send them: absent, empty, encoded twice, broken (cases C01, C02). Pure.

use serde_json::Value;

use crate::chat::Arguments;
use crate::ports::ToolSpec;
use crate::text::{head, head_and_tail, parse_json};

const LONGEST_ECHO_BYTES: usize = 200;
const LONGEST_SCHEMA_BYTES: usize = 800;

/// Makes an object that fits the tool out of what was sent.
///
/// # Errors
/// What is wrong, for the model; then nothing must run.
pub fn normalise(sent: Option<&Value>, spec: &ToolSpec) -> Result<Arguments, String> {
    let mut arguments = object(sent).map_err(|why| explain(&why, sent, spec))?;
    decode_nested(&mut arguments, spec);
    let required = spec.schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !arguments.contains_key(name) {
            return Err(explain(&format!("`{name}` is missing"), None, spec));
        }
    }
    Ok(arguments)
}

fn object(sent: Option<&Value>) -> Result<Arguments, String> {
    let mut value = sent.cloned().unwrap_or_default();
    // Text holds the object; text in text holds it encoded twice. No model was seen to do it three times.
    for _ in 0..2 {
        match value {
            Value::String(text) if text.trim().is_empty() => value = Value::Null,
            Value::String(text) => {
                value = parse_json(text.as_bytes()).map_err(|error| format!("not valid JSON ({error})"))?;
            }
            _ => {}
        }
    }
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Arguments::new()),
        Value::Array(_) => Err("a list, not an object".into()),
        _ => Err("not an object".into()),
    }
}

/// Decodes a text where the schema wants a list or an object and the text holds one. Where the
/// schema wants a text, it stays.
fn decode_nested(arguments: &mut Arguments, spec: &ToolSpec) {
    for (name, value) in arguments {
        let wanted = spec.schema.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str);
        let Value::String(text) = &*value else { continue };
        let decoded = match wanted {
            Some("array") => serde_json::from_str(text).ok().filter(Value::is_array),
            Some("object") => serde_json::from_str(text).ok().filter(Value::is_object),
            Some("integer") => text.trim().parse::<i64>().ok().map(Value::from),
            _ => None,
        };
        if let Some(decoded) = decoded {
            *value = decoded;
        }
    }
}

fn explain(why: &str, sent: Option<&Value>, spec: &ToolSpec) -> String {
    let echo = sent.map(|sent| match sent {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let echo =
        echo.map(|text| format!(" You sent: {}", head_and_tail(&text, LONGEST_ECHO_BYTES, None))).unwrap_or_default();
    let schema = spec.schema.to_string();
    let schema = head(&schema, LONGEST_SCHEMA_BYTES);
    format!("Nothing was run: the arguments of `{}` are wrong: {why}.{echo}\nThey must fit: {schema}", spec.wire_name)
}

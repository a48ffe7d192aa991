//! Schemas of arguments, as strict model servers take them: what is legal stays as it is, what is refused
//! somewhere becomes something that allows at least as much. The MCP server still checks what it gets.
//!
//! What is refused: no `type`, no `properties` (OpenAI); anything but an object, `oneOf`, `anyOf`, `allOf`,
//! `enum`, `not` at the top (OpenAI, Anthropic, Gemini); references, lists without `items` and required
//! properties that do not exist (Gemini, many local servers).

mod subschema;
mod united;

use serde_json::{Map, Value, json};

use subschema::Walk;

/// `schema` with all of that repaired; `None` where the server gave none.
pub fn repaired(schema: Option<&Value>) -> Value {
    let Some(root @ Value::Object(_)) = schema else { return nothing() };
    let Value::Object(inlined) = Walk::over(root) else { return nothing() };
    let mut top = united::united(inlined);
    for keyword in ["$schema", "$id", "$anchor", "$comment", "$vocabulary", "enum", "const", "not"] {
        top.remove(keyword);
    }
    if !united::may_be_object(&top) {
        return match top.remove("description") {
            Some(description) => json!({ "type": "object", "properties": {}, "description": description }),
            None => nothing(),
        };
    }
    top.insert("type".into(), "object".into());
    if !top.get("properties").is_some_and(Value::is_object) {
        top.insert("properties".into(), json!({}));
    }
    require_only_what_exists(&mut top);
    Value::Object(top)
}

/// The schema of a tool without arguments.
fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// Leaves of `required` what is the name of a property; for a schema that names its properties.
fn require_only_what_exists(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let Some(Value::Array(required)) = schema.get("required") else { return };
    let mut kept: Vec<Value> = Vec::new();
    for name in required {
        if name.as_str().is_some_and(|name| properties.contains_key(name)) && !kept.contains(name) {
            kept.push(name.clone());
        }
    }
    if kept.len() == required.len() {
        return;
    }
    if kept.is_empty() {
        schema.remove("required");
    } else {
        schema.insert("required".into(), kept.into());
    }
}

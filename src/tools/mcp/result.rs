//! What a tool of an MCP server gave, as the model sees it. Every shape that servers really send has a
//! reading (case C39); nothing of it fails, and no base64 gets through.

use std::borrow::Cow;

use serde_json::Value;

use crate::ports::ToolResult;
use crate::text::{as_displayed, fold_data_uris, head};

/// Names and types from a server, in a note.
const LONGEST_NAME_BYTES: usize = 200;

/// Reads the result of `tools/call`.
pub fn read(result: &Value) -> ToolResult {
    let mut parts = Parts::default();
    match result.get("content") {
        Some(Value::Array(list)) => list.iter().for_each(|part| parts.add(part)),
        None | Some(Value::Null) => {}
        // One part, or its text, where a list of parts should be.
        Some(part) => parts.add(part),
    }
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    // A note of an image is no text that says what the structured part says (case C39).
    if let Some(structured) = structured.filter(|_| !parts.say_something) {
        parts.text(&structured.to_string());
    }
    // A result of none of the known shapes is shown as it is.
    if result.get("content").is_none() && structured.is_none() && !is_empty(result) {
        parts.text(&result.to_string());
    }
    let is_error = match result.get("isError") {
        Some(Value::Bool(is_error)) => *is_error,
        Some(Value::String(word)) => word.eq_ignore_ascii_case("true"),
        _ => false,
    };
    let text = parts.out.join("\n");
    let text = match (text.trim().is_empty(), is_error) {
        (true, true) => "tool failed without message".to_owned(),
        (true, false) => "the tool worked and returned nothing".to_owned(),
        (false, _) => text,
    };
    let displayed = as_displayed(&text);
    // JSON comes in one line, so long lines stay whole; data in them does not.
    match fold_data_uris(&displayed) {
        Cow::Borrowed(_) => ToolResult { is_error, ..ToolResult::good(displayed) },
        Cow::Owned(folded) => ToolResult { is_error, whole: Some(displayed.into_owned()), ..ToolResult::good(folded) },
    }
}

fn is_empty(result: &Value) -> bool {
    match result {
        Value::Null => true,
        Value::Object(fields) => fields.keys().all(|name| matches!(name.as_str(), "_meta" | "isError")),
        _ => false,
    }
}

/// The parts of a result as they become text.
#[derive(Default)]
struct Parts {
    out: Vec<String>,
    /// There is more than notes.
    say_something: bool,
}

impl Parts {
    fn text(&mut self, text: &str) {
        self.say_something |= !text.trim().is_empty();
        self.out.push(text.to_owned());
    }

    fn note(&mut self, note: String) {
        self.out.push(format!("[{note}]"));
    }

    fn add(&mut self, part: &Value) {
        let field = |name: &str| part.get(name).and_then(Value::as_str);
        match (part, field("type")) {
            (Value::String(text), _) => self.text(text),
            (Value::Null, _) => {}
            (_, Some("text")) => match part.get("text") {
                Some(Value::String(text)) => self.text(text),
                Some(Value::Null) | None => {}
                Some(other) => self.text(&other.to_string()),
            },
            (_, Some(kind @ ("image" | "audio"))) => {
                let data = field("data").unwrap_or_default();
                self.note(format!("{kind}, {}, {} bytes, not shown", name(field("mimeType")), decoded_bytes(data)));
            }
            (_, Some("resource_link")) => {
                let title = field("title").or(field("name")).map(|title| format!("{} ", name(Some(title))));
                let uri = name(field("uri"));
                let about = field("description").map(|about| format!(": {}", head(about, LONGEST_NAME_BYTES)));
                self.say_something = true;
                self.note(format!("resource {}{uri}{}", title.unwrap_or_default(), about.unwrap_or_default()));
            }
            (_, Some("resource")) => self.resource(part.get("resource").unwrap_or(&Value::Null)),
            (_, Some(kind)) => self.note(format!("a part of the type `{}`, not shown", name(Some(kind)))),
            (_, None) => self.text(&part.to_string()),
        }
    }

    fn resource(&mut self, resource: &Value) {
        let field = |name: &str| resource.get(name).and_then(Value::as_str);
        let uri = name(field("uri"));
        match (field("text"), field("blob")) {
            (Some(text), _) => {
                self.note(format!("resource {uri}"));
                self.text(text);
            }
            (None, Some(blob)) => {
                self.note(format!(
                    "resource {uri}, {}, {} bytes, not shown",
                    name(field("mimeType")),
                    decoded_bytes(blob)
                ));
            }
            (None, None) => self.note(format!("resource {uri}, without content")),
        }
    }
}

fn name(text: Option<&str>) -> &str {
    head(text.unwrap_or("unknown"), LONGEST_NAME_BYTES)
}

/// How many bytes a text in base64 stands for; it is not decoded for that.
fn decoded_bytes(base64: &str) -> usize {
    let digits = base64.bytes().filter(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte)).count();
    digits * 3 / 4
}

//! Recorded replies, written down by the test that needs them.

use serde_json::{Value, json};

/// A cassette in the making.
#[derive(Default, Clone)]
pub struct Cassette(Vec<Value>);

impl Cassette {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn then(mut self, line: Value) -> Self {
        self.0.push(line);
        self
    }

    /// Runs a shell command.
    pub fn runs(self, command: &str) -> Self {
        self.then(call("command-executor_execute_command", json!({ "command": command })))
    }

    /// Creates a file.
    pub fn creates(self, path: &str, text: &str) -> Self {
        self.then(call("text-editor_text_editor", json!({ "command": "create", "path": path, "file_text": text })))
    }

    /// Ends the task as done.
    pub fn finishes(self, summary: &str) -> Self {
        self.then(finish("done", summary))
    }

    /// The next line's turn fails once for so many `times`, ready again at once.
    pub fn fails_shortly(self, message: &str, times: u32) -> Self {
        self.then(json!({ "error": { "kind": "later", "message": message, "times": times, "retry_after_seconds": 0 } }))
    }

    /// From here on every turn fails, for at least an hour.
    pub fn fails(self, kind: &str, message: &str) -> Self {
        self.then(json!({ "error": { "kind": kind, "message": message, "retry_after_seconds": 3600 } }))
    }

    /// The lines, for a server that answers with them.
    pub fn lines(&self) -> &[Value] {
        &self.0
    }

    pub fn to_text(&self) -> String {
        self.0.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A reply with one call.
pub fn call(name: &str, arguments: Value) -> Value {
    calls(&[(name, arguments)])
}

/// A reply with several calls; arguments as a real server sends them, JSON in text.
pub fn calls(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            json!({ "id": format!("call_{index}"), "type": "function",
                    "function": { "name": name, "arguments": arguments.to_string() } })
        })
        .collect();
    json!({ "role": "assistant", "content": null, "tool_calls": calls,
            "usage": { "prompt_tokens": 100, "completion_tokens": 10 } })
}

/// A reply that is text alone.
pub fn says(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A reply that ends the task.
pub fn finish(status: &str, summary: &str) -> Value {
    call("finish", json!({ "status": status, "summary": summary }))
}

//! The port to tools: servers of them, what they offer and what a call gave.

use crate::chat::Arguments;

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name on the wire; unique in the toolbox.
    pub wire_name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: serde_json::Value,
}

/// One server of tools: built in, or an MCP server.
pub trait ToolServer {
    /// Its name (`text-editor`).
    fn name(&self) -> &str;
    /// Its tools; `wire_name` holds the bare tool name here, the toolbox makes it unique.
    fn tools(&self) -> Vec<ToolSpec>;
    /// Runs one tool. Failing is a result for the model, never an error of ours.
    fn call(&mut self, tool: &str, arguments: &Arguments) -> ToolResult;
    /// Why none of its tools can be used for the rest of the task; `None` while they can.
    fn trouble(&self) -> Option<Trouble> {
        None
    }
}

/// Why a server of tools is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The reason for everybody, without a final period.
    pub why: String,
    /// The reason for the operator: with what the server said, which may hold what is nobody's business.
    pub explained: String,
    /// It may be over later without anybody mending anything.
    pub may_pass: bool,
    /// The task cannot do without it.
    pub is_fatal: bool,
}

/// What a tool call gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Text for the model.
    pub text: String,
    /// All of it, where `text` shows less; for a file beside the history.
    pub whole: Option<String>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Exit code, where a command ran to its end.
    pub exit_code: Option<i32>,
}

impl ToolResult {
    /// A result that worked.
    pub fn good(text: impl Into<String>) -> Self {
        Self { text: text.into(), whole: None, is_error: false, exit_code: None }
    }

    /// A failure, with what the model can do about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), whole: None, is_error: true, exit_code: None }
    }
}

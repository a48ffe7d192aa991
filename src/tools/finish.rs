//! The `finish` tool: how a model ends its task. The loop answers it; this is its shape and how its
//! arguments are read.

use serde_json::{Value, json};

use crate::chat::Arguments;
use crate::ports::ToolSpec;
use crate::task::Outcome;

/// The tool's name on the wire.
pub const NAME: &str = "finish";

/// The tool as the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec {
        wire_name: NAME.into(),
        description: "End the task. Call it alone, after the work is done and checked (status done), or when it \
                      cannot be done (status blocked)."
            .into(),
        schema: json!({
            "type": "object",
            "properties": {
                "status": { "type": "string", "enum": ["done", "blocked"] },
                "summary": {
                    "type": "string",
                    "description": "For the person who asked: what you did and how you checked it, or why you are blocked."
                }
            },
            "required": ["status", "summary"]
        }),
    }
}

/// The outcome a call asks for.
///
/// # Errors
/// What is wrong with the arguments, for the model.
pub fn outcome(arguments: &Arguments) -> Result<Outcome, String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let summary = text("summary");
    match text("status").as_str() {
        _ if summary.is_empty() => Err("`summary` must say what was done, or why you are blocked".into()),
        "done" => Ok(Outcome::completed(summary)),
        "blocked" => Ok(Outcome { summary: summary.clone(), ..Outcome::failed("the model says it is blocked") }),
        other => Err(format!("`status` must be `done` or `blocked`, not `{}`", crate::text::head(other, 40))),
    }
}

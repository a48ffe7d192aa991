//! Ollama's chat format, both ways. Pure. Source: Ollama's API, "Generate a chat completion"
//! (github.com/ollama/ollama, docs/api.md and api/types.go).

use serde::Serialize;
use serde_json::Value;

use crate::chat::{Message, Reasoning, Role, Usage};
use crate::ports::{FinishReason, ModelProfile, RawToolCall, Reply, ToolSpec};
use crate::text::split_thinking;

/// Where the thinking of a model stands in a message.
const THINKING: &str = "thinking";

/// A request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    /// One whole answer.
    stream: bool,
    /// False: newer servers refuse what does not fit instead of dropping its front. Older ones do
    /// not know the field and pass over it.
    truncate: bool,
    /// False: a full window ends the answer instead of dropping the front in the middle of it.
    shift: bool,
    options: Options,
}

#[derive(Serialize)]
struct Options {
    /// The window. Without it the server takes one of a few thousand tokens.
    num_ctx: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    /// Never null: that was refused (case C08).
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
}

#[derive(Serialize)]
struct WireCall<'a> {
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    /// An object here, not text (case C03).
    arguments: Value,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: OfferedFunction<'a>,
}

#[derive(Serialize)]
struct OfferedFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Body<'a> {
    pub(super) fn new(profile: &'a ModelProfile, messages: &'a [Message], tools: &'a [ToolSpec]) -> Self {
        let tools = tools.iter().map(|spec| WireTool {
            r#type: "function",
            function: OfferedFunction {
                name: &spec.wire_name,
                description: &spec.description,
                parameters: &spec.schema,
            },
        });
        Self {
            model: &profile.model,
            messages: messages.iter().map(wire_message).collect(),
            tools: tools.collect(),
            stream: false,
            truncate: false,
            shift: false,
            options: Options { num_ctx: profile.context_tokens, num_predict: profile.max_output_tokens },
        }
    }
}

fn wire_message(message: &Message) -> WireMessage<'_> {
    let calls = message.tool_calls.iter().map(|call| WireCall {
        function: CalledFunction {
            name: &call.name,
            arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
        },
    });
    WireMessage {
        role: message.role.name(),
        content: &message.content,
        thinking: message.reasoning_for(THINKING),
        tool_calls: calls.collect(),
        tool_name: message.tool_name.as_deref().filter(|_| message.role == Role::Tool),
    }
}

/// The reply in a server's answer; `None` when there is no message in it (case C06).
pub(super) fn reply(answer: &Value) -> Option<Reply> {
    let message = answer.get("message").filter(|message| message.is_object())?;
    let text = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
    let (inside, content) = split_thinking(text("content"));
    let reasoning = match text(THINKING) {
        "" => Reasoning::inside_text(inside),
        thinking => Some(Reasoning { field: THINKING.into(), text: thinking.into() }),
    };
    let tool_calls: Vec<RawToolCall> =
        message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(raw_call).collect();
    let reason = answer.get("done_reason").and_then(Value::as_str).unwrap_or_default();
    // "load" and "unload": the model was brought in or thrown out, and nothing was said.
    if reason.ends_with("load") && content.is_empty() && tool_calls.is_empty() {
        return None;
    }
    Some(Reply {
        content: content.to_owned(),
        tool_calls,
        reasoning,
        finish: if reason == "length" { FinishReason::Length } else { FinishReason::Ended },
        usage: usage(answer),
    })
}

fn raw_call(call: &Value) -> RawToolCall {
    let function = call.get("function");
    let field = |name: &str| function.and_then(|function| function.get(name)).filter(|sent| !sent.is_null());
    RawToolCall {
        id: call.get("id").and_then(Value::as_str).map(str::to_owned),
        name: field("name").and_then(Value::as_str).map(str::to_owned),
        arguments: field("arguments").cloned(),
        extra: None,
    }
}

/// What the server counted; `None` unless both are known. A request that is cached as a whole is
/// left out by some versions.
fn usage(answer: &Value) -> Option<Usage> {
    let count = |name: &str| answer.get(name).and_then(Value::as_u64);
    Some(Usage {
        prompt_tokens: count("prompt_eval_count").filter(|count| *count > 0)?,
        completion_tokens: count("eval_count")?,
        cached_tokens: 0,
    })
}

//! The chat completions format, both ways: our history as a request every strict server takes, and
//! a reply of any server as ours. Pure. Source: OpenAI's API reference, "Create chat completion"
//! (platform.openai.com/docs/api-reference/chat/create); the deviations stand beside the code.

use serde::Serialize;
use serde_json::Value;

use crate::chat::{Message, Reasoning, Role, Usage};
use crate::ports::{FinishReason, RawToolCall, Reply, ToolSpec};
use crate::text::split_thinking;

/// Where DeepSeek, and servers that do as it does, put what the model thought, and want it back.
const REASONING: &str = "reasoning_content";

/// A request. Nothing in it but what the reference names: strict servers refuse unknown fields.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    /// Absent without tools: an empty list is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    /// Never null: LM Studio and Ollama have refused that (case C08).
    content: &'a str,
    /// As it came, and only where it came: other servers may not know the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
    /// Gemini's signature of its thinking; a call without its own is refused
    /// (ai.google.dev/gemini-api/docs/thought-signatures).
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
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
    /// `tool_choice` is left out: its default with tools is `auto`, and some servers know no other.
    pub(super) fn new(model: &'a str, messages: &'a [Message], tools: &'a [ToolSpec], most: Option<u64>) -> Self {
        let tools = tools.iter().map(|spec| WireTool {
            r#type: "function",
            function: OfferedFunction {
                name: &spec.wire_name,
                description: &spec.description,
                parameters: &spec.schema,
            },
        });
        Self {
            model,
            messages: messages.iter().map(wire_message).collect(),
            tools: tools.collect(),
            max_completion_tokens: most,
        }
    }
}

fn wire_message(message: &Message) -> WireMessage<'_> {
    let calls = message.tool_calls.iter().map(|call| WireCall {
        id: &call.id,
        r#type: "function",
        function: CalledFunction { name: &call.name, arguments: &call.arguments },
        extra_content: call.extra.as_ref(),
    });
    WireMessage {
        role: message.role.name(),
        content: &message.content,
        reasoning_content: message.reasoning_for(REASONING),
        tool_calls: calls.collect(),
        tool_call_id: message.tool_call_id.as_deref().filter(|_| message.role == Role::Tool),
    }
}

/// The reply in a server's answer; `None` when there is no message in it (case C06).
///
/// Read field by field: an odd one must not cost the rest of the reply.
pub(super) fn reply(answer: &Value) -> Option<Reply> {
    let choice = answer.pointer("/choices/0")?;
    let message = choice.get("message").filter(|message| message.is_object())?;
    let mut content = text_of(message.get("content"));
    if content.is_empty() {
        // A refusal comes in a field of its own, beside a null content.
        content = text_of(message.get("refusal"));
    }
    let tool_calls: Vec<RawToolCall> =
        message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(raw_call).collect();
    let failed = choice.get("error").is_some_and(|error| !error.is_null());
    if failed && content.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
    let is_cut = ["length", "max_tokens", "model_length"].contains(&reason);
    let (inside, answer_text) = split_thinking(&content);
    Some(Reply {
        content: answer_text.to_owned(),
        tool_calls,
        reasoning: reasoning(message).or_else(|| Reasoning::inside_text(inside)),
        finish: if is_cut { FinishReason::Length } else { FinishReason::Ended },
        usage: answer.get("usage").and_then(usage),
    })
}

/// What the model thought; also an empty text of it, since it is wanted back as it came. `reasoning`
/// is what OpenRouter, vLLM and LM Studio call it, and never want back.
fn reasoning(message: &Value) -> Option<Reasoning> {
    let of = |field: &str| Some(Reasoning { field: field.into(), text: message.get(field)?.as_str()?.to_owned() });
    of(REASONING).or_else(|| of("reasoning").filter(|reasoning| !reasoning.text.is_empty()))
}

/// Text, or the text of a list of parts; parts that are no text (thinking, images) are left out.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(text_of_part).collect(),
        _ => String::new(),
    }
}

fn text_of_part(part: &Value) -> Option<&str> {
    match (part, part.get("type").and_then(Value::as_str)) {
        (Value::String(text), _) => Some(text),
        (_, None | Some("text" | "output_text")) => part.get("text").and_then(Value::as_str),
        _ => None,
    }
}

fn raw_call(call: &Value) -> RawToolCall {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let function = call.get("function");
    RawToolCall {
        id: text(call.get("id")),
        name: text(function.and_then(|function| function.get("name"))),
        arguments: function.and_then(|function| function.get("arguments")).filter(|sent| !sent.is_null()).cloned(),
        extra: call.get("extra_content").filter(|extra| extra.is_object()).cloned(),
    }
}

/// What the server counted; `None` unless request and reply are both known, since half a count
/// would be taken for the whole. Zero tokens of a request are no count either.
fn usage(usage: &Value) -> Option<Usage> {
    let count = |place: &str| usage.pointer(place).and_then(|count| count.as_u64().or_else(|| whole(count.as_f64()?)));
    let total = count("/total_tokens");
    let (prompt, completion) = (count("/prompt_tokens"), count("/completion_tokens"));
    let prompt_tokens = prompt.or_else(|| total?.checked_sub(completion?))?;
    Some(Usage {
        prompt_tokens: Some(prompt_tokens).filter(|count| *count > 0)?,
        completion_tokens: completion.or_else(|| total?.checked_sub(prompt?))?,
        cached_tokens: count("/prompt_tokens_details/cached_tokens").unwrap_or(0).min(prompt_tokens),
    })
}

fn whole(number: f64) -> Option<u64> {
    (0.0..1e15).contains(&number).then_some(number as u64)
}

//! The lines of `messages.jsonl` and `current.jsonl`, and our messages made from them. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{Message, Reasoning, Role, ToolCall, Usage};
use crate::sys::clock;

/// A line of the archive.
#[derive(Serialize, Deserialize)]
pub(super) struct ArchiveLine {
    pub(super) seq: u64,
    role: String,
    content: String,
    timestamp: String,
    tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<WireReasoning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<WireUsage>,
}

/// A line of the archive as opening needs it: only what is missing in `current.jsonl` is read whole.
#[derive(Deserialize)]
pub(super) struct ArchiveHead {
    pub(super) seq: u64,
    pub(super) role: String,
    #[serde(default)]
    pub(super) usage: Option<WireUsage>,
}

/// A line of what is sent.
#[derive(Serialize, Deserialize)]
pub(super) struct CurrentLine {
    role: String,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<WireReasoning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// Of a summary: the last message it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    through_seq: Option<u64>,
}

/// Where a message of what is sent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A message of the archive, with its number where it is known.
    Message(Option<u64>),
    /// A summary of all messages up to that number.
    Summary(Option<u64>),
}

impl Origin {
    /// The highest number of the archive that is covered up to here.
    pub(super) fn seq(self) -> Option<u64> {
        match self {
            Self::Message(seq) | Self::Summary(seq) => seq,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct WireCall {
    id: String,
    #[serde(rename = "type", default = "function_type")]
    kind: String,
    function: WireFunction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize, Deserialize)]
struct WireReasoning {
    #[serde(default)]
    field: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

/// What a call cost, as it stands in files of the context.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub(super) struct WireUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    #[serde(default)]
    cached_tokens: u64,
}

fn function_type() -> String {
    "function".into()
}

impl ArchiveLine {
    pub(super) fn new(seq: u64, message: &Message, usage: Option<Usage>) -> Self {
        Self {
            seq,
            role: message.role.name().into(),
            content: message.content.clone(),
            timestamp: clock::now_rfc3339(),
            tokens: message.estimated_tokens(),
            tool_name: message.tool_name.clone(),
            tool_calls: message.tool_calls.iter().map(WireCall::from).collect(),
            tool_call_id: message.tool_call_id.clone(),
            reasoning: message.reasoning.as_ref().map(WireReasoning::from),
            usage: usage.map(WireUsage::from),
        }
    }
}

impl CurrentLine {
    /// The line of a message. A summary is sent as a user message, since many servers take `system`
    /// only first, and stands in the file as `system`, as the seed has it.
    pub(super) fn new(message: &Message, origin: Origin) -> Self {
        let (role, seq, through_seq) = match origin {
            Origin::Message(seq) => (message.role, seq, None),
            Origin::Summary(through_seq) => (Role::System, None, through_seq),
        };
        Self {
            role: role.name().into(),
            content: message.content.clone(),
            tool_name: message.tool_name.clone(),
            tool_calls: message.tool_calls.iter().map(WireCall::from).collect(),
            tool_call_id: message.tool_call_id.clone(),
            reasoning: message.reasoning.as_ref().map(WireReasoning::from),
            seq,
            through_seq,
        }
    }

    /// The highest number of the archive that this line covers.
    pub(super) fn covers(&self) -> u64 {
        self.seq.max(self.through_seq).unwrap_or(0)
    }

    /// The message as it is sent. `is_first`: no line stands before it.
    pub(super) fn into_message(self, is_first: bool) -> (Message, Origin) {
        // A role we do not know would be refused by every server; as a user message nothing is lost.
        let role = Role::parse(&self.role).unwrap_or(Role::User);
        let is_summary = self.through_seq.is_some() || (role == Role::System && !is_first);
        let origin =
            if is_summary { Origin::Summary(self.through_seq.max(self.seq)) } else { Origin::Message(self.seq) };
        let message = Message {
            role: if is_summary { Role::User } else { role },
            content: self.content,
            tool_calls: self.tool_calls.into_iter().map(ToolCall::from).collect(),
            tool_call_id: self.tool_call_id,
            tool_name: self.tool_name,
            reasoning: self.reasoning.map(|kept| Reasoning { field: kept.field, text: kept.text }),
        };
        (message, origin)
    }
}

impl From<ArchiveLine> for CurrentLine {
    fn from(line: ArchiveLine) -> Self {
        Self {
            role: line.role,
            content: line.content,
            tool_name: line.tool_name,
            tool_calls: line.tool_calls,
            tool_call_id: line.tool_call_id,
            reasoning: line.reasoning,
            seq: Some(line.seq),
            through_seq: None,
        }
    }
}

impl From<&ToolCall> for WireCall {
    fn from(call: &ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            kind: function_type(),
            function: WireFunction { name: call.name.clone(), arguments: call.arguments.clone() },
            extra_content: call.extra.clone(),
        }
    }
}

impl From<WireCall> for ToolCall {
    fn from(call: WireCall) -> Self {
        let WireFunction { name, arguments } = call.function;
        Self { id: call.id, name, arguments, extra: call.extra_content }
    }
}

impl From<&Reasoning> for WireReasoning {
    fn from(reasoning: &Reasoning) -> Self {
        Self { field: reasoning.field.clone(), text: reasoning.text.clone() }
    }
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
        }
    }
}

impl From<WireUsage> for Usage {
    fn from(usage: WireUsage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
        }
    }
}

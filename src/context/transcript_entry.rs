//! The entries of a transcript, read field by field from lines of this program or of its predecessor:
//! what is missing or of the wrong kind is left out, the rest of the line is kept.

use serde_json::{Map, Value};

use super::loose_lines::{Damage, number_at, text_at};
use crate::chat::{Usage, estimate_tokens};

type Object = Map<String, Value>;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A message.
    Message(Box<Spoken>),
    /// A recorded call that no message shows: the predecessor's, or what damage left.
    Call(Box<CallRecord>),
    /// Messages were replaced by a summary.
    Summary(Box<SummaryEntry>),
    /// A plan was made or changed.
    Plan(Box<PlanEntry>),
    /// Something that cannot be read stood here.
    Damage(Damage),
}

/// A message as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    /// Number in the history.
    pub seq: Option<u64>,
    /// `system`, `user`, `assistant` or `tool`, or what else stands there; empty where nothing does.
    pub role: String,
    /// The text; JSON text where it was none.
    pub content: String,
    /// When, as it stands there.
    pub at: Option<String>,
    /// Estimated tokens.
    pub tokens: Option<u64>,
    /// The tool a result comes from.
    pub tool_name: Option<String>,
    /// Calls of the model.
    pub calls: Vec<Call>,
    /// What the call of the model cost, where the server said so.
    pub usage: Option<Usage>,
    /// The record of the call this is the result of.
    pub record: Option<CallRecord>,
    /// File in the context directory that has the whole of a text that was cut for the model.
    pub output_file: Option<String>,
}

/// A call of a tool in a message of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments: an object, or whatever stands there.
    pub arguments: Value,
}

/// A line of `tools.jsonl`.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    /// Number of the call.
    pub seq: Option<u64>,
    /// The tool.
    pub tool_name: String,
    /// What it was given.
    pub arguments: Value,
    /// What it gave; null where it failed.
    pub result: Value,
    /// How it failed.
    pub error: Option<String>,
    /// When, as it stands there.
    pub at: Option<String>,
    /// Exit code of a command.
    pub exit_code: Option<i64>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<u64>,
}

/// A line of `summaries.jsonl`, of this program or of its predecessor.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryEntry {
    /// Its number.
    pub id: Option<u64>,
    /// The text that stands for the messages.
    pub text: String,
    /// First message it stands for, where that is known.
    pub from_seq: Option<u64>,
    /// Last message it stands for.
    pub through_seq: Option<u64>,
    /// How many messages it stands for.
    pub messages: Option<u64>,
    /// Estimated tokens it saved.
    pub tokens_saved: Option<u64>,
    /// What asking for it cost, where the server said so.
    pub usage: Option<Usage>,
    /// When, as it stands there.
    pub at: Option<String>,
}

/// A line of `planning.jsonl`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEntry {
    /// Its number.
    pub id: Option<u64>,
    /// `initial`, `revision` and so on.
    pub kind: String,
    /// The plan: text, or an object.
    pub content: Value,
    /// When, as it stands there.
    pub at: Option<String>,
}

fn usage_in(object: &Object) -> Option<Usage> {
    let usage = object.get("usage")?.as_object()?;
    let number = |name| number_at(usage, name).unwrap_or_default();
    Some(Usage {
        prompt_tokens: number("prompt_tokens"),
        completion_tokens: number("completion_tokens"),
        cached_tokens: number("cached_tokens"),
    })
}

impl Spoken {
    /// Estimated tokens of the text and the calls.
    pub(super) fn estimated_tokens(&self) -> u64 {
        let of_call = |call: &Call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments.to_string());
        estimate_tokens(&self.content) + self.calls.iter().map(of_call).sum::<u64>()
    }

    pub(super) fn of(object: &Object) -> Self {
        let calls = object.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Self {
            seq: number_at(object, "seq"),
            role: text_at(object, "role").unwrap_or_default(),
            content: text_at(object, "content").unwrap_or_default(),
            at: text_at(object, "timestamp"),
            tokens: number_at(object, "tokens"),
            tool_name: text_at(object, "tool_name"),
            calls: calls.iter().map(Call::of).collect(),
            usage: usage_in(object),
            record: None,
            output_file: None,
        }
    }
}

impl Call {
    fn of(value: &Value) -> Self {
        let function = value.get("function").and_then(Value::as_object);
        let arguments = function.and_then(|function| function.get("arguments")).cloned().unwrap_or_default();
        let arguments = match arguments {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            other => other,
        };
        Self { name: function.and_then(|function| text_at(function, "name")).unwrap_or_default(), arguments }
    }
}

impl CallRecord {
    pub(super) fn of(object: &Object) -> Self {
        Self {
            seq: number_at(object, "seq"),
            tool_name: text_at(object, "tool_name").unwrap_or_default(),
            arguments: object.get("arguments").cloned().unwrap_or_default(),
            result: object.get("result").cloned().unwrap_or_default(),
            error: text_at(object, "error"),
            at: text_at(object, "timestamp"),
            exit_code: object.get("exit_code").and_then(Value::as_i64),
            duration_ms: number_at(object, "duration_ms"),
        }
    }

    /// The message holds the very text of the record. A result that is no text can be written in
    /// many ways; there the tool has to do.
    pub(super) fn is_of(&self, message: &Spoken) -> bool {
        let same_tool = message.tool_name.as_ref().is_none_or(|name| *name == self.tool_name);
        let same_text = match (&self.error, &self.result) {
            (Some(error), _) => *error == message.content,
            (None, Value::String(text)) => *text == message.content,
            _ => message.tool_name.is_some(),
        };
        same_tool && same_text
    }
}

impl SummaryEntry {
    pub(super) fn of(object: &Object) -> Self {
        let saved = || {
            let number = |name| number_at(object, name);
            number("original_tokens")?.checked_sub(number("summary_tokens")?)
        };
        Self {
            id: number_at(object, "id"),
            text: text_at(object, "summary").or_else(|| text_at(object, "content")).unwrap_or_default(),
            from_seq: number_at(object, "start_seq"),
            through_seq: number_at(object, "through_seq").or_else(|| number_at(object, "end_seq")),
            messages: number_at(object, "compressed_message_count"),
            tokens_saved: number_at(object, "tokens_saved").or_else(saved),
            usage: usage_in(object),
            at: text_at(object, "created_at").or_else(|| text_at(object, "timestamp")),
        }
    }
}

impl PlanEntry {
    pub(super) fn of(object: &Object) -> Self {
        Self {
            id: number_at(object, "id"),
            kind: text_at(object, "plan_type").unwrap_or_default(),
            content: object.get("plan_content").cloned().unwrap_or_default(),
            at: text_at(object, "created_at").or_else(|| text_at(object, "timestamp")),
        }
    }
}

impl From<CallRecord> for Entry {
    fn from(record: CallRecord) -> Self {
        Self::Call(Box::new(record))
    }
}

impl From<SummaryEntry> for Entry {
    fn from(summary: SummaryEntry) -> Self {
        Self::Summary(Box::new(summary))
    }
}

impl From<PlanEntry> for Entry {
    fn from(plan: PlanEntry) -> Self {
        Self::Plan(Box::new(plan))
    }
}

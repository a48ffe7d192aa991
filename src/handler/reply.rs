//! A model's reply made fit for the history: ids of our own, names and arguments that every strict
//! server takes, and for each call whether it may run. Pure.

use crate::chat::{Arguments, Reasoning, ToolCall, is_wire_name};
use crate::ports::{FinishReason, RawToolCall, Reply, ToolSpec};
use crate::text::parse_json;

use super::arguments;

/// A reply ready to be stored and acted on.
#[derive(Debug, PartialEq)]
pub struct Prepared {
    /// Text; may be empty.
    pub content: String,
    /// What the model thought before.
    pub reasoning: Option<Reasoning>,
    /// Calls with what to do about each, in order.
    pub calls: Vec<PreparedCall>,
    /// The reply was cut off at the output limit; none of its calls may run.
    pub is_cut: bool,
}

/// A call as it goes into the history, and its fate.
#[derive(Debug, PartialEq)]
pub struct PreparedCall {
    /// For the history.
    pub call: ToolCall,
    /// What to do.
    pub fate: Fate,
}

/// What happens to a call.
#[derive(Debug, PartialEq)]
pub enum Fate {
    /// It may run.
    Run(Arguments),
    /// The arguments do not fit; the text says why.
    Refuse(String),
    /// No such tool is on offer.
    Unknown,
    /// It was in a reply that was cut off.
    CutOff,
}

/// Prepares the `turn`-th reply. `max_output_tokens` is the limit the request had, if any.
pub fn prepare(reply: Reply, turn: u64, specs: &[ToolSpec], max_output_tokens: Option<u64>) -> Prepared {
    let used = reply.usage.map(|usage| usage.completion_tokens);
    let at_limit = max_output_tokens.is_some() && used >= max_output_tokens;
    // Some servers say "tool_calls" though the count sits on the limit (case C05).
    let is_cut = reply.finish == FinishReason::Length || (at_limit && reply.tool_calls.iter().any(has_broken_text));
    let calls = reply.tool_calls.into_iter().enumerate();
    let calls = calls.map(|(index, raw)| prepare_call(&raw, id(turn, index), specs, is_cut)).collect();
    Prepared { content: reply.content, reasoning: reply.reasoning, calls, is_cut }
}

fn prepare_call(raw: &RawToolCall, id: String, specs: &[ToolSpec], is_cut: bool) -> PreparedCall {
    let name = raw.name.as_deref().unwrap_or_default();
    let spec = specs.iter().find(|spec| spec.wire_name == name);
    let fate = match spec {
        _ if is_cut => Fate::CutOff,
        None => Fate::Unknown,
        Some(spec) => arguments::normalise(raw.arguments.as_ref(), spec).map_or_else(Fate::Refuse, Fate::Run),
    };
    let arguments = match &fate {
        Fate::Run(arguments) => serde_json::Value::Object(arguments.clone()).to_string(),
        // What is broken or cut is not sent back: a strict server would refuse the history for good.
        _ => "{}".into(),
    };
    PreparedCall { call: ToolCall { id, name: wire_name(name), arguments, extra: raw.extra.clone() }, fate }
}

/// Nine letters and digits: what the pickiest known server takes. Unique in the task by turn and place.
fn id(turn: u64, index: usize) -> String {
    format!("c{turn:05}{index:03}")
}

/// What of `name` every strict server takes.
pub(super) fn wire_name(name: &str) -> String {
    if is_wire_name(name) {
        return name.to_owned();
    }
    let kept = name.chars().filter(|character| character.is_ascii_alphanumeric() || "_-".contains(*character));
    let kept: String = kept.take(64).collect();
    if kept.is_empty() { "unnamed".into() } else { kept }
}

fn has_broken_text(call: &RawToolCall) -> bool {
    matches!(&call.arguments, Some(serde_json::Value::String(text))
        if !text.trim().is_empty() && parse_json(text.as_bytes()).is_err())
}

//! What comes next, read from the history alone: so a resumed task needs no code of its own. Pure.

use super::json_protocol::Protocol;
use crate::chat::{Message, Role, ToolCall};
use crate::task::Outcome;
use crate::tools::finish;

/// The next step of the loop.
#[derive(Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Ask the model.
    Ask,
    /// The model called no tool: remind it once.
    Remind,
    /// These calls have no result yet.
    Answer(Vec<ToolCall>),
    /// The task is over; the call of `finish`, where it still lacks its result.
    Finish(Outcome, Option<ToolCall>),
}

/// Stands for a reply with neither text nor calls, which strict servers refuse in a history.
pub const NO_ANSWER: &str = "(no answer)";

const CUT_MARK: &str = "(cut off at the output limit)";

/// The text of a reply that was cut off, marked as such: half an answer must not end a task.
pub fn cut_text(content: &str) -> String {
    format!("{}\n{CUT_MARK}", content.trim_end())
}

/// Whether a reply was marked by [`cut_text`].
pub fn is_cut_text(content: &str) -> bool {
    content.ends_with(CUT_MARK)
}

impl Protocol {
    /// Reads the next step from a history.
    pub fn next_step(self, history: &[Message]) -> NextStep {
        match self {
            Self::Native => next_step(history),
            Self::Json => next_step_by_calls(history),
        }
    }
}

/// As [`next_step`], where only a call ends a task: text is never taken for an end.
fn next_step_by_calls(history: &[Message]) -> NextStep {
    let is_text =
        || history.iter().rfind(|message| message.role == Role::Assistant).is_some_and(|m| m.tool_calls.is_empty());
    match next_step(history) {
        NextStep::Finish(..) if is_text() => NextStep::Remind,
        step => step,
    }
}

/// Reads the next step from a history.
pub fn next_step(history: &[Message]) -> NextStep {
    let Some(last) = history.iter().rposition(|message| message.role == Role::Assistant) else {
        return NextStep::Ask;
    };
    let (reply, after) = (&history[last], &history[last + 1..]);
    let unanswered: Vec<ToolCall> = reply
        .tool_calls
        .iter()
        .filter(|call| !after.iter().any(|message| message.tool_call_id.as_ref() == Some(&call.id)))
        .cloned()
        .collect();
    if let Some(outcome) = finishing(reply) {
        return NextStep::Finish(outcome, unanswered.into_iter().next());
    }
    if !unanswered.is_empty() {
        return NextStep::Answer(unanswered);
    }
    if !reply.tool_calls.is_empty() || !after.is_empty() {
        return NextStep::Ask;
    }
    let before = history[..last].iter().rfind(|message| message.role == Role::Assistant);
    let counts = |message: &Message| message.tool_calls.is_empty() && !is_cut_text(&message.content);
    if !counts(reply) || !before.is_some_and(counts) {
        return NextStep::Remind;
    }
    NextStep::Finish(
        match reply.content.trim() {
            NO_ANSWER => Outcome::failed("the model gave no answer, twice in a row"),
            text => Outcome::completed(text),
        },
        None,
    )
}

/// The outcome when a reply calls `finish`, alone and rightly.
fn finishing(reply: &Message) -> Option<Outcome> {
    let [call] = reply.tool_calls.as_slice() else { return None };
    let arguments = serde_json::from_str(&call.arguments).ok()?;
    (call.name == finish::NAME).then(|| finish::outcome(&arguments).ok()).flatten()
}

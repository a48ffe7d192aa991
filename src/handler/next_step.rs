//! What comes next, read from the history alone: so a resumed task needs no code of its own. Pure.

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
    if before.is_some_and(|message| message.tool_calls.is_empty()) {
        NextStep::Finish(Outcome::completed(reply.content.trim()), None)
    } else {
        NextStep::Remind
    }
}

/// The outcome when a reply calls `finish`, alone and rightly.
fn finishing(reply: &Message) -> Option<Outcome> {
    let [call] = reply.tool_calls.as_slice() else { return None };
    let arguments = serde_json::from_str(&call.arguments).ok()?;
    (call.name == finish::NAME).then(|| finish::outcome(&arguments).ok()).flatten()
}

//! A history that no server would take, made one that every server takes (case C11). Pure.

use crate::chat::{Message, Role, ToolCall};

/// Stands for a result that is not there.
const LOST: &str = "The result of this call was lost. Look at the state of things before you repeat it.";

/// A part of a mended history.
pub(super) enum Part {
    /// The message of that index, as it was.
    Kept(usize),
    /// A result for a call that had none.
    Added(Message),
}

/// `messages` without results that answer no call, and with results for calls that lack one; `None`
/// when nothing is wrong. Calls of the last reply may be open: whoever goes on with the task answers them.
pub(super) fn mended(messages: &[Message]) -> Option<Vec<Part>> {
    let mut parts = Vec::with_capacity(messages.len());
    let mut open: Vec<&ToolCall> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let answered = open.iter().position(|call| Some(&call.id) == message.tool_call_id.as_ref());
        let lost = match (message.role, answered) {
            (Role::Tool, None) => continue,
            // Results come in the order of the calls; what is passed over here never comes.
            (Role::Tool, Some(place)) => place,
            _ => open.len(),
        };
        parts.extend(open.drain(..lost).map(|call| Part::Added(Message::tool_result(call, LOST))));
        if message.role == Role::Tool {
            open.remove(0);
        }
        open.extend(&message.tool_calls);
        parts.push(Part::Kept(index));
    }
    let is_good = parts.len() == messages.len() && parts.iter().all(|part| matches!(part, Part::Kept(_)));
    (!is_good).then_some(parts)
}

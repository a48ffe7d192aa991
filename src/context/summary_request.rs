//! What a model is sent to sum up a part of a conversation: the part as plain text, quoted, in pieces
//! that fit. Pure.

use std::fmt::Write as _;

use crate::chat::{Message, Role, estimate_tokens, within_tokens};
use crate::prompts::{Prompt, Prompts};
use crate::text::fenced;

/// A message as text.
pub(super) fn transcribed(message: &Message) -> String {
    let mut text = match (message.role, &message.tool_name) {
        (Role::Tool, Some(tool)) => format!("[result of {tool}]\n"),
        (role, _) => format!("[{}]\n", role.name()),
    };
    text.push_str(message.content.trim());
    for call in &message.tool_calls {
        let _ = write!(text, "\n[call of {}] {}", call.name, call.arguments);
    }
    text
}

/// As many of `pieces` as fit into `tokens`, one at least, as one text; and how many they were.
pub(super) fn joined(pieces: &[String], tokens: u64) -> (usize, String) {
    let mut text = String::new();
    let (mut taken, mut left) = (0, tokens);
    for piece in pieces {
        let needed = estimate_tokens(piece) + 1;
        if taken > 0 && needed > left {
            break;
        }
        if taken > 0 {
            text.push_str("\n\n");
        }
        // One piece alone may be too long for any request.
        text.push_str(&within_tokens(piece, left, None));
        left = left.saturating_sub(needed);
        taken += 1;
    }
    (taken, text)
}

/// The parts of a request.
pub(super) struct Parts<'a> {
    /// What the whole conversation is about.
    pub(super) task: &'a str,
    /// The summary of what came before this part; empty when nothing did.
    pub(super) earlier: &'a str,
    /// The part to be summed up.
    pub(super) conversation: &'a str,
    /// The mark of quoted text.
    pub(super) fence: &'a str,
}

/// The request.
pub(super) fn request(prompts: &Prompts, parts: &Parts<'_>) -> [Message; 2] {
    let quoted = |text: &str| fenced(text, parts.fence);
    let system = prompts.render(Prompt::Summary, &[("fence", parts.fence)]);
    let earlier = if parts.earlier.is_empty() { "(none)".to_owned() } else { quoted(parts.earlier) };
    let values = [("task", quoted(parts.task)), ("earlier", earlier), ("conversation", quoted(parts.conversation))];
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    [Message::text(Role::System, system), Message::text(Role::User, prompts.render(Prompt::SummaryRequest, &values))]
}

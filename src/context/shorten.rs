//! Makes a conversation shorter without a model, where a summary cannot be had or is not enough:
//! the oldest results of tools first, then long arguments of calls. The archive keeps everything.

use serde_json::Value;

use super::TaskContext;
use crate::chat::{Message, Role, within_tokens};
use crate::error::Result;
use crate::text::head_and_tail;

/// What is left of a result, in estimated tokens.
const RESULT_TOKENS: u64 = 200;
/// What is left of a text in the arguments of a call, in bytes.
const ARGUMENT_BYTES: usize = 400;

/// Shortens what is sent by about `excess_tokens` estimated tokens, if that can be done. Returns
/// how many were saved.
///
/// # Errors
/// `Kind::Host` when `current.jsonl` cannot be written; the store must then be opened again.
pub fn shorten(context: &mut TaskContext, excess_tokens: u64) -> Result<u64> {
    let messages = &context.messages;
    let outputs = context.dir().join("outputs");
    let where_whole = |index: usize| {
        let path = outputs.join(format!("{}.txt", messages.seq_of(index)?));
        path.exists().then(|| std::path::absolute(&path).unwrap_or(path).display().to_string())
    };
    let shorter = shortened(messages.current(), messages.head_len(), excess_tokens, where_whole);
    if shorter.is_empty() {
        return Ok(0);
    }
    let count = shorter.len();
    let saved = context.messages.replace_messages(shorter)?;
    log::info!("{count} messages were shortened to fit the model's window, by about {saved} tokens");
    Ok(saved)
}

/// The messages behind `head` that must be replaced, each with its index.
fn shortened(
    messages: &[Message],
    head: usize,
    excess_tokens: u64,
    where_whole: impl Fn(usize) -> Option<String>,
) -> Vec<(usize, Message)> {
    let mut replaced: Vec<(usize, Message)> = Vec::new();
    let mut excess = excess_tokens;
    let last_reply = messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(messages.len());
    let results = messages.iter().enumerate().skip(head).filter(|(_, message)| message.role == Role::Tool);
    // The arguments of the last reply are what its results answer.
    let calls = messages.iter().enumerate().take(last_reply).skip(head).filter(|(_, m)| !m.tool_calls.is_empty());
    for (index, message) in results.chain(calls) {
        if excess == 0 {
            break;
        }
        let before = message.estimated_tokens();
        let shorter = if message.role == Role::Tool {
            let most = RESULT_TOKENS.max(before.saturating_sub(excess));
            Message { content: within_tokens(&message.content, most, where_whole(index).as_deref()), ..message.clone() }
        } else {
            with_short_arguments(message)
        };
        let saved = before.saturating_sub(shorter.estimated_tokens());
        if saved > 0 {
            excess = excess.saturating_sub(saved);
            replaced.push((index, shorter));
        }
    }
    replaced
}

fn with_short_arguments(message: &Message) -> Message {
    let mut message = message.clone();
    for call in &mut message.tool_calls {
        if let Ok(Value::Object(mut arguments)) = serde_json::from_str(&call.arguments) {
            for value in arguments.values_mut() {
                if let Value::String(text) = value {
                    *text = head_and_tail(text, ARGUMENT_BYTES, None);
                }
            }
            call.arguments = Value::Object(arguments).to_string();
        }
    }
    message
}

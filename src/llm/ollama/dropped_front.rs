//! Whether Ollama dropped the front of a request and said nothing (case C15). Pure. Older versions
//! answer a request that is longer than the window as if nothing were wrong; only the count tells.

use crate::chat::{Message, estimate_tokens};
use crate::ports::Request;
use crate::task::TaskId;

/// A request, and how many tokens the server counted in it.
#[derive(Debug)]
pub(super) struct LastCount {
    task: TaskId,
    phase: &'static str,
    messages: usize,
    /// Text of the first message.
    first: String,
    estimated: u64,
    counted: u64,
}

impl LastCount {
    pub(super) fn new(request: &Request<'_>, counted: u64) -> Self {
        let tools = request.tools.iter().map(|spec| estimate_tokens(&spec.schema.to_string()));
        Self {
            task: request.task,
            phase: request.phase,
            messages: request.messages.len(),
            first: request.messages.first().map(|message| message.content.clone()).unwrap_or_default(),
            estimated: request.messages.iter().map(Message::estimated_tokens).sum::<u64>() + tools.sum::<u64>(),
            counted,
        }
    }

    /// A count that fills the window leaves no room for the answer that came: the rest was cut. A
    /// count that fell although the conversation grew is one of a part, where by the last count the
    /// whole does not fit; where it does fit, the server counts only what it had not cached.
    pub(super) fn tells_of_a_dropped_front(&self, before: Option<&Self>, window_tokens: u64) -> bool {
        if self.counted >= window_tokens {
            return true;
        }
        let Some(before) = before.filter(|before| self.goes_on_from(before)) else { return false };
        let ratio = before.counted as f64 / before.estimated.max(1) as f64;
        let expected = self.estimated as f64 * ratio;
        self.counted < before.counted && expected > window_tokens as f64 * 0.9
    }

    fn goes_on_from(&self, before: &Self) -> bool {
        let is_same = self.task == before.task && self.phase == before.phase && self.first == before.first;
        is_same && self.messages > before.messages && self.estimated > before.estimated
    }
}

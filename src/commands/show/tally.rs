//! What a task cost, counted while its transcript goes by and taken from `llm_calls` where that has
//! all of it.

use super::facts::Facts;
use crate::chat::Usage;
use crate::context::{CallRecord, Cost, Entry};

/// The counts so far.
#[derive(Debug, Default)]
pub struct Tally {
    replies: u64,
    reported: Cost,
    /// Recorded tool calls.
    pub tool_calls: u64,
    /// Those that failed.
    pub tool_errors: u64,
    /// Time they took, in milliseconds.
    pub tool_ms: u64,
    /// When the last message was written, as it stands there.
    pub last_at: Option<String>,
}

/// Where the numbers of the model's calls come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Rows of `llm_calls`.
    LlmCalls,
    /// `usage` in `messages.jsonl` and `summaries.jsonl`: no failed calls, no times, no phases.
    Messages,
}

impl Source {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LlmCalls => "llm_calls",
            Self::Messages => "messages",
        }
    }
}

impl Tally {
    /// Counts one entry.
    pub fn count(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => {
                if message.role == "assistant" {
                    self.replies += 1;
                    self.count_usage(message.usage);
                }
                message.record.iter().for_each(|record| self.count_call(record));
                if message.at.is_some() {
                    self.last_at.clone_from(&message.at);
                }
            }
            Entry::Call(record) => self.count_call(record),
            Entry::Summary(summary) => {
                // One without a cost may have been made without a model.
                if summary.usage.is_some() {
                    self.count_usage(summary.usage);
                }
            }
            Entry::Plan(_) | Entry::Damage(_) => {}
        }
    }

    fn count_usage(&mut self, told: Option<Usage>) {
        let usage = told.unwrap_or_default();
        self.reported = self.reported.plus(Cost {
            calls: 1,
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
            estimated_calls: u64::from(told.is_none()),
            ..Cost::default()
        });
    }

    fn count_call(&mut self, record: &CallRecord) {
        self.tool_calls += 1;
        self.tool_errors += u64::from(record.error.is_some());
        self.tool_ms = self.tool_ms.saturating_add(record.duration_ms.unwrap_or_default());
    }

    /// The sums over all calls of the model. A database that was lost or made anew in between knows
    /// fewer calls than the history has replies; then the history is the better source.
    pub fn cost(&self, facts: &Facts) -> (Source, Cost) {
        let noted = facts.phases.iter().fold(Cost::default(), |sum, phase| sum.plus(phase.cost));
        let answered = noted.calls - noted.failed_calls.min(noted.calls);
        if noted.calls > 0 && answered >= self.replies {
            (Source::LlmCalls, noted)
        } else {
            (Source::Messages, self.reported)
        }
    }
}

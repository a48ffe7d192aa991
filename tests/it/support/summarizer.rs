//! A model inside the test that writes summaries, and judges what it is asked.

use std::collections::VecDeque;

use coding_agent::chat::{Message, check_history};
use coding_agent::error::{Error, Result};
use coding_agent::ports::{FinishReason, Llm, ModelProfile, Reply, Request};

/// Long enough to be a summary, and short.
pub const NOTES: &str = "Changed add.sh. `make test` ended with exit code 0. Left: the README.";

/// Answers with a script, then always with `NOTES`.
pub struct Summarizer {
    profile: ModelProfile,
    script: VecDeque<Result<Reply>>,
    /// Requests of more estimated tokens are too long for it.
    pub most_tokens: u64,
    /// The texts it was asked to sum up.
    pub asked: Vec<String>,
}

impl Summarizer {
    pub fn new(script: impl IntoIterator<Item = Result<Reply>>) -> Self {
        let profile =
            ModelProfile { provider: "test".into(), model: "m".into(), context_tokens: 8000, max_output_tokens: None };
        Self { profile, script: script.into_iter().collect(), most_tokens: u64::MAX, asked: Vec::new() }
    }
}

pub fn says_summary(text: &str) -> Reply {
    Reply { content: text.into(), tool_calls: vec![], reasoning: None, finish: FinishReason::Ended, usage: None }
}

impl Llm for Summarizer {
    fn model(&self) -> &ModelProfile {
        &self.profile
    }

    fn probe(&mut self) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        assert_eq!(check_history(request.messages), Ok(()));
        assert_eq!((request.phase, request.tools), ("summary", &[][..]));
        self.asked.push(request.messages[1].content.clone());
        let tokens: u64 = request.messages.iter().map(Message::estimated_tokens).sum();
        if tokens > self.most_tokens {
            return Err(Error::task("prompt is too long").too_large());
        }
        self.script.pop_front().unwrap_or_else(|| Ok(says_summary(NOTES)))
    }
}

//! Rate limits: the headers on every answer, and a budget that a test may set. An answer of 304 costs as
//! much as any other.

use super::super::fake_forge::faults::Fault;
use super::super::fake_forge::wire::Reply;

/// Requests per minute of an account at gitlab.com.
const LIMIT: u64 = 2000;

#[derive(Debug)]
pub struct Rate {
    used: u64,
    /// Requests left before the limit; `None` never runs out.
    pub budget: Option<u64>,
    /// When the next minute begins, where a test says so.
    pub reset: Option<i64>,
}

impl Rate {
    pub fn new() -> Self {
        Self { used: 0, budget: None, reset: None }
    }

    /// The refusal when the budget is used up, else spends one of it.
    pub fn spend(&mut self) -> Option<Fault> {
        self.used += 1;
        match &mut self.budget {
            Some(0) => Some(Fault::Primary { status: 429, reset: self.reset.unwrap_or(0) }),
            Some(left) => {
                *left -= 1;
                None
            }
            None => None,
        }
    }

    /// Adds the headers.
    pub fn mark(&self, reply: Reply, now: i64, fault: Option<&Fault>) -> Reply {
        let left = LIMIT.saturating_sub(self.used).max(1);
        let (left, reset) = match fault {
            Some(Fault::Primary { reset, .. }) => (0, *reset),
            _ => (self.budget.map_or(left, |budget| budget.min(left)), self.reset.unwrap_or(now + 60)),
        };
        reply
            .with("ratelimit-limit", LIMIT.to_string())
            .with("ratelimit-observed", (LIMIT - left).to_string())
            .with("ratelimit-remaining", left.to_string())
            .with("ratelimit-reset", reset.to_string())
            .with("ratelimit-name", "throttle_authenticated_api")
    }
}

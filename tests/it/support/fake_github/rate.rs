//! Rate limits: the headers on every answer, and a budget that a test may set.

use super::faults::Fault;
use super::wire::Reply;

#[derive(Debug)]
pub struct Rate {
    core_used: u64,
    search_used: u64,
    /// Requests left before the hourly limit; `None` never runs out.
    pub budget: Option<u64>,
    pub reset: i64,
    pub status: u16,
}

const CORE: u64 = 5000;
const SEARCH: u64 = 30;

impl Rate {
    pub fn new(now: i64) -> Self {
        Self { core_used: 0, search_used: 0, budget: None, reset: now + 3600, status: 403 }
    }

    /// The refusal when the budget is used up, else spends one of it.
    pub fn spend(&mut self, search: bool) -> Option<Fault> {
        *(if search { &mut self.search_used } else { &mut self.core_used }) += 1;
        match &mut self.budget {
            Some(0) => Some(Fault::Primary { status: self.status, reset: self.reset }),
            Some(left) => {
                *left -= 1;
                None
            }
            None => None,
        }
    }

    /// A 304 costs nothing.
    pub fn refund(&mut self, search: bool) {
        *(if search { &mut self.search_used } else { &mut self.core_used }) -= 1;
        if let Some(left) = &mut self.budget {
            *left += 1;
        }
    }

    /// Adds the headers; a primary limit shows that nothing remains.
    pub fn mark(&self, reply: Reply, search: bool, fault: Option<&Fault>) -> Reply {
        let (limit, used) = if search { (SEARCH, self.search_used) } else { (CORE, self.core_used) };
        let left = limit.saturating_sub(used).max(1);
        let left = self.budget.map_or(left, |budget| budget.min(left));
        let (left, reset) = match fault {
            Some(Fault::Primary { reset, .. }) => (0, *reset),
            _ => (left, self.reset),
        };
        reply
            .with("x-ratelimit-limit", limit.to_string())
            .with("x-ratelimit-remaining", left.to_string())
            .with("x-ratelimit-reset", reset.to_string())
            .with("x-ratelimit-used", (limit - left).to_string())
            .with("x-ratelimit-resource", if search { "search" } else { "core" })
    }
}

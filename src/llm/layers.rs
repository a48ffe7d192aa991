//! Wrappers of a model: one that tries again, one that remembers waits for the next start, one that writes
//! down what each call cost.

use std::time::{Duration, Instant};

use crate::budget::Account;
use crate::chat::estimate_tokens;
use crate::context::{LlmCall, TaskDb};
use crate::error::{Kind, Result};
use crate::ports::{Llm, ModelProfile, Reply, Request};
use crate::sys::{clock, signal};

/// Tries of one call in all.
const TRIES: u32 = 3;
/// A longer wait parks the task instead.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Wait before the second try; doubles.
const FIRST_SLEEP: Duration = Duration::from_secs(1);

/// Tries a call again after passing faults, if the wait is short.
#[derive(Debug)]
pub struct Retrying<L> {
    inner: L,
    sleep: fn(Duration),
}

impl<L: Llm> Retrying<L> {
    /// Wraps `inner`.
    pub fn new(inner: L) -> Self {
        Self { inner, sleep: clock::sleep }
    }

    /// Wraps `inner` with another way to wait, for tests.
    pub fn with_sleep(inner: L, sleep: fn(Duration)) -> Self {
        Self { inner, sleep }
    }
}

impl<L: Llm> Llm for Retrying<L> {
    fn model(&self) -> &ModelProfile {
        self.inner.model()
    }

    fn probe(&mut self) -> Result<()> {
        self.inner.probe()
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        let mut tried = 1;
        loop {
            let error = match self.inner.complete(request) {
                Err(error) if error.kind() == Kind::Later && error.allows_quick_retry() && tried < TRIES => error,
                done => return done,
            };
            let backoff = FIRST_SLEEP * 2u32.pow(tried - 1);
            // A quarter of jitter from the clock: nobody needs good randomness here.
            let jitter = backoff.mul_f64((clock::now_ms() % 256) as f64 / 1024.0);
            let told_ms = error.not_before_ms().map_or(0, |until_ms| until_ms.saturating_sub(clock::now_ms()));
            // An end that is over already (`Retry-After: 0`) does not mean "as fast as you can".
            let wait = Duration::from_millis(told_ms).max(backoff + jitter);
            if wait > LONGEST_SLEEP || signal::termination_requested() {
                return Err(error);
            }
            log::info!("the model did not answer ({error}); trying again in {} ms", wait.as_millis());
            (self.sleep)(wait);
            // A signal ends the sleep; nobody waits for another answer then.
            if signal::termination_requested() {
                return Err(error);
            }
            tried += 1;
        }
    }
}

/// Writes down how long the server wants to be left alone, so that the next start leaves it alone.
#[derive(Debug)]
pub struct Budgeted<L> {
    inner: L,
    account: Account,
}

impl<L: Llm> Budgeted<L> {
    /// Wraps `inner`, whose waits go to `account`.
    pub fn new(inner: L, account: Account) -> Self {
        Self { inner, account }
    }

    fn note<T>(&self, done: &Result<T>) {
        match done {
            Ok(_) => self.account.may_go_on(),
            Err(error) if error.kind() == Kind::Later => {
                if let Some(until_ms) = error.not_before_ms() {
                    self.account.must_wait(until_ms, error.sentence());
                }
            }
            Err(_) => {}
        }
    }
}

impl<L: Llm> Llm for Budgeted<L> {
    fn model(&self) -> &ModelProfile {
        self.inner.model()
    }

    fn probe(&mut self) -> Result<()> {
        let done = self.inner.probe();
        self.note(&done);
        done
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        let done = self.inner.complete(request);
        self.note(&done);
        done
    }
}

/// Adds a row to `llm_calls` for every call, good or bad.
#[derive(Debug)]
pub struct Ledger<'a, L> {
    inner: L,
    db: &'a std::cell::RefCell<TaskDb>,
}

impl<'a, L: Llm> Ledger<'a, L> {
    /// Wraps `inner`; rows go to `db`.
    pub fn new(inner: L, db: &'a std::cell::RefCell<TaskDb>) -> Self {
        Self { inner, db }
    }
}

impl<L: Llm> Llm for Ledger<'_, L> {
    fn model(&self) -> &ModelProfile {
        self.inner.model()
    }

    fn probe(&mut self) -> Result<()> {
        self.inner.probe()
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        let started = Instant::now();
        let done = self.inner.complete(request);
        let reply = done.as_ref().ok();
        let usage = reply.and_then(|reply| reply.usage);
        let estimated_prompt = || request.messages.iter().map(crate::chat::Message::estimated_tokens).sum();
        let estimated_completion = || reply.map_or(0, estimated_tokens);
        let profile = self.inner.model();
        self.db.borrow_mut().record_call(&LlmCall {
            uuid: request.task,
            phase: request.phase,
            provider: &profile.provider,
            model: &profile.model,
            prompt_tokens: usage.map_or_else(estimated_prompt, |usage| usage.prompt_tokens),
            completion_tokens: usage.map_or_else(estimated_completion, |usage| usage.completion_tokens),
            cached_tokens: usage.map_or(0, |usage| usage.cached_tokens),
            estimated: usage.is_none(),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            error: done.as_ref().err().map(ToString::to_string),
        });
        done
    }
}

fn estimated_tokens(reply: &Reply) -> u64 {
    let calls = reply.tool_calls.iter().map(|call| {
        let arguments = call.arguments.as_ref().map(|sent| match sent {
            serde_json::Value::String(text) => estimate_tokens(text),
            other => estimate_tokens(&other.to_string()),
        });
        estimate_tokens(call.name.as_deref().unwrap_or_default()) + arguments.unwrap_or_default()
    });
    estimate_tokens(&reply.content) + calls.sum::<u64>()
}

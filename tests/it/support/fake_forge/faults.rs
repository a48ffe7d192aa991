//! Failures on order: which request, how often, and what goes wrong with it.

use super::wire::{Host, Reply, Request};

/// What goes wrong. All but the `AfterEffect` ones and `Truncated` leave the state untouched.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answers with this status and a message of the forge's kind.
    Status(u16),
    /// Answers this.
    Answer(Reply),
    /// Closes the connection instead of answering.
    Reset,
    /// Does what was asked, then answers 502 with a page of HTML.
    AfterEffect502,
    /// Does what was asked, then closes the connection.
    AfterEffectReset,
    /// Does what was asked, promises the whole answer, sends half and closes the connection.
    Truncated,
    /// The hourly limit is used up: nothing remains until `reset` (seconds since the epoch).
    Primary { status: u16, reset: i64 },
    /// Too much at once; the wait is a header or only a sentence.
    Secondary { status: u16, retry_after: Option<u64> },
}

/// Each kind of request git makes, with each passing fault.
pub fn git_faults() -> impl Iterator<Item = (&'static str, Fault)> {
    ["GET *info/refs*", "POST *git-upload-pack", "POST *git-receive-pack"].into_iter().flat_map(|pattern| {
        [Fault::Status(500), Fault::Status(503), Fault::Reset, Fault::AfterEffect502, Fault::AfterEffectReset]
            .map(|fault| (pattern, fault))
    })
}

/// A rule: the requests it meets and how many of them are left to meet.
#[derive(Debug)]
struct Rule {
    pattern: String,
    skip: u64,
    left: u64,
    fault: Fault,
}

/// The pattern of every request to the API.
pub const ANY_CALL: &str = "api";

#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    pub fn add(&mut self, pattern: &str, skip: u64, left: u64, fault: Fault) {
        self.rules.push(Rule { pattern: pattern.to_owned(), skip, left, fault });
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    pub fn pending(&self) -> usize {
        self.rules.iter().filter(|rule| rule.left > 0 && rule.left < u64::MAX).count()
    }

    /// The fault of this request; the first rule that fits is used up by one.
    pub fn take(&mut self, request: &Request) -> Option<Fault> {
        let line = format!("{} {}", request.method, request.path);
        for rule in self.rules.iter_mut().filter(|rule| rule.left > 0) {
            let any_call = rule.pattern == ANY_CALL && request.host == Host::Api;
            if !any_call && !fits(&rule.pattern, &line) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.left < u64::MAX {
                rule.left -= 1;
            }
            return Some(rule.fault.clone());
        }
        None
    }
}

/// Whether `text` is `pattern`, where `*` stands for anything.
pub fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| fits(rest, &text[at..]))
        }),
    }
}

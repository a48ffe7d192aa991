//! `budget.json`: its shape, how a change meets what another start has written, and what is too old to keep.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Context, Error, Kind, Result};

const VERSION: u32 = 1;
/// Servers that name a later time are asked again after this all the same; a later time in the file comes
/// from a clock that was wrong.
pub const LONGEST_WAIT_MS: u64 = 24 * 3_600_000;
/// A list with more items is not kept.
pub const MOST_ITEMS: usize = 10_000;
/// What was not used for this long is dropped.
const KEPT_UNUSED_MS: u64 = 30 * 24 * 3_600_000;
/// How exactly it is known when an account was last used: an idle pass should not write.
const USE_IS_MARKED_EVERY_MS: u64 = 24 * 3_600_000;
/// Accounts kept; tokens of Apps change every hour.
const MOST_ACCOUNTS: usize = 20;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct File {
    #[serde(default)]
    pub version: u32,
    /// By identity.
    #[serde(default)]
    pub accounts: BTreeMap<String, Record>,
}

/// What is known of one account. Times are milliseconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Address of the API.
    #[serde(default)]
    pub server: String,
    /// The model, where limits are per model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When it was last written.
    #[serde(default)]
    pub used_ms: u64,
    /// Nothing is sent before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// By what is counted (`core`, `search`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, RateLimit>,
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Fact>,
    /// By the address of their first page.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, KeptList>,
}

/// A server's request for patience.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub until_ms: u64,
    pub reason: String,
}

/// What a server says is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Requests in a period; 0 where it does not say.
    pub limit: u64,
    /// Requests left of it.
    pub remaining: u64,
    /// When the next period begins, in milliseconds since the epoch.
    pub reset_ms: u64,
}

impl RateLimit {
    /// Whether its period is still running.
    pub fn holds(&self, now_ms: u64) -> bool {
        lies_ahead(self.reset_ms, now_ms)
    }

    /// Whether fewer than `requests` are left, and less than a fiftieth.
    pub fn is_below(&self, requests: u64) -> bool {
        self.remaining < requests && self.remaining.saturating_mul(50) < self.limit
    }
}

/// An answer that seldom changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub at_ms: u64,
    pub value: Value,
}

/// A list as it was when it was read whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptList {
    /// When that was, in milliseconds since the epoch.
    pub read_ms: u64,
    /// Address and entity tag of each page.
    pub pages: Vec<(String, String)>,
    /// Its items, reduced to what is needed of them.
    pub items: Vec<Value>,
}

/// Something learned.
#[derive(Debug, Clone)]
pub enum Change {
    Limit(String, RateLimit),
    Wait(Wait),
    /// The wait with this end.
    WaitIsOver(u64),
    Fact(String, Fact),
    NoFact(String),
    NoFacts,
    List(String, KeptList),
    NoList(String),
}

impl Record {
    /// Makes one change. What another start learned later stays.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Limit(resource, limit) => {
                // Within a period less and less is left, whatever the order of the answers.
                let is_older = |known: &RateLimit| {
                    known.reset_ms > limit.reset_ms
                        || (known.reset_ms == limit.reset_ms && known.remaining < limit.remaining)
                };
                if !self.limits.get(&resource).is_some_and(is_older) {
                    self.limits.insert(resource, limit);
                }
            }
            Change::Wait(wait) => {
                if self.wait.as_ref().is_none_or(|known| known.until_ms <= wait.until_ms) {
                    self.wait = Some(wait);
                }
            }
            Change::WaitIsOver(until_ms) => self.wait = self.wait.take().filter(|wait| wait.until_ms != until_ms),
            Change::Fact(name, fact) => {
                self.facts.insert(name, fact);
            }
            Change::NoFact(name) => {
                self.facts.remove(&name);
            }
            Change::NoFacts => self.facts.clear(),
            Change::List(url, list) => {
                if self.lists.get(&url).is_none_or(|known| known.read_ms <= list.read_ms) {
                    self.lists.insert(url, list);
                }
            }
            Change::NoList(url) => {
                self.lists.remove(&url);
            }
        }
    }

    /// Notes that it is in use.
    pub fn mark_used(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.used_ms) > USE_IS_MARKED_EVERY_MS {
            self.used_ms = now_ms;
        }
    }

    /// Until when nothing may be asked, and why: as the server said it, or because nothing is left.
    pub fn wait(&self, now_ms: u64) -> Option<(u64, String)> {
        let asked = self.wait.iter().filter(|wait| lies_ahead(wait.until_ms, now_ms));
        let asked = asked.map(|wait| (wait.until_ms, wait.reason.clone()));
        // Searches are counted apart, by the minute; the client waits for those by itself.
        let empty = self
            .limits
            .iter()
            .filter(|(resource, limit)| resource.as_str() != "search" && limit.remaining == 0 && limit.holds(now_ms));
        let empty = empty.map(|(_, limit)| (limit.reset_ms, "the rate limit is used up".to_owned()));
        asked.chain(empty).max_by_key(|(until_ms, _)| *until_ms)
    }
}

impl File {
    /// Reads the file.
    ///
    /// # Errors
    /// `Kind::Host` with the sentence made by `sentence` when it is damaged or of another version.
    pub fn parse(bytes: &[u8], sentence: impl Fn() -> String) -> Result<Self> {
        let file: Self = serde_json::from_slice(bytes).context(Kind::Host, &sentence)?;
        if file.version != VERSION {
            return Err(Error::host(format!("{}: it is of version {}, not {VERSION}", sentence(), file.version)));
        }
        Ok(file)
    }

    /// Drops what was not used for long or is too much, and marks the version.
    pub fn prune(&mut self, now_ms: u64) {
        self.version = VERSION;
        let is_kept = |at_ms: u64| now_ms.saturating_sub(at_ms) < KEPT_UNUSED_MS;
        self.accounts.retain(|_, record| is_kept(record.used_ms));
        for record in self.accounts.values_mut() {
            record.facts.retain(|_, fact| is_kept(fact.at_ms));
            // A list in use is read whole every hour.
            record.lists.retain(|_, list| is_kept(list.read_ms));
            record.limits.retain(|_, limit| limit.holds(now_ms));
            record.wait = record.wait.take().filter(|wait| lies_ahead(wait.until_ms, now_ms));
        }
        while self.accounts.len() > MOST_ACCOUNTS {
            let oldest = self.accounts.iter().min_by_key(|(_, record)| record.used_ms).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            self.accounts.remove(&oldest);
        }
    }
}

/// Whether a time is one to wait for: not over, and not so far away that a clock must have been wrong.
fn lies_ahead(at_ms: u64, now_ms: u64) -> bool {
    now_ms < at_ms && at_ms <= now_ms.saturating_add(LONGEST_WAIT_MS)
}

/// Tells one account from another without telling its key: the first half of a SHA-256 of all three.
pub fn identity(server: &str, model: Option<&str>, secret: Option<&str>) -> String {
    let text = [server, model.unwrap_or_default(), secret.unwrap_or_default()].join("\n");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

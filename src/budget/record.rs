//! `budget.json`: its shape, how a change meets what another start has written, and what is too old to keep.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Context, Error, Kind, Result};

/// Below this many requests, and below a fiftieth of the limit, no new work is looked for.
const RESERVE: u64 = 50;
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
    pub limits: BTreeMap<String, KeptLimit>,
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
    /// When it was written down.
    #[serde(default)]
    pub set_ms: u64,
    pub reason: String,
}

/// What a server says is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Requests in a period; 0 where it does not say.
    pub limit: u64,
    /// Requests left of it.
    pub remaining: u64,
    /// When the next period begins, in milliseconds since the epoch by the server's clock: tells one period from
    /// another.
    pub reset_ms: u64,
}

impl RateLimit {
    /// Whether fewer than `requests` are left, and less than a fiftieth.
    pub fn is_below(&self, requests: u64) -> bool {
        self.remaining < requests && self.remaining.saturating_mul(50) < self.limit
    }
}

/// A limit, with its end by our clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLimit {
    #[serde(flatten)]
    pub limit: RateLimit,
    #[serde(default)]
    pub until_ms: u64,
    /// When it was written down.
    #[serde(default)]
    pub set_ms: u64,
}

impl KeptLimit {
    /// Whether its period is still running.
    pub fn holds(&self, now_ms: u64) -> bool {
        is_ahead(self.until_ms, self.set_ms, now_ms)
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
    Limit(String, KeptLimit),
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
    /// Makes one change at `now_ms`. What another start learned later stays.
    pub fn apply(&mut self, change: Change, now_ms: u64) {
        self.drop_untimely(now_ms);
        match change {
            Change::Limit(resource, kept) => {
                // Within a period less and less is left, whatever the order of the answers.
                let is_older = |KeptLimit { limit: known, .. }: &KeptLimit| {
                    known.reset_ms > kept.limit.reset_ms
                        || (known.reset_ms == kept.limit.reset_ms && known.remaining < kept.limit.remaining)
                };
                if !self.limits.get(&resource).is_some_and(is_older) {
                    self.limits.insert(resource, kept);
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

    /// Drops waits and limits that are over, and whatever was written down by a clock that was ahead: it would
    /// hold, and outdo what is learned now, until the clock gets there.
    fn drop_untimely(&mut self, now_ms: u64) {
        self.wait = self.wait.take().filter(|wait| is_ahead(wait.until_ms, wait.set_ms, now_ms));
        self.limits.retain(|_, limit| limit.holds(now_ms));
        self.facts.retain(|_, fact| fact.at_ms <= now_ms);
        self.lists.retain(|_, list| list.read_ms <= now_ms);
    }

    /// Notes that it is in use.
    pub fn mark_used(&mut self, now_ms: u64) {
        if now_ms.abs_diff(self.used_ms) > USE_IS_MARKED_EVERY_MS {
            self.used_ms = now_ms;
        }
    }

    /// Until when nothing may be asked, and why: as the server said it, or because nothing is left.
    pub fn wait(&self, now_ms: u64) -> Option<(u64, String)> {
        let asked = self.wait.iter().filter(|wait| is_ahead(wait.until_ms, wait.set_ms, now_ms));
        let asked = asked.map(|wait| (wait.until_ms, wait.reason.clone()));
        // Searches are counted apart, by the minute; the client waits for those by itself.
        let empty = self.limits.iter().filter(|(resource, kept)| {
            resource.as_str() != "search" && kept.limit.remaining == 0 && kept.holds(now_ms)
        });
        let empty = empty.map(|(_, kept)| (kept.until_ms, "the rate limit is used up".to_owned()));
        asked.chain(empty).max_by_key(|(until_ms, _)| *until_ms)
    }

    /// Until when the last requests are kept for work begun.
    pub fn reserve_until_ms(&self, now_ms: u64) -> Option<u64> {
        let low = self.limits.values().filter(|kept| kept.limit.is_below(RESERVE) && kept.holds(now_ms));
        low.map(|kept| kept.until_ms).max()
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
            record.drop_untimely(now_ms);
        }
        while self.accounts.len() > MOST_ACCOUNTS {
            let oldest = self.accounts.iter().min_by_key(|(_, record)| record.used_ms).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            self.accounts.remove(&oldest);
        }
    }
}

/// Whether a time is one to wait for: not over, not so far away that a clock must have been wrong, and not set
/// by a clock that was ahead of ours.
fn is_ahead(at_ms: u64, set_ms: u64, now_ms: u64) -> bool {
    set_ms <= now_ms && now_ms < at_ms && at_ms <= now_ms.saturating_add(LONGEST_WAIT_MS)
}

/// Tells one account from another without telling its key: the first half of a SHA-256 of all three.
pub fn identity(server: &str, model: Option<&str>, secret: Option<&str>) -> String {
    let text = [server, model.unwrap_or_default(), secret.unwrap_or_default()].join("\n");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

//! What servers said about how often they may be asked, kept for the next start: waits, rate limits, and
//! lists with their entity tags. One file for all starts of an installation, changed under its lock. It is
//! a cache: what cannot be read or written is a warning, and costs requests, never a task. Holds no token.

mod record;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use record::{KeptList, MOST_ITEMS, RateLimit};

use crate::config::Secret;
use crate::error::{Context, Kind, Result};
use crate::sys::{clock, file, lock};
use record::{Change, File, KeptLimit, LONGEST_WAIT_MS, Record, Wait, identity};

const FILE: &str = "budget.json";
const LOCK: &str = "budget.lock";
/// A list is read whole again after this, whatever its entity tag says: a proxy or a server that answers
/// "unchanged" for too long must not hide work.
const LIST_GOOD_FOR_MS: u64 = 3_600_000;
/// Why nothing new is looked for.
pub const FEW_ARE_LEFT: &str = "few requests are left, and work begun needs them";

/// The budget of one start: as the file had it, with what was learned since.
#[derive(Debug)]
pub struct Budget {
    /// `None`: kept nowhere.
    dir: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    accounts: Vec<Slot>,
}

/// An account that this start uses.
#[derive(Debug)]
struct Slot {
    id: String,
    server: String,
    model: Option<String>,
    /// Learned and not yet in the file.
    changes: Vec<Change>,
    /// What the file has of it, and the changes.
    record: Record,
    /// End of the wait that this start put into the file.
    our_wait_ms: Option<u64>,
}

impl Budget {
    /// The budget whose file is in `dir`. A file that is missing, damaged or of another version is an empty one.
    pub fn open(dir: &Path) -> Arc<Self> {
        let file = read(dir).unwrap_or_else(|error| {
            log::warn!("{error:#}; what is known of limits and lists is begun afresh");
            File::default()
        });
        Arc::new(Self { dir: Some(dir.to_path_buf()), state: Mutex::new(State { file, accounts: Vec::new() }) })
    }

    /// A budget that knows nothing and dies with its owner.
    pub fn kept_nowhere() -> Arc<Self> {
        Arc::new(Self { dir: None, state: Mutex::new(State { file: File::default(), accounts: Vec::new() }) })
    }

    /// The account at `server` with this key, for `model` where limits are per model.
    pub fn account(self: &Arc<Self>, server: &str, model: Option<&str>, secret: Option<&Secret>) -> Account {
        let id = identity(server, model, secret.map(Secret::expose));
        let mut locked = self.locked();
        let state = &mut *locked;
        let known = state.accounts.iter().position(|slot| slot.id == id);
        let index = known.unwrap_or_else(|| {
            let record = state.file.accounts.get(&id).cloned().unwrap_or_default();
            let (server, model) = (server.to_owned(), model.map(str::to_owned));
            state.accounts.push(Slot { id, server, model, changes: Vec::new(), record, our_wait_ms: None });
            state.accounts.len() - 1
        });
        drop(locked);
        Account { budget: Arc::clone(self), index }
    }

    /// Writes what was learned, but for lists: whoever reads those has not yet acted on them.
    pub fn save(&self) {
        self.write(|change| !matches!(change, Change::List(..) | Change::NoList(..)));
    }

    /// Writes what was learned. All items of the lists have been dealt with.
    pub fn save_with_lists(&self) {
        self.write(|_| true);
    }

    /// A change is made whole or not at all, so a panic elsewhere leaves nothing half done.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, is_due: impl Fn(&Change) -> bool) {
        let Some(dir) = &self.dir else { return };
        let mut state = self.locked();
        if state.accounts.iter().any(|slot| slot.changes.iter().any(&is_due))
            && let Err(error) = state.write(dir, is_due)
        {
            log::warn!("{error:#}; the next start may ask servers more than it must");
        }
    }
}

impl State {
    /// Another start may have written meanwhile, so the changes are made to what stands in the file now.
    fn write(&mut self, dir: &Path, is_due: impl Fn(&Change) -> bool) -> Result<()> {
        file::create_dir(dir)?;
        let held = lock::hold(&dir.join(LOCK))?;
        let mut current = read(dir).unwrap_or_default();
        let before = current.clone();
        let now_ms = clock::now_ms();
        current.prune(now_ms);
        for slot in &mut self.accounts {
            let (due, kept): (Vec<Change>, Vec<Change>) = slot.changes.drain(..).partition(&is_due);
            slot.changes = kept;
            if due.is_empty() {
                continue;
            }
            let record = current.accounts.entry(slot.id.clone()).or_default();
            (record.server, record.model) = (slot.server.clone(), slot.model.clone());
            record.mark_used(now_ms);
            due.into_iter().for_each(|change| record.apply(change, now_ms));
        }
        current.prune(now_ms);
        if current != before {
            let bytes = serde_json::to_vec(&current).context(Kind::Bug, || "cannot write the budget".into())?;
            file::replace(&dir.join(FILE), &bytes)?;
        }
        self.file = current;
        drop(held);
        Ok(())
    }
}

/// The file in `dir`; an empty one where there is none.
fn read(dir: &Path) -> Result<File> {
    let path = dir.join(FILE);
    let Some(bytes) = file::read(&path)? else { return Ok(File::default()) };
    File::parse(&bytes, || format!("cannot understand `{}`", path.display()))
}

/// A server that asked not to be asked for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWait {
    /// Its address.
    pub server: String,
    /// The model, where the limit is one of a model.
    pub model: Option<String>,
    /// End of the wait, in milliseconds since the epoch.
    pub until_ms: u64,
    /// The server's reason, as we told it then.
    pub reason: String,
    /// It may be asked for what is queued.
    pub is_for_new_work: bool,
}

impl fmt::Display for KnownWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_for_new_work { "nothing new is looked for at" } else { "no request to" };
        write!(f, "{what} `{}`", self.server)?;
        if let Some(model) = &self.model {
            write!(f, " for `{model}`")?;
        }
        write!(f, " before {}: {}", clock::rfc3339(self.until_ms), self.reason)
    }
}

/// The waits that hold now, for looking only; nothing is made, and what cannot be read holds none.
pub fn known_waits(dir: &Path) -> Vec<KnownWait> {
    let now_ms = clock::now_ms();
    let accounts = read(dir).unwrap_or_default().accounts;
    let waits = accounts.into_values().filter_map(|record| {
        let (until_ms, reason, is_for_new_work) = match record.wait(now_ms) {
            Some((until_ms, reason)) => (until_ms, reason, false),
            None => (record.reserve_until_ms(now_ms)?, FEW_ARE_LEFT.to_owned(), true),
        };
        Some(KnownWait { server: record.server, model: record.model, until_ms, reason, is_for_new_work })
    });
    waits.collect()
}

/// One account at one server: an address with a key, seen through a budget.
#[derive(Debug, Clone)]
pub struct Account {
    budget: Arc<Budget>,
    index: usize,
}

impl Account {
    /// An account nothing is known of, and nothing will be kept of.
    pub fn kept_nowhere() -> Self {
        Budget::kept_nowhere().account("", None, None)
    }

    /// Until when and why nothing may be asked.
    pub fn wait(&self) -> Option<KnownWait> {
        self.look(|slot| {
            let (until_ms, reason) = slot.record.wait(clock::now_ms())?;
            Some(KnownWait {
                server: slot.server.clone(),
                model: slot.model.clone(),
                until_ms,
                reason,
                is_for_new_work: false,
            })
        })
    }

    /// Until when no new work should be looked for, because what is left is needed for work begun.
    pub fn reserve_until_ms(&self) -> Option<u64> {
        self.look(|slot| slot.record.reserve_until_ms(clock::now_ms()))
    }

    /// What the server says is left of the limit for `resource`, and its end by our clock.
    pub fn note_limit(&self, resource: &str, limit: RateLimit, until_ms: u64) {
        let now_ms = clock::now_ms();
        let is_known = |known: &&KeptLimit| known.limit == limit && known.holds(now_ms);
        let is_news = self.look(|slot| slot.record.limits.get(resource).filter(is_known).is_none());
        let kept = KeptLimit { limit, until_ms, set_ms: now_ms };
        if is_news && kept.holds(now_ms) {
            self.change(Change::Limit(resource.to_owned(), kept));
        }
    }

    /// The server asks not to be asked before `until_ms`. Written at once: the next start may be near.
    pub fn must_wait(&self, until_ms: u64, reason: &str) {
        let now_ms = clock::now_ms();
        let until_ms = until_ms.min(now_ms + LONGEST_WAIT_MS);
        self.change(Change::Wait(Wait { until_ms, set_ms: now_ms, reason: reason.to_owned() }));
        self.slot(|slot| slot.our_wait_ms = Some(until_ms));
        self.budget.save();
    }

    /// The server answers: a wait that this start wrote down was a short one, and is over.
    pub fn may_go_on(&self) {
        if let Some(until_ms) = self.slot(|slot| slot.our_wait_ms.take()) {
            self.change(Change::WaitIsOver(until_ms));
            self.budget.save();
        }
    }

    /// What a list held when it was last read whole, if that is good enough to ask for changes only.
    pub fn list(&self, url: &str) -> Option<KeptList> {
        let now_ms = clock::now_ms();
        let is_good = |list: &&KeptList| now_ms.checked_sub(list.read_ms).is_some_and(|age| age < LIST_GOOD_FOR_MS);
        self.look(|slot| slot.record.lists.get(url).filter(is_good).cloned())
    }

    /// Keeps a list that was read whole; it is written when its items have been dealt with.
    pub fn keep_list(&self, url: &str, list: KeptList) {
        self.change(Change::List(url.to_owned(), list));
    }

    /// The list is not what was kept, and cannot be kept as it is.
    pub fn forget_list(&self, url: &str) {
        if self.look(|slot| slot.record.lists.contains_key(url)) {
            self.change(Change::NoList(url.to_owned()));
        }
    }

    /// What was kept as `name` within the last `max_age_ms`.
    pub fn fact<T: DeserializeOwned>(&self, name: &str, max_age_ms: u64) -> Option<T> {
        let now_ms = clock::now_ms();
        let value = self.look(|slot| {
            let fact = slot.record.facts.get(name)?;
            let is_young = now_ms.checked_sub(fact.at_ms).is_some_and(|age| age < max_age_ms);
            is_young.then(|| fact.value.clone())
        });
        serde_json::from_value(value?).ok()
    }

    /// Keeps an answer that seldom changes.
    pub fn keep_fact(&self, name: &str, value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.change(Change::Fact(name.to_owned(), record::Fact { at_ms: clock::now_ms(), value }));
    }

    /// The answer kept as `name` is in doubt.
    pub fn forget_fact(&self, name: &str) {
        if self.look(|slot| slot.record.facts.contains_key(name)) {
            self.change(Change::NoFact(name.to_owned()));
        }
    }

    /// All kept answers are in doubt: the server refused the key.
    pub fn forget_facts(&self) {
        if self.look(|slot| !slot.record.facts.is_empty()) {
            self.change(Change::NoFacts);
            self.budget.save();
        }
    }

    fn change(&self, change: Change) {
        self.slot(|slot| {
            slot.record.apply(change.clone(), clock::now_ms());
            slot.changes.push(change);
        });
    }

    fn look<T>(&self, look: impl FnOnce(&Slot) -> T) -> T {
        look(&self.budget.locked().accounts[self.index])
    }

    fn slot<T>(&self, work: impl FnOnce(&mut Slot) -> T) -> T {
        work(&mut self.budget.locked().accounts[self.index])
    }
}

//! The spool: a task's state is the directory its entry is in. Entries are immutable; every
//! transition is one rename of a locked inode. The state table stands in `ARCHITECTURE.md`.
//! Knows nothing of forges, models or contexts.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::EntryName;
use crate::error::Result;
use crate::ports::{Claim, Publisher, Receipt, TaskQueue};
use crate::sys::{clock, fault, file, lock};
use crate::task::{TaskId, TaskKey, TaskMessage};

/// A temporary older than this belongs to a dead producer. Writing one takes milliseconds, and a
/// live producer's is locked, so the age is only a second guard.
const TEMPORARY_STALE_AFTER_MS: u64 = 3_600_000;

/// An entry larger than this is none of ours.
const LARGEST_ENTRY_BYTES: u64 = 1 << 20;

/// The state of an entry: the directory it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waiting for a consumer.
    Queue,
    /// In work, if it is locked; else its worker died.
    Running,
    /// Waiting for a time.
    Deferred,
    /// Used up its attempts.
    GaveUp,
    /// Does not parse.
    Corrupt,
}

impl State {
    /// All of them, in the direction entries move.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Running, Self::Deferred, Self::GaveUp, Self::Corrupt];

    /// The directory's name.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Running => "running",
            Self::Deferred => "deferred",
            Self::GaveUp => "gave_up",
            Self::Corrupt => "corrupt",
        }
    }
}

/// An entry as `status` shows it.
#[derive(Debug)]
pub struct Entry {
    /// File name.
    pub file_name: String,
    /// The name's parts; `None` when it is none of ours.
    pub name: Option<EntryName>,
    /// The content; `None` when it does not parse.
    pub message: Option<TaskMessage>,
    /// Whether a living process has it.
    pub locked: bool,
}

/// The spool directory.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    max_attempts: u32,
    /// Names of one listing not yet tried; one listing serves many claims.
    listing: VecDeque<String>,
}

impl Spool {
    /// Opens the spool, creating its directories where missing.
    ///
    /// # Errors
    /// `Kind::Host` when a directory cannot be made.
    pub fn open(dir: &Path, max_attempts: u32) -> Result<Self> {
        file::create_dir(&dir.join("tmp"))?;
        for state in State::ALL {
            file::create_dir(&dir.join(state.directory()))?;
        }
        Ok(Self::at(dir, max_attempts))
    }

    /// The spool as it is, nothing made: enough for looking at it.
    pub fn at(dir: &Path, max_attempts: u32) -> Self {
        Self { dir: dir.to_path_buf(), max_attempts, listing: VecDeque::new() }
    }

    /// Takes one of `max_consumers` slots, held while the returned file lives; `None` when all are taken.
    ///
    /// # Errors
    /// `Kind::Host` when a lock file cannot be opened.
    pub fn consumer_slot(&self, max_consumers: u32) -> Result<Option<File>> {
        for slot in 0..max_consumers {
            if let Some(held) = lock::try_hold(&self.dir.join(format!("consumer-{slot}.lock")))? {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// The entries of one state, oldest first.
    ///
    /// # Errors
    /// `Kind::Host` when the directory cannot be read.
    pub fn entries(&self, state: State) -> Result<Vec<Entry>> {
        let dir = self.dir.join(state.directory());
        let mut entries = Vec::new();
        for file_name in file::names(&dir)? {
            let path = dir.join(&file_name);
            // Gone in between is no error: entries move.
            let Ok(opened) = File::open(&path) else { continue };
            // Only here does the lock say something; elsewhere looking would make a claimer pass by.
            let locked = state == State::Running && !lock::try_lock(&opened).unwrap_or(false);
            let message = read_entry(opened).ok().and_then(|bytes| TaskMessage::parse(&bytes).ok());
            entries.push(Entry { name: EntryName::parse(&file_name), file_name, message, locked });
        }
        Ok(entries)
    }

    fn path(&self, state: State, name: &str) -> PathBuf {
        self.dir.join(state.directory()).join(name)
    }

    /// Recovery, at the start of every pass and under the producer lock: what a dead worker left
    /// and what is due goes back to `queue/`.
    fn recover(&self) -> Result<()> {
        for name in file::names(&self.dir.join("tmp"))? {
            let path = self.dir.join("tmp").join(name);
            let stale = file::age_ms(&path).is_some_and(|age_ms| age_ms > TEMPORARY_STALE_AFTER_MS);
            if stale && lock::open_locked(&path)?.is_some() {
                log::info!("removing `{}`, left by a producer that died", path.display());
                file::remove(&path)?;
            }
        }
        for name in file::names(&self.dir.join(State::Running.directory()))? {
            // "Is its worker alive?" is "can I lock it?".
            if let Some(held) = lock::open_locked(&self.path(State::Running, &name))? {
                log::info!("taking up `{name}` again: its worker ended without finishing it");
                self.move_entry(State::Running, &name, State::Queue, &name)?;
                drop(held);
            }
        }
        let now_ms = clock::now_ms();
        for name in file::names(&self.dir.join(State::Deferred.directory()))? {
            let Some(parsed) = EntryName::parse(&name) else {
                self.set_aside(State::Deferred, &name, "its name is none of ours")?;
                continue;
            };
            if parsed.not_before_ms.is_none_or(|not_before_ms| not_before_ms <= now_ms)
                && let Some(held) = lock::open_locked(&self.path(State::Deferred, &name))?
            {
                let due = parsed.with_attempt(parsed.attempt).to_string();
                self.move_entry(State::Deferred, &name, State::Queue, &due)?;
                drop(held);
            }
        }
        Ok(())
    }

    fn move_entry(&self, from: State, name: &str, to: State, new_name: &str) -> Result<()> {
        file::rename(&self.path(from, name), &self.path(to, new_name))
    }

    fn set_aside(&self, from: State, name: &str, why: &str) -> Result<()> {
        log::warn!("`{name}` in the spool cannot be read ({why}); it is kept in corrupt/");
        self.move_entry(from, name, State::Corrupt, name)
    }

    /// Claims the entry of that name in `queue/`; `None` when somebody else was faster or it is unreadable.
    fn claim_named(&self, name: &str) -> Result<Option<Claim>> {
        let Some(held) = lock::open_locked(&self.path(State::Queue, name))? else { return Ok(None) };
        let bytes =
            read_entry(held.try_clone().map_err(|source| file::error("read", &self.path(State::Queue, name), source))?);
        let parsed = bytes
            .map_err(|error| error.to_string())
            .and_then(|bytes| TaskMessage::parse(&bytes).map_err(|error| error.to_string()))
            .and_then(|message| match EntryName::parse(name) {
                Some(name) if name.uuid == message.uuid => Ok((name, message)),
                _ => Err("its name does not fit its content".into()),
            });
        let (old, message) = match parsed {
            Ok(parsed) => parsed,
            Err(why) => {
                self.set_aside(State::Queue, name, &why)?;
                return Ok(None);
            }
        };
        let exhausted = old.attempt >= self.max_attempts;
        let claimed = old.with_attempt(if exhausted { old.attempt } else { old.attempt + 1 });
        // From this rename on the task is ours; before it, nobody's.
        self.move_entry(State::Queue, name, State::Running, &claimed.to_string())?;
        fault::point("spool.claimed");
        Ok(Some(Claim {
            message,
            enqueued_ms: claimed.enqueued_ms,
            attempt: claimed.attempt,
            exhausted,
            receipt: Receipt { name: claimed.to_string(), lock: Some(held) },
        }))
    }
}

impl TaskQueue for Spool {
    fn produce(&mut self, pass: &mut dyn FnMut(&mut dyn Publisher) -> Result<()>) -> Result<bool> {
        let produced = lock::exclusively(&self.dir.join("producer.lock"), || {
            self.recover()?;
            pass(&mut SpoolPublisher::list(self)?)
        })?;
        Ok(produced.is_some())
    }

    fn has_waiting(&self) -> Result<bool> {
        Ok(!file::names(&self.dir.join(State::Queue.directory()))?.is_empty())
    }

    fn claim(&mut self) -> Result<Option<Claim>> {
        if self.listing.is_empty() {
            self.listing = file::names(&self.dir.join(State::Queue.directory()))?.into();
        }
        while let Some(name) = self.listing.pop_front() {
            if let Some(claim) = self.claim_named(&name)? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    fn turn_completed(&mut self, claim: &mut Claim) -> Result<()> {
        if claim.attempt == 0 {
            return Ok(());
        }
        if let Some(name) = EntryName::parse(&claim.receipt.name) {
            let fresh = name.with_attempt(0).to_string();
            self.move_entry(State::Running, &claim.receipt.name, State::Running, &fresh)?;
            claim.receipt.name = fresh;
            claim.attempt = 0;
        }
        Ok(())
    }

    fn park(&mut self, claim: Claim, not_before_ms: u64) -> Result<()> {
        if let Some(name) = EntryName::parse(&claim.receipt.name) {
            // Parking does not count as an attempt.
            let attempt = if claim.exhausted { name.attempt } else { name.attempt.saturating_sub(1) };
            let deferred = EntryName { not_before_ms: Some(not_before_ms), ..name.with_attempt(attempt) };
            self.move_entry(State::Running, &claim.receipt.name, State::Deferred, &deferred.to_string())?;
        }
        Ok(())
    }

    fn remove(&mut self, claim: Claim) -> Result<()> {
        file::remove(&self.path(State::Running, &claim.receipt.name))
    }

    fn give_up(&mut self, claim: Claim) -> Result<()> {
        self.move_entry(State::Running, &claim.receipt.name, State::GaveUp, &claim.receipt.name)
    }

    fn abandon(&mut self, claim: Claim) {
        drop(claim);
    }
}

/// The producer's side, with one listing made at the start of the pass. Other processes only move
/// entries forward meanwhile, so the listing can hold too much but never too little.
struct SpoolPublisher<'a> {
    spool: &'a Spool,
    active: HashSet<String>,
    uuids: HashSet<TaskId>,
    gave_up: Vec<EntryName>,
}

impl<'a> SpoolPublisher<'a> {
    fn list(spool: &'a Spool) -> Result<Self> {
        let mut publisher = Self { spool, active: HashSet::new(), uuids: HashSet::new(), gave_up: Vec::new() };
        for state in [State::Queue, State::Running, State::Deferred] {
            for name in file::names(&spool.dir.join(state.directory()))?.iter().filter_map(|n| EntryName::parse(n)) {
                publisher.active.insert(name.key_hash);
                publisher.uuids.insert(name.uuid);
            }
        }
        let gave_up = file::names(&spool.dir.join(State::GaveUp.directory()))?;
        publisher.gave_up = gave_up.iter().filter_map(|name| EntryName::parse(name)).collect();
        Ok(publisher)
    }
}

impl Publisher for SpoolPublisher<'_> {
    fn is_active(&self, key: &TaskKey) -> bool {
        self.active.contains(&key.hash16())
    }

    fn has_entry(&self, uuid: TaskId) -> bool {
        self.uuids.contains(&uuid)
    }

    fn publish(&mut self, message: &TaskMessage, prepare: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        let name = EntryName {
            not_before_ms: None,
            enqueued_ms: clock::now_ms(),
            key_hash: message.key.hash16(),
            uuid: message.uuid,
            attempt: 0,
        };
        let path = self.spool.path(State::Queue, &name.to_string());
        let held = file::publish_locked(&self.spool.dir.join("tmp"), &path, &message.to_bytes())?;
        fault::point("spool.publish.linked");
        self.active.insert(name.key_hash.clone());
        self.uuids.insert(message.uuid);
        // The lock is kept until the label is set, so no consumer sees the item half prepared.
        if !prepare()? {
            self.active.remove(&name.key_hash);
            return file::remove(&path);
        }
        drop(held);
        for old in self.gave_up.iter().filter(|old| old.key_hash == name.key_hash) {
            file::remove(&self.spool.path(State::GaveUp, &old.to_string()))?;
        }
        Ok(())
    }
}

fn read_entry(opened: File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opened.take(LARGEST_ENTRY_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

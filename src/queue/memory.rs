//! A queue in memory for the default mode: nothing to look at, nothing to clean up. What is
//! unfinished when the process ends is found again in `contexts/running/` by the next pass.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::path::Path;

use crate::error::Result;
use crate::ports::{Claim, Publisher, Receipt, TaskQueue};
use crate::sys::{clock, file, lock};
use crate::task::{TaskId, TaskKey, TaskMessage};

/// Tasks waiting in this process.
#[derive(Debug)]
pub struct MemoryQueue {
    waiting: VecDeque<(u64, TaskMessage)>,
    active: HashSet<TaskKey>,
    /// Held for the process's life: two processes with queues in memory would take each other's tasks.
    only_one: Option<File>,
}

impl MemoryQueue {
    /// An empty queue; `lock_file` keeps a second process from producing beside it.
    ///
    /// # Errors
    /// `Kind::Host` when the lock file cannot be opened.
    pub fn open(lock_file: &Path) -> Result<Self> {
        if let Some(parent) = lock_file.parent() {
            file::create_dir(parent)?;
        }
        Ok(Self { waiting: VecDeque::new(), active: HashSet::new(), only_one: lock::try_hold(lock_file)? })
    }
}

impl TaskQueue for MemoryQueue {
    fn produce(&mut self, pass: &mut dyn FnMut(&mut dyn Publisher) -> Result<()>) -> Result<bool> {
        if self.only_one.is_none() {
            return Ok(false);
        }
        pass(self)?;
        Ok(true)
    }

    fn has_waiting(&self) -> Result<bool> {
        Ok(!self.waiting.is_empty())
    }

    fn claim(&mut self) -> Result<Option<Claim>> {
        Ok(self.waiting.pop_front().map(|(enqueued_ms, message)| Claim {
            receipt: Receipt { name: message.uuid.to_string(), lock: None },
            message,
            enqueued_ms,
            attempt: 1,
            exhausted: false,
        }))
    }

    fn turn_completed(&mut self, claim: &mut Claim) -> Result<()> {
        claim.attempt = 0;
        Ok(())
    }

    fn park(&mut self, _claim: Claim, _not_before_ms: u64) -> Result<()> {
        // Its context stays in running/, where the next process finds it.
        Ok(())
    }

    fn remove(&mut self, claim: Claim) -> Result<()> {
        self.active.remove(&claim.message.key);
        Ok(())
    }

    fn give_up(&mut self, claim: Claim) -> Result<()> {
        self.remove(claim)
    }

    fn abandon(&mut self, claim: Claim) {
        drop(claim);
    }
}

impl Publisher for MemoryQueue {
    fn is_active(&self, key: &TaskKey) -> bool {
        self.active.contains(key)
    }

    fn has_entry(&self, uuid: TaskId) -> bool {
        self.waiting.iter().any(|(_, message)| message.uuid == uuid)
    }

    fn publish(&mut self, message: &TaskMessage, _prepare: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        // Not prepared here: an item that waits in memory only must keep its bot label, or it would be
        // lost with this process. The consumer prepares it when it takes it.
        self.active.insert(message.key.clone());
        self.waiting.push_back((clock::now_ms(), message.clone()));
        Ok(())
    }
}

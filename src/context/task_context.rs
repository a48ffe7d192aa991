//! One task's context directory and its life: made in `running/`, moved to `paused/` or
//! `completed/`, found again after a crash.

use std::path::{Path, PathBuf};

use super::compressor::remove_temporaries;
use super::{MessageStore, Metadata, OutcomeFile, PlanningHistory, Statistics, SummaryStore, ToolStore};
use crate::error::{Error, Result};
use crate::sys::file::{self, Sync};
use crate::task::{OutcomeKind, TaskId, TaskMessage};
use crate::text::printable;

/// Where a task's directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: work has not begun.
    Nowhere,
    /// In work, or left by a process that died.
    Running,
    /// Put aside by the operator.
    Paused,
    /// Finished.
    Completed,
}

/// Everything one task has on disk.
#[derive(Debug)]
pub struct TaskContext {
    dir: PathBuf,
    contexts: Contexts,
    /// The conversation.
    pub messages: MessageStore,
    /// What was put into the place of older messages.
    pub summaries: SummaryStore,
    /// The plans.
    pub planning: PlanningHistory,
    /// The record of tool calls.
    pub tools: ToolStore,
    /// Which task it is.
    pub metadata: Metadata,
}

/// All context directories, and how they are written.
#[derive(Debug, Clone)]
pub struct Contexts {
    base_dir: PathBuf,
    sync: Sync,
    keep: bool,
}

impl Contexts {
    /// The directories below `base_dir`. With `keep` false (the seeds' legacy mode) a finished task's
    /// directory is deleted instead of moved.
    pub fn new(base_dir: &Path, sync: Sync, keep: bool) -> Self {
        Self { base_dir: base_dir.to_path_buf(), sync, keep }
    }

    /// The directory of all of them.
    pub fn base_dir(&self) -> &Path {
        &self.base_dir
    }

    /// Finds a task's directory.
    pub fn find(&self, uuid: TaskId) -> Place {
        [("running", Place::Running), ("paused", Place::Paused), ("completed", Place::Completed)]
            .into_iter()
            .find(|(name, _)| self.directory(name, uuid).is_dir())
            .map_or(Place::Nowhere, |(_, place)| place)
    }

    /// The tasks in `paused/`.
    ///
    /// # Errors
    /// `Kind::Host` when the directory cannot be read.
    pub fn paused_tasks(&self) -> Result<Vec<TaskMessage>> {
        tasks_in(&self.base_dir.join("paused"))
    }

    /// The tasks in `running/`.
    ///
    /// # Errors
    /// `Kind::Host` when the directory cannot be read.
    pub fn unfinished_tasks(&self) -> Result<Vec<TaskMessage>> {
        tasks_in(&self.base_dir.join("running"))
    }

    /// Makes the directory of a task that begins now.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be made.
    pub fn create(&self, metadata: Metadata) -> Result<TaskContext> {
        let dir = self.directory("running", metadata.message.uuid);
        file::create_dir(&dir)?;
        metadata.save(&dir)?;
        TaskContext::open(self, dir, metadata)
    }

    /// Opens the directory of a task that was begun before; one that was paused moves back to
    /// `running/` first, its decision forgotten.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be opened; `Kind::Bug` when there is none.
    pub fn resume(&self, message: &TaskMessage) -> Result<TaskContext> {
        let dir = self.directory("running", message.uuid);
        match self.find(message.uuid) {
            Place::Running => {}
            Place::Paused => {
                let paused = self.directory("paused", message.uuid);
                // In this order: in paused/ the directory itself says what it is, in running/ the decision would.
                OutcomeFile::forget(&paused)?;
                file::create_dir(&self.base_dir.join("running"))?;
                file::rename_synced(&paused, &dir)?;
            }
            Place::Completed | Place::Nowhere => {
                return Err(Error::bug(format!("task {} has no context to resume", message.uuid)));
            }
        }
        // A process killed while making the directory leaves one without metadata.
        let mut metadata =
            Metadata::load(&dir)?.unwrap_or_else(|| Metadata::new(message.clone(), message.key.repository(), false));
        metadata.message = message.clone();
        metadata.resumes += 1;
        metadata.save(&dir)?;
        TaskContext::open(self, dir, metadata)
    }

    /// How a task in `completed/` ended; a directory of the seeds' program says nothing and counts as done.
    ///
    /// # Errors
    /// `Kind::Host` when its decision cannot be read.
    pub fn finished_as(&self, uuid: TaskId) -> Result<OutcomeKind> {
        let decided = OutcomeFile::load(&self.directory("completed", uuid))?;
        Ok(decided.map_or(OutcomeKind::Completed, |decided| decided.outcome.kind))
    }

    /// Where a task in work has its directory.
    pub fn running_dir(&self, uuid: TaskId) -> PathBuf {
        self.directory("running", uuid)
    }

    fn directory(&self, place: &str, uuid: TaskId) -> PathBuf {
        self.base_dir.join(place).join(uuid.to_string())
    }
}

fn tasks_in(dir: &Path) -> Result<Vec<TaskMessage>> {
    let mut tasks = Vec::new();
    for name in file::names(dir)? {
        match Metadata::load(&dir.join(&name))? {
            Some(metadata) => tasks.push(metadata.message),
            None => log::warn!("`{}` holds no readable metadata.json; left alone", dir.join(&name).display()),
        }
    }
    Ok(tasks)
}

impl TaskContext {
    fn open(contexts: &Contexts, dir: PathBuf, metadata: Metadata) -> Result<Self> {
        remove_temporaries(&dir)?;
        Ok(Self {
            contexts: contexts.clone(),
            messages: MessageStore::open(&dir, contexts.sync)?,
            summaries: SummaryStore::open(&dir, contexts.sync)?,
            planning: PlanningHistory::open(&dir, contexts.sync)?,
            tools: ToolStore::open(&dir)?,
            metadata,
            dir,
        })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The task's UUID.
    pub fn uuid(&self) -> TaskId {
        self.metadata.message.uuid
    }

    /// Keeps a long text in `outputs/<seq>.txt`. Returns the path.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn keep_output(&self, seq: u64, text: &str) -> Result<PathBuf> {
        let outputs = self.dir.join("outputs");
        file::create_dir(&outputs)?;
        let path = outputs.join(format!("{seq}.txt"));
        // People look at it on a terminal.
        file::replace(&path, printable(text).as_bytes())?;
        // Absolute: whoever reads it is in another directory.
        Ok(std::path::absolute(&path).unwrap_or(path))
    }

    /// Writes `final_summary.txt`.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn write_final_summary(&self, text: &str) -> Result<()> {
        file::replace(&self.dir.join("final_summary.txt"), printable(text).as_bytes())
    }

    /// Moves the directory to where an outcome of `kind` belongs.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be moved.
    pub fn leave(self, kind: OutcomeKind) -> Result<()> {
        let place = if kind == OutcomeKind::Paused { "paused" } else { "completed" };
        let target = self.contexts.directory(place, self.uuid());
        file::create_dir(&self.contexts.base_dir.join(place))?;
        file::rename_synced(&self.dir, &target)?;
        // Only now: half a directory in running/ would look like a task in mid-loop.
        if self.contexts.keep || kind == OutcomeKind::Paused { Ok(()) } else { file::remove_dir(&target) }
    }

    /// Numbers for the task's row.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            total_messages: self.messages.count_messages(),
            total_summaries: self.summaries.count_summaries(),
            total_tool_calls: self.tools.count_tool_calls(),
            final_token_count: self.messages.current_token_count(),
            final_message_count: self.messages.current().len() as u64,
        }
    }
}

//! One task's context directory and its life: made in `running/`, moved to `paused/` or
//! `completed/`, found again after a crash.

use std::path::{Path, PathBuf};

use super::{MessageStore, Metadata, OutcomeFile, ToolStore};
use crate::error::{Error, Result};
use crate::sys::file::{self, Sync};
use crate::task::{OutcomeKind, TaskId, TaskMessage};

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
    base_dir: PathBuf,
    /// The conversation.
    pub messages: MessageStore,
    /// The record of tool calls.
    pub tools: ToolStore,
    /// Which task it is.
    pub metadata: Metadata,
}

fn directory(base_dir: &Path, place: &str, uuid: TaskId) -> PathBuf {
    base_dir.join(place).join(uuid.to_string())
}

/// Finds a task's directory.
pub fn find(base_dir: &Path, uuid: TaskId) -> Place {
    [("running", Place::Running), ("paused", Place::Paused), ("completed", Place::Completed)]
        .into_iter()
        .find(|(name, _)| directory(base_dir, name, uuid).is_dir())
        .map_or(Place::Nowhere, |(_, place)| place)
}

/// The tasks in `paused/`.
///
/// # Errors
/// `Kind::Host` when the directory cannot be read.
pub fn paused_tasks(base_dir: &Path) -> Result<Vec<TaskMessage>> {
    tasks_in(&base_dir.join("paused"))
}

/// The tasks in `running/`.
///
/// # Errors
/// `Kind::Host` when the directory cannot be read.
pub fn unfinished_tasks(base_dir: &Path) -> Result<Vec<TaskMessage>> {
    tasks_in(&base_dir.join("running"))
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
    /// Makes the directory of a task that begins now.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be made.
    pub fn create(base_dir: &Path, metadata: Metadata, sync: Sync) -> Result<Self> {
        let dir = directory(base_dir, "running", metadata.message.uuid);
        file::create_dir(&dir)?;
        metadata.save(&dir)?;
        Self::open(base_dir, dir, metadata, sync)
    }

    /// Opens the directory of a task that was begun before; one that was paused moves back to
    /// `running/` first, its decision forgotten.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be opened; `Kind::Bug` when there is none.
    pub fn resume(base_dir: &Path, message: &TaskMessage, sync: Sync) -> Result<Self> {
        let dir = directory(base_dir, "running", message.uuid);
        match find(base_dir, message.uuid) {
            Place::Running => {}
            Place::Paused => {
                let paused = directory(base_dir, "paused", message.uuid);
                // In this order: in paused/ the directory itself says what it is, in running/ the decision would.
                OutcomeFile::forget(&paused)?;
                file::create_dir(&base_dir.join("running"))?;
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
        Self::open(base_dir, dir, metadata, sync)
    }

    fn open(base_dir: &Path, dir: PathBuf, metadata: Metadata, sync: Sync) -> Result<Self> {
        Ok(Self {
            base_dir: base_dir.to_path_buf(),
            messages: MessageStore::open(&dir, sync)?,
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
        file::replace(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Writes `final_summary.txt`.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn write_final_summary(&self, text: &str) -> Result<()> {
        file::replace(&self.dir.join("final_summary.txt"), text.as_bytes())
    }

    /// Moves the directory to where an outcome of `kind` belongs; when `keep` is false it is removed
    /// from there.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be moved.
    pub fn leave(self, kind: OutcomeKind, keep: bool) -> Result<()> {
        let place = if kind == OutcomeKind::Paused { "paused" } else { "completed" };
        let target = directory(&self.base_dir, place, self.uuid());
        file::create_dir(&self.base_dir.join(place))?;
        file::rename_synced(&self.dir, &target)?;
        // Only now: half a directory in running/ would look like a task in mid-loop.
        if keep || kind == OutcomeKind::Paused { Ok(()) } else { file::remove_dir(&target) }
    }
}

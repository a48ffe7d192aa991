//! The environment of commands: an exact list, the same for every backend.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::TASK_MARK;
use crate::error::Result;
use crate::sys::file;
use crate::task::TaskId;

/// Where commands are looked for when we ourselves have no PATH.
pub(super) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Directories of a task beside its tree, which live as long as the task.
#[derive(Debug)]
pub(super) struct Scratch {
    /// HOME of commands.
    pub(super) home: PathBuf,
    /// For temporary files.
    pub(super) tmp: PathBuf,
}

impl Scratch {
    /// Makes the directories below `dir`.
    ///
    /// # Errors
    /// `Kind::Host` when the system refuses.
    pub(super) fn make(dir: &Path) -> Result<Self> {
        file::create_dir(dir)?;
        // One name for everybody: a link to it would lead nowhere inside a sandbox.
        let dir = dir.canonicalize().map_err(|source| file::error("open", dir, source))?;
        let scratch = Self { home: dir.join("home"), tmp: dir.join("tmp") };
        file::create_dir(&scratch.home)?;
        file::create_dir(&scratch.tmp)?;
        Ok(scratch)
    }
}

/// The whole environment of a command of task `uuid`.
pub(super) fn variables(uuid: TaskId, path: OsString, home: &Path, tmp: &Path) -> Vec<(String, OsString)> {
    let mut env: Vec<(String, OsString)> = vec![
        ("PATH".into(), path),
        ("HOME".into(), home.into()),
        ("TMPDIR".into(), tmp.into()),
        (TASK_MARK.into(), uuid.to_string().into()),
    ];
    // Nobody sits at a terminal: programs that would ask or open an editor fail at once (case C43).
    let answers = [
        ("LANG", "C.UTF-8"),
        ("CI", "1"),
        ("TERM", "dumb"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("EDITOR", "false"),
        ("VISUAL", "false"),
        ("GIT_EDITOR", "false"),
        ("GIT_SEQUENCE_EDITOR", "false"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("DEBIAN_FRONTEND", "noninteractive"),
    ];
    env.extend(answers.map(|(name, value)| (name.into(), value.into())));
    env
}

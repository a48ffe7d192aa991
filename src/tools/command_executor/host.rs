//! The `host` backend: commands run as our own user with nothing between them and the machine.
//! Only by explicit choice. The environment is an allow-list all the same.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Backend, Limits, TASK_MARK};
use crate::error::Result;
use crate::sys::file;
use crate::sys::process::{Finished, Program};
use crate::task::TaskId;

/// Where commands are looked for when we ourselves have no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs commands on the host.
#[derive(Debug)]
pub struct Host {
    env: Vec<(String, OsString)>,
}

impl Host {
    /// Commands of task `uuid` get `path` and a HOME and TMPDIR below `scratch`.
    ///
    /// # Errors
    /// `Kind::Host` when the scratch directories cannot be made.
    pub fn new(uuid: TaskId, scratch: &Path, path: Option<OsString>) -> Result<Self> {
        let (home, tmp): (PathBuf, PathBuf) = (scratch.join("home"), scratch.join("tmp"));
        file::create_dir(&home)?;
        file::create_dir(&tmp)?;
        let mut env: Vec<(String, OsString)> = vec![
            ("PATH".into(), path.unwrap_or_else(|| DEFAULT_PATH.into())),
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
        Ok(Self { env })
    }
}

impl Backend for Host {
    fn run(&self, command: &str, dir: &Path, limits: Limits) -> Result<Finished> {
        let program = Program {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), command.into()],
            env: self.env.clone(),
            dir: dir.to_path_buf(),
            timeout: Some(limits.timeout),
            output_limit_bytes: limits.output_bytes,
            ends_with_us: true,
        };
        program.run()
    }
}

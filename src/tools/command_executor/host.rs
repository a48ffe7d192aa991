//! The `host` backend: commands run as our own user with nothing between them and the machine.
//! Only by explicit choice. The environment is an allow-list all the same.

use std::ffi::OsString;
use std::path::Path;

use super::environment::{self, DEFAULT_PATH, Scratch};
use super::{Backend, Limits};
use crate::error::Result;
use crate::sys::process::{Extras, Finished};
use crate::task::TaskId;

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
        let scratch = Scratch::make(scratch)?;
        let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
        Ok(Self { env: environment::variables(uuid, path, &scratch.home, &scratch.tmp) })
    }
}

impl Backend for Host {
    fn run(&self, command: &str, dir: &Path, limits: Limits) -> Result<Finished> {
        let program = limits.shell(command, dir, self.env.clone());
        program.run_with(Extras { limits: limits.resources, ..Extras::default() })
    }

    fn surroundings(&self) -> &'static str {
        ""
    }
}

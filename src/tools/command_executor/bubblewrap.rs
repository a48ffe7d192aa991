//! The `bubblewrap` backend: a command sees the work tree, a HOME and a `/tmp` of its task, the
//! system's programs, and nothing else of the machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment::{self, Scratch};
use super::{Backend, Limits};
use crate::error::Result;
use crate::sys::bubblewrap::{Bubblewrap, Inside};
use crate::sys::file;
use crate::sys::process::Finished;
use crate::task::TaskId;

/// Where temporary files are, inside.
const TMP: &str = "/tmp";

/// Runs commands in a sandbox.
#[derive(Debug)]
pub struct Sandboxed {
    sandbox: Bubblewrap,
    network: bool,
    tree: PathBuf,
    scratch: Scratch,
    env: Vec<(String, OsString)>,
}

impl Sandboxed {
    /// Commands of task `uuid` get `tree` and a HOME and `/tmp` below `scratch`.
    ///
    /// # Errors
    /// `Kind::Host` when the scratch directories cannot be made or the tree is missing.
    pub fn new(sandbox: Bubblewrap, network: bool, uuid: TaskId, tree: &Path, scratch: &Path) -> Result<Self> {
        let tree = tree.canonicalize().map_err(|source| file::error("open", tree, source))?;
        let scratch = Scratch::make(scratch)?;
        let env = environment::variables(uuid, sandbox.path().to_owned(), &scratch.home, Path::new(TMP));
        Ok(Self { sandbox, network, tree, scratch, env })
    }
}

impl Backend for Sandboxed {
    fn run(&self, command: &str, dir: &Path, limits: Limits) -> Result<Finished> {
        let inside = Inside {
            writable: &[&self.tree, &self.scratch.home],
            tmp: Some(&self.scratch.tmp),
            home: Some(&self.scratch.home),
            network: self.network,
            ..Inside::default()
        };
        self.sandbox.run(&limits.shell(command, dir, self.env.clone()), inside, limits.resources)
    }

    fn surroundings(&self) -> &'static str {
        if self.network {
            "It runs in a sandbox: it sees the work tree, the system's programs, and a HOME and /tmp that last as \
             long as this task. "
        } else {
            "It runs in a sandbox without a network: it sees the work tree, the system's programs, and a HOME and \
             /tmp that last as long as this task. "
        }
    }
}

//! Which sandbox commands run in: the one that is asked for, or the best that works here; never none
//! without being asked.

use std::path::{Path, PathBuf};

use crate::config::{Config, ExecutorBackend};
use crate::error::{Error, Result};
use crate::sys::bubblewrap::Bubblewrap;

/// What must run inside: our own calls of git in the work tree do.
const CHECK: [&str; 2] = ["git", "--version"];

/// The sandbox of this configuration, tried out; `None` where commands run without one or not at all.
///
/// # Errors
/// `Kind::Host` when one is asked for and does not work, with the reason.
pub fn sandbox(config: &Config) -> Result<Option<Bubblewrap>> {
    let executor = &config.command_executor;
    let asked = match executor.backend {
        _ if !executor.enabled => return Ok(None),
        ExecutorBackend::Host => return Ok(None),
        ExecutorBackend::Bubblewrap => Some("command_executor.backend is bubblewrap"),
        _ if executor.required => Some("command_executor.required is set"),
        _ => None,
    };
    for unseen in read_only_paths(config).1 {
        log::warn!("{unseen}: left out; mend that key");
    }
    match (find(config), asked) {
        (Ok(sandbox), _) => {
            log::debug!("commands run in bubblewrap");
            Ok(Some(sandbox))
        }
        (Err(error), Some(asked)) => Err(error.prefixed(&format!("{asked}, but "))),
        (Err(error), None) => {
            log::info!("the model cannot run commands: {error:#}");
            Ok(None)
        }
    }
}

/// Bubblewrap as it is used here, tried out.
///
/// # Errors
/// `Kind::Host` with the reason and what to do, where it does not work or would show too much.
pub fn find(config: &Config) -> Result<Bubblewrap> {
    let sandbox = Bubblewrap::probe(std::env::var_os("PATH"), &read_only_paths(config).0, &CHECK)?;
    for visible in sandbox.visible() {
        if let Some(own) = what_it_shows(config, &real(visible)) {
            let (own, visible) = (own.display(), visible.display());
            return Err(Error::host(format!(
                "commands can read `{visible}`, and with it `{own}`, which is not for them"
            ))
            .hint("move it, or take the path out of command_executor.read_only_paths"));
        }
    }
    Ok(sandbox)
}

/// The paths of `command_executor.read_only_paths` that are there, and a sentence on each other one: for
/// one toolchain that was removed commands as a whole are not given up.
pub fn read_only_paths(config: &Config) -> (Vec<PathBuf>, Vec<String>) {
    let (mut there, mut unseen) = (Vec::new(), Vec::new());
    for path in &config.command_executor.read_only_paths {
        match std::fs::metadata(path) {
            Ok(_) => there.push(PathBuf::from(path)),
            Err(error) => unseen.push(format!("command_executor.read_only_paths names `{path}`: {error}")),
        }
    }
    (there, unseen)
}

/// What commands must not see and would see in `visible`: settings, the state of tasks, a person's
/// whole home directory.
fn what_it_shows(config: &Config, visible: &Path) -> Option<PathBuf> {
    let state = [&config.queue.dir, &config.context_storage.base_dir, &config.workspace.dir, &config.local.tasks_dir];
    let state = state.map(|path| real(path));
    let home = std::env::var_os("HOME").map(|home| real(Path::new(&home)));
    let whole = state.iter().chain(&home).find(|own| own.starts_with(visible)).cloned();
    let part = || state.iter().find(|own| visible.starts_with(own)).cloned();
    let settings = || Some(real(Path::new("."))).filter(|here| here.starts_with(visible));
    whole.or_else(part).or_else(settings)
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let found = path.ancestors().find_map(|there| Some((there.canonicalize().ok()?, path.strip_prefix(there).ok()?)));
    found.map_or_else(|| path.clone(), |(there, rest)| there.join(rest))
}

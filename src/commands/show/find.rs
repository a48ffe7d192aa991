//! Which context directory is meant: by UUID, by the beginning of one, or by path.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::sys::file;

/// Where context directories are, in the order in which `Contexts::find` looks.
const PLACES: [&str; 3] = ["running", "paused", "completed"];

/// How many of several tasks are named.
const NAMED: usize = 5;

/// The directory that is meant.
#[derive(Debug)]
pub struct Found {
    /// The context directory.
    pub dir: PathBuf,
    /// `running`, `paused` or `completed`; `None` for a directory that lies elsewhere.
    pub place: Option<&'static str>,
    /// The database that goes with it.
    pub database: PathBuf,
}

/// Finds it.
///
/// # Errors
/// `Kind::Usage` when it is none, or not one only; `Kind::Host` when the directories cannot be listed.
pub fn find(config: &Config, wanted: &OsStr) -> Result<Found> {
    let path = Path::new(wanted);
    let shown = wanted.to_string_lossy();
    if shown.contains('/') || shown == "." || shown == ".." {
        return if path.is_dir() {
            Ok(by_path(config, path))
        } else {
            Err(Error::usage(format!("there is no directory `{shown}`"))
                .hint("`coding-agent status` lists the tasks; `show` takes the UUID of one as well"))
        };
    }
    let base_dir = &config.context_storage.base_dir;
    let beginning = shown.to_lowercase();
    let mut found: BTreeMap<String, &'static str> = BTreeMap::new();
    for place in PLACES {
        for name in file::names(&base_dir.join(place))? {
            if !beginning.is_empty() && name.to_lowercase().starts_with(&beginning) {
                found.entry(name).or_insert(place);
            }
        }
    }
    let exact = found.get_key_value(&*shown).map(|(name, place)| (name.clone(), *place));
    let only = exact.or_else(|| if found.len() == 1 { found.pop_first() } else { None });
    if let Some((name, place)) = only {
        return Ok(Found {
            dir: base_dir.join(place).join(name),
            place: Some(place),
            database: config.database_path(),
        });
    }
    if !found.is_empty() {
        let names: Vec<&str> = found.keys().take(NAMED).map(String::as_str).collect();
        let more = if found.len() > NAMED { ", …" } else { "" };
        let tasks = found.len();
        return Err(Error::usage(format!("`{shown}` begins the UUID of {tasks} tasks: {}{more}", names.join(", ")))
            .hint("type more of it"));
    }
    if !beginning.is_empty() && path.is_dir() {
        return Ok(by_path(config, path));
    }
    Err(Error::usage(format!(
        "there is no task `{shown}` in `running`, `paused` or `completed` of `{}`",
        base_dir.display()
    ))
    .hint("`coding-agent status` lists the tasks; one that still waits has nothing to show"))
}

/// A directory that was named by its path may come from another installation, with its database two
/// levels higher.
fn by_path(config: &Config, path: &Path) -> Found {
    let dir = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let parent = dir.parent();
    let parent_name = parent.and_then(Path::file_name);
    let place = PLACES.into_iter().find(|place| parent_name.is_some_and(|name| name == *place));
    let database = parent.and_then(Path::parent).map(|base_dir| base_dir.join("tasks.db"));
    let database = database.filter(|path| path.is_file()).unwrap_or_else(|| config.database_path());
    Found { dir: path.to_path_buf(), place, database }
}

//! Kernel locks (flock): they belong to an open file, follow its inode through a rename and die
//! with the process. No process id is ever compared (case C47). Opened files are close-on-exec, so
//! children do not inherit a lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::file;
use crate::error::Result;

/// Tries to lock an open file for ourselves alone; `false` when somebody else has it.
///
/// # Errors
/// What the system says, other than "somebody has it".
pub fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(source),
    }
}

/// Opens and locks `path`; `None` when it is gone, somebody else has it, or it was replaced by
/// another file between opening and locking.
///
/// # Errors
/// `Kind::Host` when it cannot be opened or locked for another reason.
pub fn open_locked(path: &Path) -> Result<Option<File>> {
    let opened = match OpenOptions::new().read(true).write(true).custom_flags(no_follow()).open(path) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|source| file::error("open", path, source))?,
    };
    let locked = try_lock(&opened).map_err(|source| file::error("lock", path, source))?;
    Ok((locked && is_at(&opened, path)).then_some(opened))
}

/// Whether `file` is the inode that stands under `path` now.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => ours.dev() == there.dev() && ours.ino() == there.ino(),
        _ => false,
    }
}

/// The process that has the lock of `path`, by the kernel's own list (proc_locks(5)), without trying the
/// lock: who tries holds it for a moment. 0 where it is of another container; `None` where nobody has it.
pub fn holder(path: &Path) -> Option<u32> {
    let inode = std::fs::metadata(path).ok()?.ino().to_string();
    let list = std::fs::read_to_string("/proc/locks").ok()?;
    list.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, place, ..] = words.as_slice() else { return None };
        (place.rsplit(':').next() == Some(inode.as_str())).then(|| process.parse().unwrap_or(0))
    })
}

/// Takes the lock file `path`, creating it where missing, and holds it while the returned file
/// lives; `None` when somebody else has it. The file itself stays: removing lock files is a race.
///
/// # Errors
/// `Kind::Host` when it cannot be opened or locked for another reason.
pub fn try_hold(path: &Path) -> Result<Option<File>> {
    let opened = open_lock_file(path)?;
    let locked = try_lock(&opened).map_err(|source| file::error("lock", path, source))?;
    Ok(locked.then_some(opened))
}

/// Like [`try_hold`], but waits for whoever has it; for work of milliseconds only. The kernel frees
/// the lock of a process that dies, so the wait ends.
///
/// # Errors
/// `Kind::Host` when it cannot be opened or locked.
pub fn hold(path: &Path) -> Result<File> {
    let opened = open_lock_file(path)?;
    loop {
        match opened.lock() {
            Ok(()) => return Ok(opened),
            Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(file::error("lock", path, source)),
        }
    }
}

/// Runs `work` while holding the lock file `path` through `fd-lock`; `None` when somebody else has it.
///
/// # Errors
/// `Kind::Host` when it cannot be opened or locked for another reason; else what `work` returns.
pub fn exclusively<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    let mut lock = fd_lock::RwLock::new(open_lock_file(path)?);
    let guard = match lock.try_write() {
        Err(source) if source.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        guard => guard.map_err(|source| file::error("lock", path, source))?,
    };
    let done = work().map(Some);
    drop(guard);
    done
}

fn open_lock_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| file::error("open the lock file", path, source))
}

fn no_follow() -> i32 {
    // A link planted in the spool must not make us lock or read another file.
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

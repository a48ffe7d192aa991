//! The only module that creates, replaces, renames or removes state files. Every operation is
//! atomic or says how it is not; every one passes `fault::io`, so tests can make it fail.
//! Knows no format and no domain.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{fault, lock};
use crate::error::{Error, Kind, Result};

/// Whether bytes must be on the disk before we go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// fsync or fdatasync: others act on it.
    Now,
    /// The kernel writes it when it likes.
    Later,
}

const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// An I/O error about `path` as ours. A full disk comes with its remedy.
pub fn error(what: &str, path: &Path, source: io::Error) -> Error {
    let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let reason = if full { "the disk is full".to_owned() } else { reason_of(&source) };
    let error = Error::new(Kind::Host, format!("cannot {what} `{}`: {reason}", path.display())).caused_by(source);
    if full { error.hint("free some space and run it again; nothing was lost") } else { error }
}

/// The operating system's words without Rust's "(os error N)".
pub fn reason_of(source: &io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Creates a directory and its parents, private to us.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn create_dir(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fault::io()
        .and_then(|()| DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(path))
        .map_err(|source| error("create the directory", path, source))
}

/// Makes entries of `dir` (links, renames, removals) survive a power cut.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn sync_dir(dir: &Path) -> Result<()> {
    fault::io().and_then(|()| File::open(dir)?.sync_all()).map_err(|source| error("sync the directory", dir, source))
}

/// Reads a whole file; `None` when there is none.
///
/// # Errors
/// `Kind::Host` when it cannot be read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(error("read", path, source)),
    }
}

/// Names of the entries of `dir`, sorted; what is no UTF-8 is left out. A missing directory is empty.
///
/// # Errors
/// `Kind::Host` when it cannot be read.
pub fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(error("list", dir, source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| error("list", dir, source))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Replaces the whole content of `path` (or creates it): temporary file in the same directory,
/// write, fsync, rename, fsync of the directory. After an error the old content stands.
///
/// # Errors
/// `Kind::Host` when any step fails.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_with_mode(path, bytes, None)
}

/// Like [`replace`], for a file that belongs to a person: its permissions stay as they are.
///
/// # Errors
/// As [`replace`].
pub fn replace_synced_keeping_mode(path: &Path, bytes: &[u8]) -> Result<()> {
    let mode = fs::metadata(path).map_err(|source| error("write", path, source))?.mode() & 0o7777;
    replace_with_mode(path, bytes, Some(mode))
}

fn replace_with_mode(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<()> {
    let temporary = temporary_beside(path);
    let written = create_new(&temporary, PRIVATE_FILE).and_then(|mut file| {
        write_whole(&mut file, bytes)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        fault::io()?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| {
        fault::point("file.replace.written");
        fault::io()?;
        fs::rename(&temporary, path)
    });
    if let Err(source) = renamed {
        let _ = fs::remove_file(&temporary);
        return Err(error("write", path, source));
    }
    sync_dir(parent(path))
}

/// Replaces the content of a work file: atomic, keeps its permissions (0644 for a new one), not
/// synced, since it can be made again.
///
/// # Errors
/// `Kind::Host` when any step fails.
pub fn replace_keeping_mode(path: &Path, bytes: &[u8]) -> Result<()> {
    let mode = fs::symlink_metadata(path).ok().map(|metadata| metadata.mode() & 0o7777);
    let temporary = temporary_beside(path);
    let written = create_new(&temporary, 0o644).and_then(|mut file| {
        write_whole(&mut file, bytes)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        fs::rename(&temporary, path)
    });
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        error("write", path, source)
    })
}

/// Writes a file that is to be moved to its place when it is whole: synced, with this mode, or with
/// 0644 and the umask. What lies at `path` goes.
///
/// # Errors
/// `Kind::Host` when any step fails; then nothing lies there.
pub fn stage(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<()> {
    let written = create_new(path, 0o644).and_then(|mut file| {
        write_whole(&mut file, bytes)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        fault::io()?;
        file.sync_all()
    });
    written.map_err(|source| {
        let _ = fs::remove_file(path);
        error("write", path, source)
    })
}

/// Publishes a new file under `target` so that nobody ever sees half of it, and returns it locked:
/// create and lock in `temporary_dir`, write, fsync, link(2), unlink, fsync of the directory.
///
/// # Errors
/// `Kind::Host` when any step fails; then nothing stands under `target`, unless the very last sync failed.
pub fn publish_locked(temporary_dir: &Path, target: &Path, bytes: &[u8]) -> Result<File> {
    let temporary = temporary_dir.join(target.file_name().unwrap_or(target.as_os_str()));
    let written = (|| {
        let mut file = create_new(&temporary, PRIVATE_FILE)?;
        if !lock::try_lock(&file)? {
            return Err(io::Error::other("somebody else holds the lock of a new file"));
        }
        write_whole(&mut file, bytes)?;
        fault::io()?;
        file.sync_all()?;
        fault::point("spool.publish.written");
        fault::io()?;
        // link(2), not rename(2): an existing entry must make us fail rather than be replaced.
        // From this call on the entry exists; before it, nobody can see it.
        fs::hard_link(&temporary, target)?;
        Ok(file)
    })();
    let _ = fs::remove_file(&temporary);
    let file = written.map_err(|source| error("publish", target, source))?;
    sync_dir(parent(target))?;
    Ok(file)
}

/// Moves a file or directory within one file system. Renaming a directory onto an existing
/// non-empty one is refused by the system; files must not exist at `to`.
///
/// # Errors
/// `Kind::Host` when the system refuses or `to` exists.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    let refused = |source| error(&format!("move `{}` to", from.display()), to, source);
    if fs::symlink_metadata(to).is_ok() {
        return Err(refused(io::Error::from(io::ErrorKind::AlreadyExists)));
    }
    fault::io().and_then(|()| fs::rename(from, to)).map_err(refused)
}

/// Like [`rename`], and both directories are synced.
///
/// # Errors
/// As [`rename`].
pub fn rename_synced(from: &Path, to: &Path) -> Result<()> {
    rename(from, to)?;
    sync_dir(parent(to))?;
    sync_dir(parent(from))
}

/// Removes a file; a missing one is fine.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn remove(path: &Path) -> Result<()> {
    match fault::io().and_then(|()| fs::remove_file(path)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(error("remove", path, source)),
        _ => Ok(()),
    }
}

/// Removes a directory with all it holds; a missing one is fine.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn remove_dir(path: &Path) -> Result<()> {
    let removed = fault::io().and_then(|()| fs::remove_dir_all(path)).or_else(|source| match source.kind() {
        // Somebody's own directory that he may not write to: caches of go are like that.
        io::ErrorKind::PermissionDenied => {
            super::tree::open_up(path);
            fs::remove_dir_all(path)
        }
        _ => Err(source),
    });
    match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(error("remove the directory", path, source)),
        _ => Ok(()),
    }
}

/// Opens a file for reading and appending, creating it private where missing.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn open_append(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(PRIVATE_FILE)
        .open(path)
        .map_err(|source| error("open", path, source))
}

/// Appends `bytes` with one write(2). When that fails half-way the file is cut back to what it was,
/// so a later append does not run into a torn line.
///
/// # Errors
/// `Kind::Host` when the write or the sync fails.
pub fn append(file: &mut File, path: &Path, bytes: &[u8], sync: Sync) -> Result<()> {
    let before = file.metadata().map_err(|source| error("append to", path, source))?.len();
    let written = write_whole(file, bytes).and_then(|()| match sync {
        Sync::Now => fault::io().and_then(|()| file.sync_data()),
        Sync::Later => Ok(()),
    });
    written.map_err(|source| {
        let _ = file.set_len(before);
        error("append to", path, source)
    })
}

/// Cuts a file to `length` bytes and keeps what was cut in `<path>.torn`.
///
/// # Errors
/// `Kind::Host` when any step fails.
pub fn cut_torn_end(file: &mut File, path: &Path, length: u64) -> Result<()> {
    let cut = |source| error("cut the torn end of", path, source);
    let mut torn = Vec::new();
    file.seek(SeekFrom::Start(length)).map_err(cut)?;
    file.read_to_end(&mut torn).map_err(cut)?;
    let mut keep = path.as_os_str().to_owned();
    keep.push(".torn");
    let keep = PathBuf::from(keep);
    let mut kept = open_append(&keep)?;
    torn.push(b'\n');
    append(&mut kept, &keep, &torn, Sync::Later)?;
    fault::io().and_then(|()| file.set_len(length)).and_then(|()| file.sync_all()).map_err(cut)
}

/// Moves `path` to `path.1`, that to `path.2`, … keeping `kept` old files.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn rotate(path: &Path, kept: u32) -> Result<()> {
    let numbered = |number: u32| match number {
        0 => path.to_path_buf(),
        _ => PathBuf::from(format!("{}.{number}", path.display())),
    };
    for number in (0..kept).rev() {
        let (from, to) = (numbered(number), numbered(number + 1));
        match fs::rename(&from, &to) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error("rotate", &from, source)),
            _ => {}
        }
    }
    Ok(())
}

/// How long ago `path` was last written, in milliseconds; `None` when it is gone or from the future.
pub fn age_ms(path: &Path) -> Option<u64> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    let age = std::time::SystemTime::now().duration_since(modified).ok()?;
    u64::try_from(age.as_millis()).ok()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name in the same directory, so that the rename cannot cross file systems.
fn temporary_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    fault::io()?;
    let open = || OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    match open() {
        // Left by a killed process that had our process id: nobody else writes under this name.
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open()
        }
        opened => opened,
    }
}

fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if let Err(asked_for) = fault::io() {
        // A disk that fills up takes part of the bytes first.
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(asked_for);
    }
    file.write_all(bytes)
}

//! Whole directories: how much one holds, when it was last touched, and opening it up.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Bytes of all files below `path`, links not followed; what cannot be read counts nothing.
pub fn size_bytes(path: &Path) -> u64 {
    let mut total = 0;
    let mut left = vec![path.to_path_buf()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else {
            total += metadata.len();
        }
    }
    total
}

/// Lets us write in `path` and all directories below it, links not followed; what cannot be changed stays.
pub fn open_up(path: &Path) {
    let mut left = vec![path.to_path_buf()];
    while let Some(path) = left.pop() {
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
}

/// How long ago the directory or something directly in it was last written, in milliseconds; `None`
/// when it is gone or the time lies in the future.
pub fn idle_ms(dir: &Path) -> Option<u64> {
    let mut idle_ms = super::file::age_ms(dir)?;
    for entry in fs::read_dir(dir).ok()?.flatten() {
        idle_ms = idle_ms.min(super::file::age_ms(&entry.path())?);
    }
    Some(idle_ms)
}

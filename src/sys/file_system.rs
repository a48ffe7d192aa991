//! What lies below a directory: which file system, how much room, and whether what the queue relies on
//! works there: locks, links and renames.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;

use super::{fault, file, lock};
use crate::error::{Error, Result};

/// File systems that live on other machines or in other programs, where locks of one machine are not
/// seen by the others or not kept at all (numbers: statfs(2), linux/magic.h).
const REMOTE: [(u64, &str); 13] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "SMB"),
    (0xFE53_4D42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00C3_6400, "Ceph"),
    (0x5346_414F, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x0BD0_0BD0, "Lustre"),
    (0x786F_4256, "a shared folder of VirtualBox"),
];
/// File systems in memory.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// What is known of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// What it is called, where it is not on this machine alone.
    pub remote: Option<&'static str>,
    /// Whether it is gone after a restart of the machine.
    pub is_in_memory: bool,
    /// Room that is left for us, in bytes.
    pub free_bytes: u64,
}

/// The file system of `dir`, which exists.
///
/// # Errors
/// `Kind::Host` when the system does not say.
pub fn look_at(dir: &Path) -> Result<FileSystem> {
    let found = statfs(dir).map_err(|source| file::error("look at the file system of", dir, source.into()))?;
    // Some machines have the number with a sign.
    let kind = found.f_type as u64 & 0xFFFF_FFFF;
    Ok(FileSystem {
        remote: REMOTE.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name),
        is_in_memory: IN_MEMORY.contains(&kind) && fault::tells_memory(),
        free_bytes: (found.f_bavail as u64).saturating_mul(found.f_bsize as u64),
    })
}

/// The innermost directory on the way to `path` that exists, `path` itself included.
pub fn nearest_existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/")).to_path_buf()
}

/// Tries in a directory of its own inside `dir`, which is gone afterwards, whether files can be made,
/// locked against a second handle, linked and renamed.
///
/// # Errors
/// `Kind::Host` with what does not work.
pub fn try_out(dir: &Path) -> Result<()> {
    let inside = dir.join(format!(".coding-agent-doctor-{}", std::process::id()));
    file::create_dir(&inside)?;
    let tried = try_in(&inside);
    file::remove_dir(&inside)?;
    tried
}

fn try_in(dir: &Path) -> Result<()> {
    let (first, linked, renamed) = (dir.join("a"), dir.join("b"), dir.join("c"));
    file::replace(&first, b"tried\n")?;
    let open = |path: &Path| File::open(path).map_err(|source| file::error("open", path, source));
    let locked = |handle: &File| lock::try_lock(handle).map_err(|source| file::error("lock", &first, source));
    let (one, other) = (open(&first)?, open(&first)?);
    if !locked(&one)? || locked(&other)? {
        return Err(Error::host("locks (flock) do not hold there"));
    }
    fs::hard_link(&first, &linked).map_err(|source| file::error("make a link to", &first, source))?;
    file::rename(&linked, &renamed)?;
    // The lock is of the file, whatever it is called.
    if locked(&open(&renamed)?)? {
        return Err(Error::host("locks (flock) do not follow a file that is renamed there"));
    }
    Ok(())
}

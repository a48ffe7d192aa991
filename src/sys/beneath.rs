//! A directory whose content somebody else may change at any moment, used through handles so that
//! no path in it can lead out of it: not even when a link is put there between two of our steps.
//! Paths are relative, without `..`, and follow no symbolic link at all: who wants to follow one
//! reads where it leads with [`Beneath::look`] and decides. Knows nothing of what lies there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::fault;

/// Mode of new directories, before the umask.
const DIRECTORY_MODE: Mode = Mode::from_bits_truncate(0o755);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A directory, by its handle: it stays this one whatever its path leads to later.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
}

/// What lies under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A regular file and its permission bits.
    File(u32),
    /// A directory.
    Directory,
    /// A symbolic link and where it leads.
    Link(PathBuf),
    /// A pipe, socket or device: opening it could hang.
    Other,
}

impl Beneath {
    /// Opens the directory at `path`, following links up to and including it.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { root: fs::open(path, DIRECTORY | OFlags::CLOEXEC, Mode::empty())? })
    }

    /// What lies at `path`; `None` when nothing does.
    ///
    /// # Errors
    /// As the system says; also when something before the last name is no directory.
    pub fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        let handle = match self.reach(path, OFlags::PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let stat = fs::fstat(&handle)?;
        Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Entry::File(stat.st_mode & 0o7777),
            FileType::Directory => Entry::Directory,
            FileType::Symlink => Entry::Link(target(fs::readlinkat(&handle, "", Vec::new())?)),
            _ => Entry::Other,
        }))
    }

    /// Opens a regular file for reading; anything else is refused and never waited for.
    ///
    /// # Errors
    /// As the system says; `InvalidInput` when it is no regular file.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        // Without NONBLOCK the opening of a pipe waits for a writer.
        let file = File::from(self.reach(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }

    /// Names and kinds of up to `most` entries of the directory at `path`, in no order.
    ///
    /// # Errors
    /// As the system says.
    pub fn entries(&self, path: &Path, most: usize) -> io::Result<Vec<(OsString, Entry)>> {
        let mut dir = Dir::new(self.reach(path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        let mut found = Vec::new();
        while found.len() < most
            && let Some(entry) = dir.read()
        {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = match fs::statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Entry::File(stat.st_mode & 0o7777),
                FileType::Directory => Entry::Directory,
                FileType::Symlink => {
                    Entry::Link(fs::readlinkat(dir.fd()?, name, Vec::new()).map(target).unwrap_or_default())
                }
                _ => Entry::Other,
            };
            found.push((OsStr::from_bytes(name.to_bytes()).to_owned(), kind));
        }
        Ok(found)
    }

    /// Makes the directory at `path` and those above it, as far as they are missing.
    ///
    /// # Errors
    /// As the system says.
    pub fn make_directories(&self, path: &Path) -> io::Result<()> {
        let mut made = PathBuf::new();
        for component in path.components() {
            let above = self.reach(&made, DIRECTORY)?;
            made.push(component);
            fault::io()?;
            match fs::mkdirat(&above, component.as_os_str(), DIRECTORY_MODE) {
                Ok(()) => sync(&above)?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Moves the finished file `staged`, of the same file system, to `path`; what lies there is
    /// replaced in one step, or refused with `AlreadyExists` unless `replaces`.
    ///
    /// # Errors
    /// As the system says; then `path` is as it was, unless only the last sync failed.
    pub fn take_in(&self, staged: &Path, path: &Path, replaces: bool) -> io::Result<()> {
        let (above, name) = self.reach_parent(path)?;
        fault::io()?;
        let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match fs::renameat_with(fs::CWD, staged, &above, name, flags) {
            // A file system without the flag; the caller has looked.
            Err(Errno::INVAL | Errno::NOSYS) if !replaces => fs::renameat(fs::CWD, staged, &above, name)?,
            other => other?,
        }
        sync(&above)
    }

    /// Removes the file at `path`; a link goes, not what it leads to.
    ///
    /// # Errors
    /// As the system says.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (above, name) = self.reach_parent(path)?;
        fault::io()?;
        fs::unlinkat(&above, name, AtFlags::empty())?;
        sync(&above)
    }

    fn reach_parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        Ok((self.reach(path.parent().unwrap_or(Path::new("")), DIRECTORY)?, name))
    }

    /// A handle of what lies at `path`, through no link.
    fn reach(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        fault::point("beneath.reach");
        if path.components().any(|component| !matches!(component, Component::Normal(_))) {
            return Err(Errno::INVAL.into());
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let whole = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let asked = if fault::has_openat2() {
            fs::openat2(&self.root, whole, flags, Mode::empty(), rules)
        } else {
            Err(Errno::NOSYS)
        };
        match asked {
            // Linux before 5.6, or a container's filter of system calls that does not know it.
            Err(Errno::NOSYS | Errno::PERM) => self.walk(path, flags),
            other => other,
        }
        // A link where a directory or file should be: the two ways name it differently.
        .map_err(|errno| if errno == Errno::LOOP { Errno::NOTDIR.into() } else { errno.into() })
    }

    /// The same, one name at a time, each from the handle of the one before.
    fn walk(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let Some(last) = path.file_name() else {
            return fs::openat(&self.root, ".", flags, Mode::empty());
        };
        let mut above: Option<OwnedFd> = None;
        for component in path.parent().unwrap_or(Path::new("")).components() {
            let from = above.as_ref().unwrap_or(&self.root);
            let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            above = Some(fs::openat(from, component.as_os_str(), flags, Mode::empty())?);
            fault::point("beneath.step");
        }
        fs::openat(above.as_ref().unwrap_or(&self.root), last, flags, Mode::empty())
    }
}

fn target(link: std::ffi::CString) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(link.as_bytes()))
}

/// Makes the entries of a directory survive a power cut.
fn sync(directory: &OwnedFd) -> io::Result<()> {
    fault::io()?;
    // The handle itself is good for paths only.
    match fs::openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(readable) => Ok(fs::fsync(readable)?),
        // A directory that may be written but not listed: the kernel writes it when it likes.
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

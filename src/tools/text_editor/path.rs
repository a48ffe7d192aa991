//! Containment: turns the path a model names into a place inside the work tree, or refuses it.
//! Nothing else in the editor joins paths, and every use of a place goes through the handle of the
//! tree, which follows no link: swapping one in between the look and the use makes the use fail.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use super::document;
use crate::sys::beneath::{Beneath, Entry};
use crate::sys::file::reason_of;

/// Larger files are for commands such as `sed -n`, not for this tool.
const LARGEST_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// As many links in one path as the kernel follows.
const MOST_LINKS: usize = 40;

/// The work tree.
#[derive(Debug)]
pub(super) struct Tree {
    given: PathBuf,
    real: PathBuf,
    pub(super) beneath: Beneath,
}

/// A place inside the work tree.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) tree: &'a Tree,
    /// Relative to the tree, without a symbolic link in it.
    pub(super) path: PathBuf,
    /// As a person names it: relative to the tree.
    pub(super) shown: String,
    pub(super) found: Found,
    /// The last component itself is a symbolic link.
    is_link: bool,
}

/// What lies at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A file and its permission bits.
    File(u32),
    Directory,
    /// Pipe, socket, device: opening it could hang.
    Other,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, String> {
        let failed =
            |error: io::Error| format!("cannot open the work tree `{}`: {}", root.display(), reason_of(&error));
        let real = root.canonicalize().map_err(failed)?;
        let beneath = Beneath::open(&real).map_err(failed)?;
        Ok(Self { given: root.to_owned(), real, beneath })
    }

    /// The place that `path` names; refused when it is not inside the tree or is git's own.
    pub(super) fn locate(&self, path: &str) -> Result<Place<'_>, String> {
        let wanted = self.components(path)?;
        let shown = if wanted.as_os_str().is_empty() { ".".to_owned() } else { wanted.to_string_lossy().into_owned() };
        let mut place = Place { tree: self, path: PathBuf::new(), shown, found: Found::Directory, is_link: false };
        let mut links = 0;
        for component in wanted.components() {
            place.is_link = false;
            match place.found {
                Found::Directory => self.step(&mut place, component.as_os_str(), &mut links)?,
                Found::Nothing => place.path.push(component),
                Found::File(_) | Found::Other => {
                    return Err(format!(
                        "`{}` cannot exist: `{}` is not a directory",
                        place.shown,
                        place.path.display()
                    ));
                }
            }
        }
        Ok(place)
    }

    /// `path` as normal components below the root; purely lexical.
    fn components(&self, path: &str) -> Result<PathBuf, String> {
        if path.is_empty() {
            return Err("`path` is empty; give a path relative to the work tree, or `.` for the tree itself".to_owned());
        }
        if path.contains('\0') {
            return Err("`path` holds a NUL byte; no file name can".to_owned());
        }
        let path = Path::new(path);
        let below = if path.is_absolute() {
            self.inside(path).ok_or_else(|| {
                format!("`{}` is outside the work tree; use a path relative to it, such as `src`", path.display())
            })?
        } else {
            path
        };
        let mut wanted = PathBuf::new();
        for component in below.components() {
            match component {
                Component::Normal(name) => wanted.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(format!(
                        "`{}` holds `..`; write the path from the top of the work tree instead",
                        path.display()
                    ));
                }
            }
            if wanted.file_name().is_some_and(is_git) {
                return Err(refuse_git(&path.to_string_lossy()));
            }
        }
        Ok(wanted)
    }

    /// An absolute path as one relative to the tree; `None` when it does not begin with the tree.
    fn inside<'p>(&self, absolute: &'p Path) -> Option<&'p Path> {
        absolute.strip_prefix(&self.given).or_else(|_| absolute.strip_prefix(&self.real)).ok()
    }

    /// Goes one component down; of a symbolic link, as far down as it leads inside the tree.
    fn step(&self, place: &mut Place<'_>, name: &OsStr, links: &mut usize) -> Result<(), String> {
        let mut ahead = VecDeque::from([name.to_owned()]);
        let mut through: Option<PathBuf> = None;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                // The path so far has no link in it, so what is above is what stands before.
                if !place.path.pop() {
                    return Err(leaves(place, through.as_deref()));
                }
                continue;
            }
            let next = place.path.join(&name);
            if is_git(&name) {
                return Err(refuse_git(&place.shown));
            }
            let entry = self.beneath.look(&next).map_err(|error| failed("look at", &place.shown, &error))?;
            place.found = match entry {
                None if through.is_none() => Found::Nothing,
                None => return Err(leads_nowhere(place, through.as_deref())),
                Some(Entry::File(mode)) => Found::File(mode),
                Some(Entry::Directory) => Found::Directory,
                Some(Entry::Other) => Found::Other,
                Some(Entry::Link(target)) => {
                    *links += 1;
                    if *links > MOST_LINKS {
                        return Err(leads_nowhere(place, Some(&next)));
                    }
                    let from_top = target.is_absolute();
                    let below = if from_top { self.inside(&target) } else { Some(target.as_path()) };
                    let below = below.ok_or_else(|| leaves(place, Some(&next)))?;
                    if from_top {
                        place.path.clear();
                    }
                    place.found = Found::Directory;
                    for component in below.components().rev().filter(|part| *part != Component::CurDir) {
                        ahead.push_front(OsString::from(component.as_os_str()));
                    }
                    place.is_link = true;
                    through.get_or_insert(next);
                    continue;
                }
            };
            place.path = next;
            if place.found != Found::Directory && !ahead.is_empty() {
                return Err(leads_nowhere(place, through.as_deref()));
            }
        }
        Ok(())
    }
}

/// Git's own files steer what later git commands run, so none of them is for the model. The case
/// does not matter: on some filesystems `.GIT` is the same directory.
pub(super) fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

fn refuse_git(shown: &str) -> String {
    format!("`{shown}` is inside `.git`, which this tool never opens; use git commands instead")
}

fn leaves(place: &Place<'_>, link: Option<&Path>) -> String {
    let link = link.unwrap_or(Path::new("..")).display();
    format!("`{}` is outside the work tree: `{link}` is a symbolic link that leaves it", place.shown)
}

fn leads_nowhere(place: &Place<'_>, link: Option<&Path>) -> String {
    let link = link.unwrap_or(&place.path).display();
    format!("`{}` cannot be reached: the symbolic link `{link}` leads nowhere", place.shown)
}

fn failed(verb: &str, shown: &str, error: &io::Error) -> String {
    use io::ErrorKind::{InvalidInput, NotADirectory};
    match error.kind() {
        // The look just before found no link on the way, and a file.
        NotADirectory | InvalidInput => {
            format!("cannot {verb} `{shown}`: something else changed it at this moment; view it and try again")
        }
        _ => format!("cannot {verb} `{shown}`: {}", reason_of(error)),
    }
}

impl Place<'_> {
    /// Refuses what no edit may replace: a link (its target would change under another name), a
    /// directory, a device.
    pub(super) fn check_writable(&self) -> Result<(), String> {
        let what = match self.found {
            _ if self.is_link => "a symbolic link; edit the file it points to under that file's own path",
            Found::Directory => "a directory; name a file in it",
            Found::Other => "neither a file nor a directory (a pipe, socket or device)",
            Found::Nothing | Found::File(_) => return Ok(()),
        };
        Err(format!("cannot edit `{}`: it is {what}", self.shown))
    }

    /// The bytes of the file here, up to a bound; `None` when nothing is here.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match self.found {
            Found::Nothing => return Ok(None),
            Found::File(_) => {}
            Found::Directory => return Err(format!("`{}` is a directory", self.shown)),
            Found::Other => return Err(format!("`{}` is a pipe, socket or device, not a file", self.shown)),
        }
        let failed = |error: io::Error| failed("read", &self.shown, &error);
        let file = self.tree.beneath.open_file(&self.path).map_err(failed)?;
        let bytes = read_up_to(&file, LARGEST_FILE_BYTES + 1).map_err(failed)?;
        if bytes.len() as u64 <= LARGEST_FILE_BYTES {
            return Ok(Some(bytes));
        }
        let size = file.metadata().map_err(failed)?.len();
        let what = document::binary_name(&bytes).unwrap_or_else(|| "text file".to_owned());
        Err(format!(
            "`{}` is too large for this tool ({what}, {size} bytes; the limit is {LARGEST_FILE_BYTES}); use commands \
             such as `sed -n 1,100p` or `grep -n`",
            self.shown
        ))
    }

    /// Puts the finished file `staged` here, and makes the directories above it.
    pub(super) fn take_in(&self, staged: &Path) -> Result<(), String> {
        let above = self.path.parent().unwrap_or(Path::new(""));
        let beneath = &self.tree.beneath;
        if self.found == Found::Nothing {
            beneath.make_directories(above).map_err(|error| failed("create the directory of", &self.shown, &error))?;
        }
        let replaces = self.found != Found::Nothing;
        beneath.take_in(staged, &self.path, replaces).map_err(|error| failed("write", &self.shown, &error))
    }

    /// Whether a file with exactly these bytes is here now.
    pub(super) fn now_holds(&self, bytes: &[u8]) -> bool {
        let file = self.tree.beneath.open_file(&self.path);
        file.and_then(|file| read_up_to(&file, bytes.len() as u64 + 1)).is_ok_and(|now| now == bytes)
    }

    /// Removes the file here.
    pub(super) fn remove(&self) -> Result<(), String> {
        self.tree.beneath.remove(&self.path).map_err(|error| failed("remove", &self.shown, &error))
    }

    /// Permission bits of the file here.
    pub(super) fn mode(&self) -> Option<u32> {
        if let Found::File(mode) = self.found { Some(mode) } else { None }
    }
}

pub(super) fn read_up_to(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

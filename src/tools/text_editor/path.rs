//! Containment: turns the path a model names into a place inside the work tree, or refuses it.
//! Nothing else in the editor joins paths. Reads files with a bound; never writes.
//!
//! The check and the use are two steps. That is enough because tool calls run one after another
//! and a sandboxed command leaves no process behind that could swap a directory in between.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use super::document;

/// Larger files are for commands such as `sed -n`, not for this tool.
const LARGEST_FILE_BYTES: u64 = 10 * 1024 * 1024;

/// The work tree.
#[derive(Debug)]
pub(super) struct Tree {
    given: PathBuf,
    real: PathBuf,
}

/// A place inside the work tree. `real` has no symbolic link in it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) real: PathBuf,
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
    File,
    Directory,
    /// Pipe, socket, device: opening it could hang.
    Other,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, String> {
        let real =
            root.canonicalize().map_err(|error| format!("cannot open the work tree `{}`: {error}", root.display()))?;
        Ok(Self { given: root.to_owned(), real })
    }

    /// The place that `path` names; refused when it is not inside the tree or is git's own.
    pub(super) fn locate(&self, path: &str) -> Result<Place, String> {
        let wanted = self.components(path)?;
        let shown = if wanted.as_os_str().is_empty() { ".".to_owned() } else { wanted.to_string_lossy().into_owned() };
        let mut place = Place { real: self.real.clone(), shown, found: Found::Directory, is_link: false };
        for component in wanted.components() {
            place.is_link = false;
            match place.found {
                Found::Directory => self.step(&mut place, component)?,
                Found::Nothing => place.real.push(component),
                Found::File | Found::Other => {
                    return Err(format!(
                        "`{}` cannot exist: `{}` is not a directory",
                        place.shown,
                        self.relative(&place.real)
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
            path.strip_prefix(&self.given).or_else(|_| path.strip_prefix(&self.real)).map_err(|_| {
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
        }
        refuse_git(&wanted, &path.to_string_lossy())?;
        Ok(wanted)
    }

    /// Goes one component down, through a symbolic link only if it stays inside.
    fn step(&self, place: &mut Place, component: Component<'_>) -> Result<(), String> {
        let next = place.real.join(component);
        let metadata = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (place.real, place.found) = (next, Found::Nothing);
                return Ok(());
            }
            other => other.map_err(|error| format!("cannot look at `{}`: {error}", place.shown))?,
        };
        if !metadata.is_symlink() {
            (place.real, place.found) = (next, Found::of(&metadata));
            return Ok(());
        }
        let link = self.relative(&next);
        let lost =
            |error| format!("`{}` cannot be reached: the symbolic link `{link}` leads nowhere ({error})", place.shown);
        let target = next.canonicalize().map_err(lost)?;
        let Ok(inside) = target.strip_prefix(&self.real) else {
            return Err(format!(
                "`{}` is outside the work tree: `{link}` is a symbolic link that leaves it",
                place.shown
            ));
        };
        refuse_git(inside, &place.shown)?;
        let metadata = fs::symlink_metadata(&target).map_err(lost)?;
        (place.real, place.found, place.is_link) = (target, Found::of(&metadata), true);
        Ok(())
    }

    fn relative(&self, real: &Path) -> String {
        real.strip_prefix(&self.real).unwrap_or(real).display().to_string()
    }
}

/// Git's own files steer what later git commands run, so none of them is for the model. The case
/// does not matter: on some filesystems `.GIT` is the same directory.
fn refuse_git(path: &Path, shown: &str) -> Result<(), String> {
    if path.components().any(|component| component.as_os_str().eq_ignore_ascii_case(".git")) {
        return Err(format!("`{shown}` is inside `.git`, which this tool never opens; use git commands instead"));
    }
    Ok(())
}

impl Found {
    fn of(metadata: &fs::Metadata) -> Self {
        match metadata {
            _ if metadata.is_file() => Self::File,
            _ if metadata.is_dir() => Self::Directory,
            _ => Self::Other,
        }
    }
}

impl Place {
    /// Refuses what no edit may replace: a link (its target would change under another name), a
    /// directory, a device.
    pub(super) fn check_writable(&self) -> Result<(), String> {
        let what = match self.found {
            _ if self.is_link => "a symbolic link; edit the file it points to under that file's own path",
            Found::Directory => "a directory; name a file in it",
            Found::Other => "neither a file nor a directory (a pipe, socket or device)",
            Found::Nothing | Found::File => return Ok(()),
        };
        Err(format!("cannot edit `{}`: it is {what}", self.shown))
    }

    /// The bytes of the file here, up to a bound; `None` when nothing is here.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match self.found {
            Found::Nothing => return Ok(None),
            Found::File => {}
            Found::Directory => return Err(format!("`{}` is a directory", self.shown)),
            Found::Other => return Err(format!("`{}` is a pipe, socket or device, not a file", self.shown)),
        }
        let failed = |error| format!("cannot read `{}`: {error}", self.shown);
        let file = fs::File::open(&self.real).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 <= LARGEST_FILE_BYTES {
            return Ok(Some(bytes));
        }
        let size = fs::metadata(&self.real).map_err(failed)?.len();
        let what = document::binary_name(&bytes).unwrap_or_else(|| "text file".to_owned());
        Err(format!(
            "`{}` is too large for this tool ({what}, {size} bytes; the limit is {LARGEST_FILE_BYTES}); use commands \
             such as `sed -n 1,100p` or `grep -n`",
            self.shown
        ))
    }
}

//! What `undo_edit` needs: the last edits, bounded in number and in bytes, each a file in a
//! directory of ours outside the tree. A step is on the disk before its edit is, so that after a
//! kill at any instant the file is either as before the newest step or as after it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sys::file;

/// Edits kept for one file.
const MOST_STEPS_PER_FILE: usize = 10;
/// Edits of all files together; the oldest go first.
const MOST_STEPS: usize = 1000;
const MOST_BYTES: u64 = 64 * 1024 * 1024;

const ENDING: &str = ".step";

/// The edits that can be taken back.
#[derive(Debug)]
pub(super) struct History {
    dir: PathBuf,
    /// Oldest first; `None` until the directory was read.
    steps: Option<Vec<Step>>,
}

/// What is known of a step without reading all of it.
#[derive(Debug)]
struct Step {
    number: u64,
    path: PathBuf,
    bytes: u64,
}

/// One edit of one file.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) number: u64,
    /// `None`: the edit made the file.
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

/// First line of a step's file: the lengths of what follows it.
#[derive(Debug, Serialize, Deserialize)]
struct Lengths {
    path: usize,
    before: Option<usize>,
    after: usize,
}

impl History {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, steps: None }
    }

    /// A name beside the steps for a file that is not whole yet.
    pub(super) fn staged(&self) -> PathBuf {
        self.dir.join("staged")
    }

    /// Keeps an edit that is about to be made; its number, for taking that back.
    pub(super) fn add(&mut self, path: &Path, before: Option<&[u8]>, after: &[u8]) -> Result<u64> {
        file::create_dir(&self.dir)?;
        let number = self.steps()?.last().map_or(1, |step| step.number + 1);
        let name = path.as_os_str().as_bytes();
        let lengths = Lengths { path: name.len(), before: before.map(<[u8]>::len), after: after.len() };
        let mut bytes = serde_json::to_vec(&lengths)
            .map_err(|source| Error::bug("cannot write down a step of the history").caused_by(source))?;
        bytes.push(b'\n');
        for part in [name, before.unwrap_or_default(), after] {
            bytes.extend_from_slice(part);
        }
        file::replace(&self.file(number), &bytes)?;
        let step = Step { number, path: path.to_owned(), bytes: bytes.len() as u64 };
        self.steps()?.push(step);
        self.shorten(path)?;
        Ok(number)
    }

    /// The newest edit of a file.
    pub(super) fn newest(&mut self, path: &Path) -> Result<Option<Edit>> {
        loop {
            let Some(number) = self.steps()?.iter().rfind(|step| step.path == path).map(|step| step.number) else {
                return Ok(None);
            };
            let bytes = file::read(&self.file(number))?;
            match bytes.as_deref().and_then(parse) {
                Some(parts) => {
                    let before = parts.before.map(<[u8]>::to_vec);
                    return Ok(Some(Edit { number, before, after: parts.after.to_vec() }));
                }
                None => self.forget(number)?,
            }
        }
    }

    /// Forgets an edit that was taken back or never made.
    pub(super) fn forget(&mut self, number: u64) -> Result<()> {
        file::remove(&self.file(number))?;
        self.steps()?.retain(|step| step.number != number);
        Ok(())
    }

    fn shorten(&mut self, path: &Path) -> Result<()> {
        loop {
            let steps = self.steps()?;
            let of_file = steps.iter().filter(|step| step.path == path).count();
            let bytes: u64 = steps.iter().map(|step| step.bytes).sum();
            let oldest = match () {
                () if of_file > MOST_STEPS_PER_FILE => steps.iter().find(|step| step.path == path),
                () if steps.len() > MOST_STEPS || bytes > MOST_BYTES => steps.first(),
                () => None,
            };
            let Some(number) = oldest.map(|step| step.number) else { return Ok(()) };
            self.forget(number)?;
        }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:08}{ENDING}"))
    }

    fn steps(&mut self) -> Result<&mut Vec<Step>> {
        let steps = match self.steps.take() {
            Some(steps) => steps,
            None => read_all(&self.dir)?,
        };
        Ok(self.steps.insert(steps))
    }
}

/// The steps an earlier process left, oldest first. One that is damaged is none.
fn read_all(dir: &Path) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for name in file::names(dir)? {
        let path = dir.join(&name);
        let Some(number) = name.strip_suffix(ENDING).and_then(|number| number.parse().ok()) else {
            // Left by a process that was killed while it wrote.
            file::remove(&path)?;
            continue;
        };
        let bytes = file::read(&path)?.unwrap_or_default();
        match parse(&bytes) {
            Some(parts) => steps.push(Step { number, path: parts.path.to_owned(), bytes: bytes.len() as u64 }),
            None => {
                log::warn!("`{}` is damaged; that edit cannot be taken back", path.display());
                file::remove(&path)?;
            }
        }
    }
    steps.sort_by_key(|step| step.number);
    Ok(steps)
}

/// The parts of a step's file.
struct Parts<'a> {
    path: &'a Path,
    before: Option<&'a [u8]>,
    after: &'a [u8],
}

/// Reads a step's file; `None` when it is not whole.
fn parse(bytes: &[u8]) -> Option<Parts<'_>> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = bytes.split_at(end);
    let lengths: Lengths = serde_json::from_slice(head).ok()?;
    let (path, rest) = rest.get(1..)?.split_at_checked(lengths.path)?;
    let (before, after) = rest.split_at_checked(lengths.before.unwrap_or(0))?;
    let path = Path::new(OsStr::from_bytes(path));
    (after.len() == lengths.after).then_some(Parts { path, before: lengths.before.map(|_| before), after })
}

//! A file of JSON lines that is only appended to. Opening it is one pass; a torn last line is cut
//! off and kept beside it, a bad line elsewhere is an error that names it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Context, Error, Kind, Result};
use crate::sys::file::{self, Sync};
use crate::text::printable_json;

/// An open file of JSON lines.
#[derive(Debug)]
pub struct JsonlFile {
    path: PathBuf,
    file: File,
}

impl JsonlFile {
    /// Opens `path`, creating it where missing, and gives each line to `visit`, which may find it bad.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be read or a line other than the last is bad.
    pub fn open<T: DeserializeOwned>(path: &Path, mut visit: impl FnMut(T) -> serde_json::Result<()>) -> Result<Self> {
        let mut opened = file::open_append(path)?;
        let mut reader = BufReader::with_capacity(1 << 18, &mut opened);
        let mut line = Vec::new();
        let (mut offset, mut number) = (0u64, 0u64);
        let mut bad: Option<(u64, Error)> = None;
        loop {
            line.clear();
            let count = reader.read_until(b'\n', &mut line).map_err(|source| file::error("read", path, source))?;
            if count == 0 {
                break;
            }
            if let Some((_, error)) = bad {
                return Err(error);
            }
            number += 1;
            let parsed = if line.ends_with(b"\n") {
                serde_json::from_slice(&line).and_then(&mut visit).context(Kind::Host, || "it is no record".into())
            } else {
                Err(Error::host("the line has no end"))
            };
            if let Err(cause) = parsed {
                let sentence = format!("cannot read line {number} of `{}`", path.display());
                let hint = "mend or remove that line, or move the file away";
                bad = Some((offset, Error::host(sentence).caused_by(cause).hint(hint)));
            }
            offset += count as u64;
        }
        if let Some((good_until, _)) = bad {
            log::warn!("`{}` ends in a torn line; it is cut off and kept beside it", path.display());
            file::cut_torn_end(&mut opened, path, good_until)?;
        }
        Ok(Self { path: path.to_path_buf(), file: opened })
    }

    /// Appends one value as one line, with one write(2).
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written; then the file is as it was.
    pub fn append(&mut self, value: &impl Serialize, sync: Sync) -> Result<()> {
        let line = lines(&self.path, std::iter::once(value))?;
        file::append(&mut self.file, &self.path, &line, sync)
    }

    /// Replaces all lines by these, atomically and synced; appending goes on behind them.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written; the old lines or the new ones stand then.
    pub fn replace(&mut self, values: impl Iterator<Item = impl Serialize>) -> Result<()> {
        file::replace(&self.path, &lines(&self.path, values)?)?;
        self.file = file::open_append(&self.path)?;
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes a file of lines that need not survive a crash, in place of what stands there.
///
/// # Errors
/// `Kind::Host` when it cannot be written.
pub fn write_scratch(path: &Path, values: impl Iterator<Item = impl Serialize>) -> Result<()> {
    file::remove(path)?;
    file::append(&mut file::open_append(path)?, path, &lines(path, values)?, Sync::Later)
}

fn lines(path: &Path, values: impl Iterator<Item = impl Serialize>) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    for value in values {
        let json = serde_json::to_string(&value)
            .context(Kind::Bug, || format!("cannot write a record of `{}` as JSON", path.display()))?;
        // People look at these files on a terminal.
        lines.extend_from_slice(printable_json(&json).as_bytes());
        lines.push(b'\n');
    }
    Ok(lines)
}

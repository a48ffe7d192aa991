//! `parking.json`: since when a task has been waiting for somebody else without getting further,
//! from which the next waiting time follows. Gone as soon as a turn succeeds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Kind, Result};
use crate::sys::file;

const FILE_NAME: &str = "parking.json";
const FIRST_WAIT_MS: u64 = 5 * 60_000;
const LONGEST_WAIT_MS: u64 = 6 * 3_600_000;
const PATIENCE_MS: u64 = 7 * 24 * 3_600_000;

/// How often and since when a task was parked in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parking {
    /// The first parking of the row, in milliseconds since the epoch.
    pub since_ms: u64,
    /// Parkings of the row.
    pub count: u32,
}

impl Parking {
    /// A row that begins at `now_ms`.
    pub fn begin(now_ms: u64) -> Self {
        Self { since_ms: now_ms, count: 0 }
    }

    /// The row of a context directory; a damaged file begins a new one.
    pub fn load(dir: &Path, now_ms: u64) -> Self {
        let bytes = file::read(&dir.join(FILE_NAME)).ok().flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_else(|| Self::begin(now_ms))
    }

    /// Counts one more and writes it.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn count_one(self, dir: &Path) -> Result<()> {
        Self { count: self.count + 1, ..self }.note(dir)
    }

    /// Writes since when the task waits, where the wait is no failure of its own.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn note(self, dir: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(&self).context(Kind::Bug, || "cannot write a parking".into())?;
        file::replace(&dir.join(FILE_NAME), &bytes)
    }

    /// Ends the row.
    ///
    /// # Errors
    /// `Kind::Host` when the system refuses.
    pub fn end(dir: &Path) -> Result<()> {
        let path = dir.join(FILE_NAME);
        if path.exists() { file::remove(&path) } else { Ok(()) }
    }

    /// When to try again: five minutes, doubling up to six hours.
    pub fn next_try_ms(self, now_ms: u64) -> u64 {
        now_ms + (FIRST_WAIT_MS << self.count.min(16)).min(LONGEST_WAIT_MS)
    }

    /// Whether seven days went by without any progress.
    pub fn is_hopeless(self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) > PATIENCE_MS
    }
}

//! The name of a spool entry, which holds all that varies:
//! `[<not-before-ms>.]<enqueued-ms>-<keyhash16>-<uuid>.a<attempt>.json`.

use std::fmt;

use crate::task::TaskId;

/// A parsed entry name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryName {
    /// When a deferred entry is due, in milliseconds since the epoch.
    pub not_before_ms: Option<u64>,
    /// When it was queued, in milliseconds since the epoch.
    pub enqueued_ms: u64,
    /// Hash of the task key.
    pub key_hash: String,
    /// The task's UUID.
    pub uuid: TaskId,
    /// Claims so far in which no turn was completed.
    pub attempt: u32,
}

impl EntryName {
    /// Parses a file name; `None` when it is not exactly one we would write.
    pub fn parse(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".json")?;
        let (stem, attempt) = stem.rsplit_once(".a")?;
        let (not_before, rest) = match stem.split_once('.') {
            Some((not_before, rest)) => (Some(not_before.parse().ok()?), rest),
            None => (None, stem),
        };
        let mut parts = rest.splitn(3, '-');
        let parsed = Self {
            not_before_ms: not_before,
            enqueued_ms: parts.next()?.parse().ok()?,
            key_hash: parts.next()?.to_owned(),
            uuid: parts.next()?.parse().ok()?,
            attempt: attempt.parse().ok()?,
        };
        // Writing it again must give the same name, or two names could mean one entry.
        (parsed.key_hash.len() == 16 && parsed.to_string() == name).then_some(parsed)
    }

    /// The same entry with another attempt, and no due time.
    #[must_use]
    pub fn with_attempt(&self, attempt: u32) -> Self {
        Self { not_before_ms: None, attempt, ..self.clone() }
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Thirteen digits last until the year 2286, so names sort by time.
        if let Some(not_before_ms) = self.not_before_ms {
            write!(f, "{not_before_ms:013}.")?;
        }
        write!(f, "{:013}-{}-{}.a{}.json", self.enqueued_ms, self.key_hash, self.uuid, self.attempt)
    }
}

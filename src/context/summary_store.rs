//! `summaries.jsonl`: what was put into the place of older messages, and what it saved.
//!
//! A summary counts from the moment its `through_seq` stands in `current.jsonl`. One that a killed
//! process left here alone is superseded: it changes nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::jsonl::JsonlFile;
use super::message_lines::WireUsage;
use crate::chat::Usage;
use crate::error::Result;
use crate::sys::clock;
use crate::sys::file::Sync;

/// The summaries of one task.
#[derive(Debug)]
pub struct SummaryStore {
    file: JsonlFile,
    next_id: u64,
    count: u64,
    latest: Option<String>,
    usage: Usage,
    sync: Sync,
}

/// A summary to be kept.
#[derive(Debug)]
pub struct NewSummary<'a> {
    /// Its text.
    pub summary: &'a str,
    /// How many messages it stands for.
    pub compressed_message_count: u64,
    /// Estimated tokens it saves.
    pub tokens_saved: u64,
    /// The last message it stands for.
    pub through_seq: Option<u64>,
    /// What asking for it cost.
    pub usage: Option<Usage>,
}

/// Of other fields, as the earlier program had (`start_seq`, `ratio` …), nothing is needed here.
#[derive(Serialize, Deserialize)]
struct Line {
    id: u64,
    summary: String,
    #[serde(default)]
    compressed_message_count: u64,
    #[serde(default)]
    tokens_saved: u64,
    #[serde(default)]
    created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    through_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<WireUsage>,
}

impl SummaryStore {
    /// Opens the file of `dir` in one pass.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be read.
    pub fn open(dir: &Path, sync: Sync) -> Result<Self> {
        let (mut last_id, mut count, mut latest, mut usage) = (0, 0, None, Usage::default());
        let file = JsonlFile::open(&dir.join("summaries.jsonl"), |line: Line| {
            last_id = line.id.max(last_id);
            count += 1;
            latest = Some(line.summary);
            if let Some(used) = line.usage {
                usage += used.into();
            }
            Ok(())
        })?;
        Ok(Self { file, next_id: last_id + 1, count, latest, usage, sync })
    }

    /// Adds a summary. Returns its id.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn add_summary(&mut self, new: &NewSummary<'_>) -> Result<u64> {
        let id = self.next_id;
        let line = Line {
            id,
            summary: new.summary.to_owned(),
            compressed_message_count: new.compressed_message_count,
            tokens_saved: new.tokens_saved,
            created_at: clock::now_rfc3339(),
            through_seq: new.through_seq,
            usage: new.usage.map(WireUsage::from),
        };
        self.file.append(&line, self.sync)?;
        self.next_id += 1;
        self.count += 1;
        self.latest = Some(line.summary);
        if let Some(usage) = new.usage {
            self.usage += usage;
        }
        Ok(id)
    }

    /// The text of the last summary.
    pub fn latest_summary(&self) -> Option<&str> {
        self.latest.as_deref()
    }

    /// Summaries made so far, superseded ones included.
    pub fn count_summaries(&self) -> u64 {
        self.count
    }

    /// Tokens the servers reported for them.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

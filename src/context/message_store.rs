//! The conversation on disk: `messages.jsonl`, the whole history, and `current.jsonl`, what is sent
//! to the model. After opening, adding and counting cost the same however long the history is; only
//! making `current.jsonl` anew reads what is sent, and never the archive.

use std::ops::Range;
use std::path::Path;

use super::jsonl::JsonlFile;
use super::message_lines::{ArchiveHead, ArchiveLine, CurrentLine, Origin};
use super::repair::{self, Part};
use crate::chat::{Message, Role, Usage};
use crate::error::Result;
use crate::sys::fault;
use crate::sys::file::Sync;

/// The messages of one task.
#[derive(Debug)]
pub struct MessageStore {
    archive: JsonlFile,
    current_file: JsonlFile,
    current: Current,
    next_seq: u64,
    count: u64,
    replies: u64,
    usage: Usage,
    sync: Sync,
}

/// What is sent, with its sums.
#[derive(Debug, Default)]
struct Current {
    messages: Vec<Message>,
    origins: Vec<Origin>,
    tokens: u64,
    head_len: usize,
    head_tokens: u64,
    head_is_whole: bool,
}

impl MessageStore {
    /// Opens the two files of `dir`, one pass each, and completes `current.jsonl` with what a
    /// killed process wrote to the archive only, and the archive with what a damaged disk took.
    ///
    /// # Errors
    /// `Kind::Host` when a file cannot be read or written.
    pub fn open(dir: &Path, sync: Sync) -> Result<Self> {
        let mut lines = Vec::new();
        let mut last_current_seq = 0;
        let current_file = JsonlFile::open(&dir.join("current.jsonl"), |line: CurrentLine| {
            last_current_seq = line.covers().max(last_current_seq);
            lines.push(line);
            Ok(())
        })?;
        let (mut count, mut replies, mut last_seq) = (0, 0, 0);
        let mut usage = Usage::default();
        let mut missing: Vec<ArchiveLine> = Vec::new();
        let archive = JsonlFile::open(&dir.join("messages.jsonl"), |line: Box<serde_json::value::RawValue>| {
            let head: ArchiveHead = serde_json::from_str(line.get())?;
            if head.seq > last_current_seq {
                missing.push(serde_json::from_str(line.get())?);
            }
            count += 1;
            last_seq = head.seq.max(last_seq);
            replies += u64::from(head.role == Role::Assistant.name());
            if let Some(used) = head.usage {
                usage += used.into();
            }
            Ok(())
        })?;
        let mut store = Self {
            archive,
            current_file,
            current: Current::default(),
            next_seq: last_seq.max(last_current_seq) + 1,
            count,
            replies,
            usage,
            sync,
        };
        for line in lines {
            let (message, origin) = line.into_message(store.current.messages.is_empty());
            if let Origin::Message(Some(seq)) = origin
                && seq > last_seq
            {
                // The archive lost its end, and ids of calls follow from its count of replies.
                store.archive.append(&ArchiveLine::new(seq, &message, None), sync)?;
                store.count += 1;
                store.replies += u64::from(message.role == Role::Assistant);
            }
            store.current.push(message, origin);
        }
        for line in missing {
            let line = CurrentLine::from(line);
            store.current_file.append(&line, Sync::Later)?;
            let (message, origin) = line.into_message(store.current.messages.is_empty());
            store.current.push(message, origin);
        }
        store.mend()?;
        Ok(store)
    }

    /// A damaged history is mended once and for all: sent as it is, it would be refused each time.
    fn mend(&mut self) -> Result<()> {
        let Some(parts) = repair::mended(&self.current.messages) else { return Ok(()) };
        let path = self.current_file.path().display();
        log::warn!("`{path}` held results without calls or calls without results; mended");
        let mut current = Current::default();
        for part in parts {
            match part {
                Part::Kept(index) => current.push(self.current.messages[index].clone(), self.current.origins[index]),
                Part::Added(message) => current.push(message, Origin::Message(None)),
            }
        }
        self.replace_current(current)
    }

    /// Adds a message to the history and to what is sent. Returns its sequence number. A reply of
    /// the model and a result of a tool are on the disk when this returns: others act on them.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written; the store must then be opened again.
    pub fn add(&mut self, message: Message, usage: Option<Usage>) -> Result<u64> {
        let seq = self.next_seq;
        let line = ArchiveLine::new(seq, &message, usage);
        let acted_on = matches!(message.role, Role::Assistant | Role::Tool);
        self.archive.append(&line, if acted_on { self.sync } else { Sync::Later })?;
        fault::point("context.archived");
        // Not synced: what is missing here is completed from the archive.
        self.current_file.append(&CurrentLine::from(line), Sync::Later)?;
        self.next_seq += 1;
        self.count += 1;
        if message.role == Role::Assistant {
            self.replies += 1;
        }
        if let Some(usage) = usage {
            self.usage += usage;
        }
        self.current.push(message, Origin::Message(Some(seq)));
        Ok(seq)
    }

    /// Puts a summary into the place of these messages of what is sent; the archive keeps them.
    /// Returns how many messages are sent now. After a kill the old state is on the disk or the new one.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written; the store must then be opened again.
    pub fn recreate_current_context(&mut self, replaced: Range<usize>, summary: &str) -> Result<u64> {
        let through_seq = self.through_seq(&replaced);
        let mut current = Current::default();
        for (index, (message, origin)) in self.current.messages.iter().zip(&self.current.origins).enumerate() {
            if index == replaced.start {
                current.push(Message::text(Role::User, summary), Origin::Summary(through_seq));
            }
            if !replaced.contains(&index) {
                current.push(message.clone(), *origin);
            }
        }
        self.replace_current(current)?;
        Ok(self.current.messages.len() as u64)
    }

    /// Puts shorter messages into the place of some of what is sent; the archive keeps the old ones.
    /// Returns how many estimated tokens that saved.
    ///
    /// # Errors
    /// As [`Self::recreate_current_context`].
    pub fn replace_messages(&mut self, replaced: Vec<(usize, Message)>) -> Result<u64> {
        let before = self.current.tokens;
        let mut messages = self.current.messages.clone();
        for (index, message) in replaced {
            messages[index] = message;
        }
        let mut current = Current::default();
        for (message, origin) in messages.into_iter().zip(&self.current.origins) {
            current.push(message, *origin);
        }
        self.replace_current(current)?;
        Ok(before.saturating_sub(self.current.tokens))
    }

    fn replace_current(&mut self, current: Current) -> Result<()> {
        let lines = current.messages.iter().zip(&current.origins);
        self.current_file.replace(lines.map(|(message, origin)| CurrentLine::new(message, *origin)))?;
        self.current = current;
        Ok(())
    }

    /// The number of the last message among these.
    pub fn through_seq(&self, range: &Range<usize>) -> Option<u64> {
        self.current.origins.get(range.clone())?.iter().filter_map(|origin| origin.seq()).max()
    }

    /// The number of one message of what is sent; `None` for a summary.
    pub fn seq_of(&self, index: usize) -> Option<u64> {
        match self.current.origins.get(index)? {
            Origin::Message(seq) => *seq,
            Origin::Summary(_) => None,
        }
    }

    /// How many of these are summaries.
    pub fn count_summaries_in(&self, range: Range<usize>) -> usize {
        let origins = self.current.origins.get(range).unwrap_or_default();
        origins.iter().filter(|origin| matches!(origin, Origin::Summary(_))).count()
    }

    /// What is sent to the model, oldest first.
    pub fn current(&self) -> &[Message] {
        &self.current.messages
    }

    /// The file of what is sent to the model.
    pub fn current_context_file(&self) -> &Path {
        self.current_file.path()
    }

    /// Estimated tokens of what is sent.
    pub fn current_token_count(&self) -> u64 {
        self.current.tokens
    }

    /// Messages of the pinned head: everything up to the task. It is never summarised.
    pub fn head_len(&self) -> usize {
        self.current.head_len
    }

    /// Estimated tokens of the pinned head.
    pub fn head_token_count(&self) -> u64 {
        self.current.head_tokens
    }

    /// Messages of the whole history.
    pub fn count_messages(&self) -> u64 {
        self.count
    }

    /// Replies of the model in the whole history.
    pub fn count_replies(&self) -> u64 {
        self.replies
    }

    /// Tokens the servers reported for the whole history.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The sequence number the next message will get.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }
}

impl Current {
    fn push(&mut self, message: Message, origin: Origin) {
        let tokens = message.estimated_tokens();
        self.tokens += tokens;
        if !self.head_is_whole {
            let belongs = matches!(message.role, Role::System | Role::User) && matches!(origin, Origin::Message(_));
            self.head_len += usize::from(belongs);
            self.head_tokens += if belongs { tokens } else { 0 };
            self.head_is_whole = !belongs || message.role == Role::User;
        }
        self.messages.push(message);
        self.origins.push(origin);
    }
}

//! The conversation on disk: `messages.jsonl`, the whole history, and `current.jsonl`, what is sent
//! to the model. After opening, every operation costs the same however long the history is.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::jsonl::JsonlFile;
use crate::chat::{Message, Role, ToolCall, Usage};
use crate::error::Result;
use crate::sys::file::Sync;
use crate::sys::{clock, fault};

/// The messages of one task.
#[derive(Debug)]
pub struct MessageStore {
    archive: JsonlFile,
    current_file: JsonlFile,
    current: Vec<Message>,
    current_tokens: u64,
    next_seq: u64,
    count: u64,
    replies: u64,
    usage: Usage,
    sync: Sync,
}

#[derive(Serialize, Deserialize)]
struct ArchiveLine {
    seq: u64,
    role: String,
    content: String,
    timestamp: String,
    tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<WireUsage>,
}

/// A line of the archive as opening needs it: only what is missing in `current.jsonl` is read whole.
#[derive(Deserialize)]
struct ArchiveHead {
    seq: u64,
    role: String,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Serialize, Deserialize)]
struct CurrentLine {
    role: String,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(default)]
    seq: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct WireCall {
    id: String,
    #[serde(rename = "type", default = "function_type")]
    kind: String,
    function: WireFunction,
}

#[derive(Serialize, Deserialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
struct WireUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    #[serde(default)]
    cached_tokens: u64,
}

fn function_type() -> String {
    "function".into()
}

impl MessageStore {
    /// Opens the two files of `dir`, one pass each, and completes `current.jsonl` with what a
    /// killed process wrote to the archive only, and the archive with what a damaged disk took.
    ///
    /// # Errors
    /// `Kind::Host` when a file cannot be read or written.
    pub fn open(dir: &Path, sync: Sync) -> Result<Self> {
        let mut current = Vec::new();
        let mut last_current_seq = 0;
        let current_file = JsonlFile::open(&dir.join("current.jsonl"), |line: CurrentLine| {
            last_current_seq = line.seq.unwrap_or(0).max(last_current_seq);
            current.push(line);
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
                usage.prompt_tokens += used.prompt_tokens;
                usage.completion_tokens += used.completion_tokens;
                usage.cached_tokens += used.cached_tokens;
            }
            Ok(())
        })?;
        let mut store = Self {
            archive,
            current_file,
            current_tokens: 0,
            current: Vec::new(),
            next_seq: last_seq.max(last_current_seq) + 1,
            count,
            replies,
            usage,
            sync,
        };
        for line in current {
            let seq = line.seq.filter(|seq| *seq > last_seq);
            let message = message_of(line);
            if let Some(seq) = seq {
                // The archive lost its end, and ids of calls follow from its count of replies.
                store.archive.append(&ArchiveLine::new(seq, &message, None), sync)?;
                store.count += 1;
                store.replies += u64::from(message.role == Role::Assistant);
            }
            store.keep(message);
        }
        for line in missing {
            let line = CurrentLine::from(line);
            store.current_file.append(&line, Sync::Later)?;
            store.keep(message_of(line));
        }
        Ok(store)
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
            self.usage.prompt_tokens += usage.prompt_tokens;
            self.usage.completion_tokens += usage.completion_tokens;
            self.usage.cached_tokens += usage.cached_tokens;
        }
        self.keep(message);
        Ok(seq)
    }

    fn keep(&mut self, message: Message) {
        self.current_tokens += message.estimated_tokens();
        self.current.push(message);
    }

    /// What is sent to the model, oldest first.
    pub fn current(&self) -> &[Message] {
        &self.current
    }

    /// Estimated tokens of what is sent.
    pub fn current_token_count(&self) -> u64 {
        self.current_tokens
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

impl ArchiveLine {
    fn new(seq: u64, message: &Message, usage: Option<Usage>) -> Self {
        Self {
            seq,
            role: message.role.name().into(),
            content: message.content.clone(),
            timestamp: clock::now_rfc3339(),
            tokens: message.estimated_tokens(),
            tool_name: message.tool_name.clone(),
            tool_calls: message.tool_calls.iter().map(WireCall::from).collect(),
            tool_call_id: message.tool_call_id.clone(),
            usage: usage.map(|usage| WireUsage {
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                cached_tokens: usage.cached_tokens,
            }),
        }
    }
}

fn message_of(line: CurrentLine) -> Message {
    Message {
        // A role we do not know would be refused by every server; as a user message nothing is lost.
        role: Role::parse(&line.role).unwrap_or(Role::User),
        content: line.content,
        tool_calls: line
            .tool_calls
            .into_iter()
            .map(|call| ToolCall { id: call.id, name: call.function.name, arguments: call.function.arguments })
            .collect(),
        tool_call_id: line.tool_call_id,
        tool_name: line.tool_name,
    }
}

impl From<&ToolCall> for WireCall {
    fn from(call: &ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            kind: function_type(),
            function: WireFunction { name: call.name.clone(), arguments: call.arguments.clone() },
        }
    }
}

impl From<ArchiveLine> for CurrentLine {
    fn from(line: ArchiveLine) -> Self {
        Self {
            role: line.role,
            content: line.content,
            tool_name: line.tool_name,
            tool_calls: line.tool_calls,
            tool_call_id: line.tool_call_id,
            seq: Some(line.seq),
        }
    }
}

//! `tools.jsonl`: every tool call with its arguments and result, for people to read. It is a record;
//! the loop goes by the messages.

use std::collections::VecDeque;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jsonl::JsonlFile;
use crate::chat::Arguments;
use crate::error::Result;
use crate::ports::ToolResult;
use crate::sys::clock;
use crate::sys::file::Sync;

/// How many commands the final comment may name.
const RECENT_COMMANDS: usize = 5;

/// The tool calls of one task.
#[derive(Debug)]
pub struct ToolStore {
    file: JsonlFile,
    next_seq: u64,
    count: u64,
    recent_commands: VecDeque<CommandRecord>,
}

/// A command that ran to its end, for the final comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRecord {
    /// The command line.
    pub command: String,
    /// Its exit code.
    pub exit_code: i32,
}

/// One call to be recorded.
#[derive(Debug)]
pub struct ToolRecord<'a> {
    /// Wire name of the tool.
    pub tool_name: &'a str,
    /// What it was given.
    pub arguments: &'a Arguments,
    /// What it gave.
    pub result: &'a ToolResult,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    tool_name: String,
    arguments: Value,
    result: Option<String>,
    error: Option<String>,
    timestamp: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

impl ToolStore {
    /// Opens the file of `dir` in one pass.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be read.
    pub fn open(dir: &Path) -> Result<Self> {
        let (mut last_seq, mut count) = (0, 0);
        let mut recent_commands = VecDeque::new();
        let file = JsonlFile::open(&dir.join("tools.jsonl"), |line: Line| {
            last_seq = line.seq.max(last_seq);
            count += 1;
            remember(&mut recent_commands, line.arguments.get("command"), line.exit_code);
            Ok(())
        })?;
        Ok(Self { file, next_seq: last_seq + 1, count, recent_commands })
    }

    /// Records a call. Returns its sequence number.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn add_tool_call(&mut self, record: &ToolRecord<'_>) -> Result<u64> {
        let seq = self.next_seq;
        let text = Some(record.result.text.clone());
        let (result, error) = if record.result.is_error { (None, text) } else { (text, None) };
        let line = Line {
            seq,
            tool_name: record.tool_name.to_owned(),
            arguments: Value::Object(record.arguments.clone()),
            result,
            error,
            timestamp: clock::now_rfc3339(),
            exit_code: record.result.exit_code,
            duration_ms: Some(record.duration_ms),
        };
        self.file.append(&line, Sync::Later)?;
        self.next_seq += 1;
        self.count += 1;
        remember(&mut self.recent_commands, record.arguments.get("command"), record.result.exit_code);
        Ok(seq)
    }

    /// Calls recorded so far.
    pub fn count_tool_calls(&self) -> u64 {
        self.count
    }

    /// The last commands that ran to their end, oldest first.
    pub fn recent_commands(&self) -> impl Iterator<Item = &CommandRecord> {
        self.recent_commands.iter()
    }
}

fn remember(recent: &mut VecDeque<CommandRecord>, command: Option<&Value>, exit_code: Option<i32>) {
    if let (Some(Value::String(command)), Some(exit_code)) = (command, exit_code) {
        if recent.len() == RECENT_COMMANDS {
            recent.pop_front();
        }
        recent.push_back(CommandRecord { command: command.clone(), exit_code });
    }
}

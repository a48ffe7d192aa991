//! How many errors in a row end a task. A success resets the count; nothing else does. In a row means
//! reply after reply: a model that makes three calls at once has not been told what is wrong with the first.

use std::collections::{HashMap, HashSet};

/// Consecutive errors of one tool.
const MOST_TOOL_ERRORS: u32 = 3;
/// Consecutive replies cut off at the output limit.
const MOST_CUT_REPLIES: u32 = 3;

/// Consecutive replies that cannot be read, or that call nothing, where calls are made in text.
const MOST_IDLE_REPLIES: u32 = 5;

/// The counters of one run.
#[derive(Debug, Default)]
pub struct ErrorLimits {
    tool_errors: HashMap<String, u32>,
    failed_in_this_reply: HashSet<String>,
    cut_replies: u32,
    unreadable_replies: u32,
    idle_replies: u32,
}

impl ErrorLimits {
    /// Counts a tool's result; the reason to give up when the limit is reached.
    pub fn count_tool_result(&mut self, tool: &str, is_error: bool) -> Option<String> {
        if !is_error {
            self.tool_errors.remove(tool);
            self.failed_in_this_reply.remove(tool);
            return None;
        }
        if !self.failed_in_this_reply.insert(tool.to_owned()) {
            return None;
        }
        let errors = self.tool_errors.entry(tool.to_owned()).or_default();
        *errors += 1;
        (*errors >= MOST_TOOL_ERRORS).then(|| format!("the tool `{tool}` failed {errors} times in a row"))
    }

    /// Counts a reply; the reason to give up when the limit is reached.
    pub fn count_reply(&mut self, is_cut: bool) -> Option<String> {
        self.failed_in_this_reply.clear();
        self.cut_replies = if is_cut { self.cut_replies + 1 } else { 0 };
        (self.cut_replies >= MOST_CUT_REPLIES)
            .then(|| format!("the model's answer was cut off at its output limit {} times in a row", self.cut_replies))
    }

    /// Counts a reply whose calls are made in text; the reason to give up when a limit is reached.
    pub fn count_text_reply(&mut self, has_calls: bool, is_readable: bool) -> Option<String> {
        self.unreadable_replies = if is_readable { 0 } else { self.unreadable_replies + 1 };
        self.idle_replies = if has_calls { 0 } else { self.idle_replies + 1 };
        if self.unreadable_replies >= MOST_IDLE_REPLIES {
            return Some(format!("the model's answer held no usable JSON {MOST_IDLE_REPLIES} times in a row"));
        }
        (self.idle_replies >= MOST_IDLE_REPLIES)
            .then(|| format!("the model called no tool in {MOST_IDLE_REPLIES} answers in a row"))
    }
}

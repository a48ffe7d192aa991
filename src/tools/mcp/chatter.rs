//! What an MCP server says besides its messages: written to the log as long as it is little, and the
//! last of it remembered for the case that the server ends.

use std::collections::VecDeque;

use crate::text::{as_displayed, head};

/// Lines written to the log; some servers print one for every call.
const MOST_LOGGED_LINES: usize = 100;
const LONGEST_LOGGED_BYTES: usize = 500;
/// Lines remembered: the end of a stack trace says what happened.
const LINES_KEPT: usize = 3;
const LONGEST_KEPT_BYTES: usize = 200;

/// One stream of words of one server.
#[derive(Debug)]
pub struct Chatter {
    server: String,
    stream: &'static str,
    logged: usize,
    last: VecDeque<String>,
}

impl Chatter {
    /// Nothing was said yet by `server` on `stream`.
    pub fn new(server: &str, stream: &'static str) -> Self {
        Self { server: server.to_owned(), stream, logged: 0, last: VecDeque::new() }
    }

    /// Takes one line.
    pub fn hear(&mut self, line: &str) {
        let line = as_displayed(line.trim_end());
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        if self.logged < MOST_LOGGED_LINES {
            log::info!("MCP server `{}`, {}: {}", self.server, self.stream, head(line, LONGEST_LOGGED_BYTES));
        } else if self.logged == MOST_LOGGED_LINES {
            log::info!("MCP server `{}`, {}: more is not logged", self.server, self.stream);
        }
        self.logged += 1;
        if self.last.len() == LINES_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(head(line, LONGEST_KEPT_BYTES).to_owned());
    }

    /// The last lines in one; empty when nothing was said.
    pub fn last_words(&self) -> String {
        self.last.iter().map(String::as_str).collect::<Vec<_>>().join(" / ")
    }
}

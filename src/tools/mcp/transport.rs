//! What carries JSON-RPC messages to one MCP server and back. Knows nothing of their meaning; waits for
//! nothing without a deadline.

use std::fmt;
use std::time::Instant;

use serde_json::Value;

use crate::error::{Error, Kind};

/// A line to one server. The session has one request of its own open at a time; in between it answers
/// requests of the server.
pub trait Transport {
    /// Sends one message, a JSON-RPC object.
    ///
    /// # Errors
    /// What happened. Only after `Ended` is the line of no use any more.
    fn send(&mut self, message: &Value, deadline: Instant) -> Result<(), Lost>;

    /// The next JSON-RPC message of the server, of any kind. What is no JSON object is not passed on.
    ///
    /// # Errors
    /// As `send`.
    fn receive(&mut self, deadline: Instant) -> Result<Value, Lost>;

    /// Whether what the server asks reaches us at any time, or only while we wait for an answer of its.
    fn is_heard_always(&self) -> bool {
        true
    }

    /// Told after `initialize`: the protocol version agreed on, which HTTP names with every message.
    fn agreed(&mut self, _protocol_version: &str) {}

    /// Ends the session and everything that was started for it. A second call does nothing.
    fn close(&mut self);
}

/// Why a message did not get through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The deadline passed. What comes later is still delivered.
    TimedOut,
    /// We were asked to end.
    Interrupted,
    /// The server sent a message of more than so many bytes. The message is dropped, the line stays.
    TooLarge {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// The server is gone, or was never there.
    Ended(End),
    /// The server would not take this request since it knows our session no longer (404 to a session id,
    /// case C41). The transport has forgotten it too: a new `initialize` begins another one.
    SessionExpired,
    /// The server would not take this message, with its reason; the session lives.
    Refused(String),
}

/// How a line ended. Shown, it is for the log and the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How, for people outside and the model: nothing in it is the server's own words.
    pub how: String,
    /// What the server said last, or what it said with its refusal; empty = nothing.
    pub said: String,
    /// It may be over without anybody mending anything.
    pub may_pass: bool,
}

impl End {
    /// One that somebody has to mend, and without words of the server.
    pub fn lasting(how: impl Into<String>) -> Self {
        Self { how: how.into(), said: String::new(), may_pass: false }
    }

    /// As the error of a request says it.
    pub fn of(error: &Error) -> Self {
        Self { may_pass: error.kind() == Kind::Later, ..Self::lasting(error.sentence()) }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.how)?;
        if self.said.is_empty() { Ok(()) } else { write!(f, "; it said: {}", self.said) }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Interrupted => f.write_str("the agent was asked to stop"),
            Self::TooLarge { limit_bytes } => {
                write!(f, "its answer is too large: more than {} MiB in one message", limit_bytes >> 20)
            }
            Self::Ended(end) => end.fmt(f),
            Self::SessionExpired => f.write_str("it knows our session no longer"),
            Self::Refused(why) => write!(f, "it refused the message: {why}"),
        }
    }
}

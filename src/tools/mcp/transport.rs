//! What carries JSON-RPC messages to one MCP server and back. Knows nothing of their meaning; waits for
//! nothing without a deadline.

use std::fmt;
use std::time::Instant;

use serde_json::Value;

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
    Ended {
        /// How, for people and the model: an exit code and what the server said last, or what HTTP said.
        how: String,
    },
    /// The server would not take this request since it knows our session no longer (404 to a session id,
    /// case C41). The transport has forgotten it too: a new `initialize` begins another one.
    SessionExpired,
    /// The server would not take this message, with its reason; the session lives.
    Refused(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Interrupted => f.write_str("the agent was asked to stop"),
            Self::TooLarge { limit_bytes } => {
                write!(f, "its answer is too large: more than {} MiB in one message", limit_bytes >> 20)
            }
            Self::Ended { how } => f.write_str(how),
            Self::SessionExpired => f.write_str("it knows our session no longer"),
            Self::Refused(why) => write!(f, "it refused the message: {why}"),
        }
    }
}

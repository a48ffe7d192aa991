//! What an HTTP status that is no success means for a session with an MCP server. Sends nothing.

use serde_json::Value;

use super::transport::{End, Lost};
use crate::text::{head, parse_json, server_words};

/// Longest part of a session id that is shown: who has the whole of it can take the session over.
const MOST_SHOWN_BYTES: usize = 12;

/// A refusal as it came.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// Who refused, for messages.
    pub server: &'a str,
    /// The status.
    pub status: u16,
    /// The beginning of the body.
    pub body: &'a [u8],
    /// The session it was about.
    pub session_id: Option<&'a str>,
    /// Whether the handshake is over.
    pub is_begun: bool,
}

/// What to make of a refusal.
#[derive(Debug)]
pub enum Meaning {
    /// An error of JSON-RPC that answers the request: as good as one with status 200.
    Answer(Value),
    /// There will be no answer.
    Lost(Lost),
}

impl Refusal<'_> {
    /// What to make of it. 404 to a session id is the one way to say that the session is over; servers that
    /// say it otherwise (case C41) are known by their words, and get a new session with the next start.
    pub fn meaning(&self, request_id: Option<&Value>) -> Meaning {
        let Self { server, status, body, session_id, is_begun } = *self;
        let words = server_words(body);
        let said = words.trim_start_matches(": ");
        let may_pass = matches!(status, 429 | 500..);
        let ended = |how: String| Lost::Ended(End { how, said: said.to_owned(), may_pass });
        let about_session = words.to_ascii_lowercase().contains("session");
        let lost = match (status, session_id) {
            (404, Some(_)) => Lost::SessionExpired,
            (401, _) => ended(format!("`{server}` wants other credentials (401); mcp_servers[].headers sends them")),
            (403, None) if !is_begun => {
                ended(format!("`{server}` does not let us in (403); look at mcp_servers[].headers"))
            }
            (404, None) => ended(format!("`{server}` has no MCP server at that path (404)")),
            (405, None) => ended(format!("`{server}` does not speak MCP over streamable HTTP at that path (405)")),
            (300..400, _) => ended(format!("`{server}` answers with a redirect that leads nowhere ({status})")),
            (502..=504, _) => ended(format!("`{server}` is not there at the moment ({status})")),
            (400 | 403, Some(id)) if about_session => {
                ended(format!("`{server}` does not take the session {} ({status})", shown(id)))
            }
            _ => {
                if let Some(error) = request_id.and_then(|id| answer_in(body, id)) {
                    return Meaning::Answer(error);
                }
                match session_id {
                    Some(id) => Lost::Refused(format!("{status} in session {}{words}", shown(id))),
                    None if is_begun => Lost::Refused(format!("{status}{words}")),
                    None => ended(format!("`{server}` refuses the handshake ({status})")),
                }
            }
        };
        Meaning::Lost(lost)
    }
}

/// Whether a message with the id `found` answers the request; some servers make text of a number.
pub fn answers(found: &Value, request_id: &Value) -> bool {
    let is_text_of = |id: u64| found.as_str().is_some_and(|text| text == id.to_string());
    found == request_id || request_id.as_u64().is_some_and(is_text_of)
}

fn answer_in(body: &[u8], request_id: &Value) -> Option<Value> {
    let message = parse_json(body).ok()?;
    let is_answer = message.get("error")?.is_object() && answers(message.get("id")?, request_id);
    is_answer.then_some(message)
}

fn shown(session_id: &str) -> String {
    let shown = head(session_id, MOST_SHOWN_BYTES);
    if shown.len() == session_id.len() { format!("`{shown}`") } else { format!("`{shown}…`") }
}

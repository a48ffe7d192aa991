//! MCP over streamable HTTP: each message of ours is a POST, its answer comes as JSON or as a stream of
//! events, which is taken up again where it broke off. Source: specification 2025-11-25, "Transports", which
//! older versions agree with. Of JSON-RPC it knows only what tells a request from an answer.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http_refusal::{Meaning, Refusal, answers};
use super::sse::{Event, EventReader};
use super::transport::{End, Lost, Transport};
use crate::config::Secret;
use crate::error::{Error, Kind};
use crate::sys::http::{HttpClient, HttpRequest, HttpSettings, HttpStream, origin};
use crate::sys::{clock, signal};
use crate::text::{parse_json, server_words};

/// Longest single message.
const MOST_MESSAGE_BYTES: usize = 16 << 20;
/// Longest answer to one request: all its messages together.
const MOST_ANSWER_BYTES: u64 = 64 << 20;
/// Of a refusal only the beginning is of interest.
const MOST_REFUSAL_BYTES: usize = 64 << 10;
/// The wait before a broken stream is taken up again, where the server names none; doubled while nothing comes.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// A stream is given up after so many tries in which nothing came.
const MOST_FRUITLESS_TRIES: u32 = 6;
/// How long the farewell may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

const SESSION_ID: &str = "mcp-session-id";

/// The line to one MCP server.
pub struct Http {
    client: HttpClient,
    url: String,
    headers: Vec<(String, Secret)>,
    session_id: Option<String>,
    protocol_version: Option<String>,
    /// What came and was not asked for yet.
    arrived: VecDeque<Result<Value, Lost>>,
    awaited: Option<Awaited>,
}

/// A request whose answer has not come yet.
struct Awaited {
    request_id: Value,
    /// `None` = the stream broke off.
    stream: Option<HttpStream>,
    events: EventReader,
    fruitless_tries: u32,
}

impl Http {
    /// A line to the server at `url`, over certificates of the system and of `ca_file`. The headers go to
    /// this host only, and into no log. Nothing is sent yet.
    ///
    /// # Errors
    /// `Ended` when no request could be made at all.
    pub fn connect(url: &str, headers: &[(String, Secret)], ca_file: Option<&Path>) -> Result<Self, Lost> {
        // Each message brings a deadline of its own.
        let settings = HttpSettings { ca_file, timeout: None };
        let client = HttpClient::new(settings, url.starts_with("https:"))
            .and_then(HttpClient::ended_by_signals)
            .map_err(|error| Lost::Ended(End::of(&error)))?;
        Ok(Self {
            client,
            url: url.to_owned(),
            headers: headers.to_vec(),
            session_id: None,
            protocol_version: None,
            arrived: VecDeque::new(),
            awaited: None,
        })
    }

    fn request(
        &self,
        method: &str,
        accept: &str,
        body: Option<&[u8]>,
        last_event_id: Option<&str>,
        deadline: Instant,
    ) -> Result<HttpStream, Lost> {
        let mut headers = vec![("Accept", accept)];
        headers.extend(body.map(|_| ("Content-Type", "application/json")));
        headers.extend(self.session_id.as_deref().map(|id| ("Mcp-Session-Id", id)));
        headers.extend(self.protocol_version.as_deref().map(|version| ("MCP-Protocol-Version", version)));
        headers.extend(last_event_id.map(|id| ("Last-Event-ID", id)));
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.expose())));
        let request =
            HttpRequest { method, url: &self.url, headers: &headers, body, most_body_bytes: MOST_ANSWER_BYTES };
        self.client.open(&request, deadline).map_err(|error| lost(&error, deadline))
    }

    /// What an answer with a status that is no success means. The session is forgotten where the server has.
    fn refused(&mut self, request_id: Option<&Value>, answer: HttpStream) -> Result<(), Lost> {
        let status = answer.status;
        let (body, _) = whole(answer, MOST_REFUSAL_BYTES).unwrap_or_default();
        let refusal = Refusal {
            server: origin(&self.url),
            status,
            body: &body,
            session_id: self.session_id.as_deref(),
            is_begun: self.protocol_version.is_some(),
        };
        match refusal.meaning(request_id) {
            Meaning::Answer(error) => self.arrived.push_back(Ok(error)),
            Meaning::Lost(lost) => {
                if lost != Lost::SessionExpired {
                    return Err(lost);
                }
                self.forget();
                // Only the request that was refused itself has surely done nothing, and may be sent again.
                return Err(if request_id.is_some() { lost } else { self.broke_off(", and the session is gone") });
            }
        }
        Ok(())
    }

    fn broke_off(&self, why: &str) -> Lost {
        let how = format!("the answer of `{}` broke off{why}", origin(&self.url));
        Lost::Ended(End { may_pass: true, ..End::lasting(how) })
    }

    fn forget(&mut self) {
        self.session_id = None;
        self.protocol_version = None;
        self.awaited = None;
        self.arrived.clear();
    }

    /// Takes the answer to a request of ours: its one message, or the stream it will come on.
    fn take_answer(&mut self, request_id: Value, answer: HttpStream, deadline: Instant) -> Result<(), Lost> {
        if is_stream(&answer) {
            self.awaited = Some(Awaited::new(request_id, Some(answer)));
            return Ok(());
        }
        self.awaited = Some(Awaited::new(request_id, None));
        let (status, content_type) = (answer.status, answer.header("content-type").unwrap_or_default().to_owned());
        let (body, is_whole) = whole(answer, MOST_MESSAGE_BYTES).map_err(|error| lost(&error, deadline))?;
        if !is_whole {
            self.deliver_too_large();
            return Ok(());
        }
        match parse_json(&body) {
            Ok(Value::Array(batch)) => batch.into_iter().for_each(|message| self.deliver(message)),
            Ok(message) => self.deliver(message),
            Err(_) => {
                self.awaited = None;
                let is_json = content_type.starts_with("application/json");
                let what = match body.is_empty() {
                    true => "empty".to_owned(),
                    false if is_json => "said to be JSON and is not".to_owned(),
                    false => format!("not JSON but `{content_type}`"),
                };
                return Err(Lost::Refused(format!("its answer ({status}) is {what}")));
            }
        }
        // A body of JSON is all there is; what it does not answer stays unanswered.
        self.awaited = None;
        Ok(())
    }

    /// Puts a message where it is asked for. The answer ends the wait for it.
    fn deliver(&mut self, message: Value) {
        if !message.is_object() {
            log::debug!("`{}` sent JSON that is no message", origin(&self.url));
            return;
        }
        let is_answer = message.get("method").is_none();
        let id = message.get("id").unwrap_or(&Value::Null);
        // An error that could not tell which request it is about; this one is the only one on the stream.
        let is_lost_error = is_answer && id.is_null() && message.get("error").is_some();
        let is_awaited = |awaited: &Awaited| is_answer && answers(id, &awaited.request_id);
        if self.awaited.as_ref().is_some_and(|awaited| is_lost_error || is_awaited(awaited)) {
            self.awaited = None;
        }
        self.arrived.push_back(if is_lost_error {
            let words = server_words(message.to_string().as_bytes());
            Err(Lost::Refused(format!("its error names no request{words}")))
        } else {
            Ok(message)
        });
    }

    fn deliver_too_large(&mut self) {
        self.arrived.push_back(Err(Lost::TooLarge { limit_bytes: MOST_MESSAGE_BYTES }));
    }

    /// Reads the stream once, and delivers what became whole.
    fn read_stream(&mut self, deadline: Instant) -> Result<(), Lost> {
        let Some(awaited) = &mut self.awaited else { return Ok(()) };
        let Some(stream) = &mut awaited.stream else { return self.resume(deadline) };
        let mut piece = [0; 16 << 10];
        let mut events = VecDeque::new();
        match stream.read(&mut piece) {
            Ok(0) => awaited.stream = None,
            Ok(count) => awaited.take_events(&piece[..count], &mut events),
            Err(error) if error.kind() == Kind::Task => {
                self.awaited = None;
                self.deliver_too_large();
            }
            Err(error) => {
                awaited.stream = None;
                match lost(&error, deadline) {
                    // It is taken up again with the next look.
                    Lost::Ended(_) => {}
                    lost => return Err(lost),
                }
            }
        }
        for event in events {
            match event {
                Event::TooLarge => self.deliver_too_large(),
                Event::Message { name, data } if name == "message" && !data.is_empty() => {
                    match parse_json(data.as_bytes()) {
                        Ok(Value::Array(batch)) => batch.into_iter().for_each(|message| self.deliver(message)),
                        Ok(message) => self.deliver(message),
                        Err(error) => log::debug!("`{}` sent an event that is no JSON: {error}", origin(&self.url)),
                    }
                }
                // An empty one only tells its id; other names are not MCP's.
                Event::Message { .. } => {}
            }
        }
        Ok(())
    }

    /// Asks for the rest of a stream that ended before the answer came.
    fn resume(&mut self, deadline: Instant) -> Result<(), Lost> {
        let Some(awaited) = &mut self.awaited else { return Ok(()) };
        let Some(last_event_id) = awaited.events.last_id().map(str::to_owned) else {
            self.awaited = None;
            return Err(self.broke_off(", and it cannot be taken up again"));
        };
        if awaited.fruitless_tries == MOST_FRUITLESS_TRIES {
            self.awaited = None;
            let why = format!(", and nothing came in {MOST_FRUITLESS_TRIES} tries to take it up again");
            return Err(self.broke_off(&why));
        }
        let wait = awaited.next_wait();
        if wait >= deadline.saturating_duration_since(Instant::now()) {
            return Err(Lost::TimedOut);
        }
        clock::sleep(wait);
        if signal::termination_requested() {
            return Err(Lost::Interrupted);
        }
        let answer = match self.request("GET", "text/event-stream", None, Some(&last_event_id), deadline) {
            // Perhaps it is being started again.
            Err(Lost::Ended(end)) => {
                log::debug!("{end}");
                return Ok(());
            }
            answered => answered?,
        };
        match answer.status {
            200 if is_stream(&answer) => {
                if let Some(awaited) = &mut self.awaited {
                    awaited.events.reconnect();
                    awaited.stream = Some(answer);
                }
                Ok(())
            }
            500.. => Ok(()),
            401 | 404 => {
                self.awaited = None;
                self.refused(None, answer)
            }
            status => {
                self.awaited = None;
                Err(self.broke_off(&format!(", and it does not let us take it up again ({status})")))
            }
        }
    }
}

impl Awaited {
    fn new(request_id: Value, stream: Option<HttpStream>) -> Self {
        Self { request_id, stream, events: EventReader::new(MOST_MESSAGE_BYTES), fruitless_tries: 0 }
    }

    fn take_events(&mut self, bytes: &[u8], events: &mut VecDeque<Event>) {
        let id_before = self.events.last_id().map(str::to_owned);
        self.events.read(bytes, events);
        if !events.is_empty() || self.events.last_id() != id_before.as_deref() {
            self.fruitless_tries = 0;
        }
    }

    /// As long as the server wants, and longer each time nothing comes.
    fn next_wait(&mut self) -> Duration {
        let wanted = self.events.retry_ms().map(Duration::from_millis);
        let wait = match self.fruitless_tries {
            0 => wanted.unwrap_or(FIRST_RETRY),
            tries => wanted.unwrap_or_default().max(FIRST_RETRY * (1 << tries)),
        };
        self.fruitless_tries += 1;
        wait
    }
}

impl Transport for Http {
    fn send(&mut self, message: &Value, deadline: Instant) -> Result<(), Lost> {
        if signal::termination_requested() {
            return Err(Lost::Interrupted);
        }
        let method = message.get("method").and_then(Value::as_str);
        let request_id = message.get("id").filter(|_| method.is_some());
        if request_id.is_some() {
            // What an earlier request left open is nothing anybody waits for now.
            self.arrived.clear();
            self.awaited = None;
        }
        if method == Some("initialize") {
            self.forget();
        }
        let body = message.to_string();
        let both = "application/json, text/event-stream";
        let answer = self.request("POST", both, Some(body.as_bytes()), None, deadline)?;
        if !(200..300).contains(&answer.status) {
            return self.refused(request_id, answer);
        }
        if method == Some("initialize")
            && let Some(id) = answer.header(SESSION_ID)
        {
            if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Lost::Ended(End::lasting(format!("the session id of `{}` is none", origin(&self.url)))));
            }
            self.session_id = Some(id.to_owned());
        }
        match request_id {
            Some(id) => self.take_answer(id.clone(), answer, deadline),
            // Nothing but 202 is meant to come; reading it frees the connection for the next message.
            None => {
                if !is_stream(&answer)
                    && let Err(error) = whole(answer, MOST_REFUSAL_BYTES)
                {
                    log::debug!("{error:#}");
                }
                Ok(())
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<Value, Lost> {
        loop {
            if let Some(arrived) = self.arrived.pop_front() {
                return arrived;
            }
            if self.awaited.is_none() {
                return Err(Lost::Refused("its answer does not belong to the request".into()));
            }
            if signal::termination_requested() {
                return Err(Lost::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(Lost::TimedOut);
            }
            self.read_stream(deadline)?;
        }
    }

    /// What belongs to no request of ours comes on a stream of its own, which a program that waits for one
    /// thing at a time cannot read beside another.
    fn is_heard_always(&self) -> bool {
        false
    }

    fn agreed(&mut self, protocol_version: &str) {
        self.protocol_version = Some(protocol_version.to_owned());
    }

    fn close(&mut self) {
        self.awaited = None;
        if self.session_id.is_some() {
            // Servers may refuse this (405), and what they say changes nothing for us.
            let deadline = Instant::now() + CLOSE_TIMEOUT;
            if let Err(lost) = self.request("DELETE", "application/json, text/event-stream", None, None, deadline) {
                log::debug!("cannot end the session at `{}`: {lost}", origin(&self.url));
            }
        }
        self.forget();
    }
}

fn is_stream(answer: &HttpStream) -> bool {
    let content_type = answer.header("content-type").unwrap_or_default();
    content_type.to_ascii_lowercase().starts_with("text/event-stream")
}

/// The body up to `most_bytes`, and whether that is all of it.
fn whole(mut answer: HttpStream, most_bytes: usize) -> Result<(Vec<u8>, bool), Error> {
    let mut body = Vec::new();
    let mut piece = [0; 16 << 10];
    while body.len() <= most_bytes {
        match answer.read(&mut piece)? {
            0 => return Ok((body, true)),
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    body.truncate(most_bytes);
    Ok((body, false))
}

fn lost(error: &Error, deadline: Instant) -> Lost {
    log::debug!("{error:#}");
    if signal::termination_requested() {
        Lost::Interrupted
    } else if Instant::now() >= deadline {
        Lost::TimedOut
    } else {
        Lost::Ended(End::of(error))
    }
}

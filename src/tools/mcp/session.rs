//! A session with one MCP server: JSON-RPC 2.0 over any transport. One request of ours is open at a time;
//! what the server asks meanwhile is answered. Facts about the protocol are from the specification of
//! 2025-06-18 (modelcontextprotocol.io).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::chatter::Chatter;
use super::transport::{Lost, Transport};
use crate::text::{as_displayed, head, percent_encoded};

/// The version we ask for.
const PROTOCOL_VERSION: &str = "2025-06-18";
/// Versions that differ in nothing we use, newest first.
const KNOWN_VERSIONS: [&str; 4] = ["2025-11-25", PROTOCOL_VERSION, "2025-03-26", "2024-11-05"];
/// JSON-RPC's code for a method that does not exist.
const METHOD_NOT_FOUND: i64 = -32601;
/// More pages of one list are a server going round in circles.
const MOST_PAGES: usize = 100;
/// How long a server may take to take the news that nobody waits any more.
const CANCEL_WAIT: Duration = Duration::from_secs(1);
const LONGEST_REASON_BYTES: usize = 2_000;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing came back.
    Lost(Lost),
    /// The server answered with an error of JSON-RPC, put into words.
    Error(String),
    /// The server answered what no client can use, put into words.
    Unusable(String),
}

impl Failure {
    /// The reason without words of the server's own, which people outside must not get to see.
    pub fn public(&self) -> String {
        match self {
            Self::Lost(Lost::Ended(end)) => end.how.clone(),
            Self::Lost(Lost::Refused(_)) => "it refused a message, or gave no answer to it".to_owned(),
            Self::Error(_) => "it answered with an error".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether the same may work later without anybody mending anything.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Lost(Lost::Ended(end)) => end.may_pass,
            Self::Lost(lost) => matches!(lost, Lost::TimedOut | Lost::Interrupted),
            _ => false,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(lost) => lost.fmt(f),
            Self::Error(words) => write!(f, "it answered with an error: {words}"),
            Self::Unusable(words) => f.write_str(words),
        }
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// An open session.
pub struct Session {
    server: String,
    transport: Box<dyn Transport>,
    tree_uri: String,
    has_tools: bool,
    last_id: u64,
    log_messages: Chatter,
    told_of_changed_tools: bool,
}

impl Session {
    /// Introduces us to the server called `server`, which may look at `tree`.
    ///
    /// # Errors
    /// Why it is not usable; the transport is closed then.
    pub fn start(server: &str, transport: Box<dyn Transport>, tree: &Path, deadline: Instant) -> Result<Self, Failure> {
        let mut session = Self {
            server: server.to_owned(),
            transport,
            tree_uri: file_uri(tree),
            has_tools: false,
            last_id: 0,
            log_messages: Chatter::new(server, "log message"),
            told_of_changed_tools: false,
        };
        // Dropped on failure, which closes it.
        session.initialize(deadline)?;
        Ok(session)
    }

    /// All tools on offer, page by page, as the server describes them.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn tools(&mut self, deadline: Instant) -> Result<Vec<Value>, Failure> {
        if !self.has_tools {
            log::warn!("MCP server `{}` offers no tools", self.server);
            return Ok(Vec::new());
        }
        let (mut tools, mut cursors) = (Vec::new(), Vec::<String>::new());
        for _ in 0..MOST_PAGES {
            let params = cursors.last().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let page = self.request("tools/list", params, deadline)?;
            match page.get("tools") {
                Some(Value::Array(list)) => tools.extend(list.iter().cloned()),
                _ => return Err(Failure::Unusable("its list of tools is no list".to_owned())),
            }
            match page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty()) {
                None => return Ok(tools),
                Some(cursor) if cursors.iter().any(|earlier| earlier == cursor) => {
                    log::warn!("MCP server `{}` repeats a page of its tools; the rest is left out", self.server);
                    return Ok(tools);
                }
                Some(cursor) => cursors.push(cursor.to_owned()),
            }
        }
        log::warn!("MCP server `{}` has more than {MOST_PAGES} pages of tools; the rest is left out", self.server);
        Ok(tools)
    }

    /// Calls a tool. The result is as the server gave it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn call(&mut self, tool: &str, arguments: &Map<String, Value>, deadline: Instant) -> Result<Value, Failure> {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }), deadline)
    }

    /// Ends the session and its server.
    pub fn close(&mut self) {
        self.transport.close();
    }

    fn initialize(&mut self, deadline: Instant) -> Result<(), Failure> {
        let hello = match self.hello(PROTOCOL_VERSION, deadline) {
            // Some servers refuse a version they do not know instead of naming one of theirs.
            Err(Refusal { supported: Some(version), .. }) => self.hello(version, deadline),
            hello => hello,
        };
        let hello = hello.map_err(|refusal| refusal.failure)?;
        let version = hello.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        if !KNOWN_VERSIONS.contains(&version) {
            return Err(Failure::Unusable(format!(
                "it speaks the protocol version `{}`; this program knows {}",
                head(version, 40).escape_debug(),
                KNOWN_VERSIONS.join(", ")
            )));
        }
        self.has_tools = hello.get("capabilities").and_then(|capabilities| capabilities.get("tools")).is_some();
        let text = |name: &str| {
            let value = hello.get("serverInfo").and_then(|about| about.get(name)).and_then(Value::as_str);
            head(value.unwrap_or("?"), 80).to_owned()
        };
        log::info!("MCP server `{}` is {} {}, protocol {version}", self.server, text("name"), text("version"));
        self.transport.agreed(version);
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.transport.send(&ready, deadline).map_err(Failure::from)
    }

    fn hello(&mut self, version: &str, deadline: Instant) -> Result<Value, Refusal> {
        // Servers that may ask for the roots wait for the answer, some for a minute.
        let capabilities = if self.transport.is_heard_always() { json!({ "roots": {} }) } else { json!({}) };
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "coding-agent", "version": env!("CARGO_PKG_VERSION") },
        });
        let answer =
            self.exchange("initialize", params, deadline).map_err(|failure| Refusal { failure, supported: None })?;
        answer.map_err(|error| Refusal { supported: supported_version(&error), failure: Failure::Error(words(&error)) })
    }

    /// A request with its result. A session the server has forgotten is begun anew, once (case C41).
    fn request(&mut self, method: &str, params: Value, deadline: Instant) -> Result<Value, Failure> {
        let answer = match self.exchange(method, params.clone(), deadline) {
            Err(Failure::Lost(Lost::SessionExpired)) => {
                log::info!("MCP server `{}` has forgotten the session; a new one is begun", self.server);
                self.initialize(deadline)?;
                self.exchange(method, params, deadline)?
            }
            answer => answer?,
        };
        answer.map_err(|error| Failure::Error(words(&error)))
    }

    /// Sends a request and waits for its answer: a result, or the error object of JSON-RPC.
    fn exchange(&mut self, method: &str, params: Value, deadline: Instant) -> Result<Result<Value, Value>, Failure> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = match self.transport.send(&request, deadline) {
            Ok(()) => self.answer_to(id, deadline),
            Err(lost) => Err(lost.into()),
        };
        // A server must not be told to cancel the introduction.
        if matches!(answer, Err(Failure::Lost(Lost::TimedOut | Lost::Interrupted))) && method != "initialize" {
            let params = json!({ "requestId": id, "reason": "no answer in time" });
            let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            // Good manners only: a server that does not listen cannot be helped.
            let _ = self.transport.send(&cancelled, Instant::now() + CANCEL_WAIT);
        }
        answer
    }

    fn answer_to(&mut self, id: u64, deadline: Instant) -> Result<Result<Value, Value>, Failure> {
        loop {
            let Value::Object(mut message) = self.transport.receive(deadline)? else { continue };
            // What has a method is never an answer, whatever its id (case C36).
            if let Some(method) = message.get("method") {
                let method = method.as_str().unwrap_or_default().to_owned();
                match message.remove("id").filter(|id| !id.is_null()) {
                    Some(id) => self.answer(&method, id, deadline)?,
                    None => self.note(&method, message.get("params")),
                }
                continue;
            }
            if !message.get("id").is_some_and(|found| is_id(found, id)) {
                // A late answer to a call that nobody waits for any more, or none of ours at all.
                let message = Value::Object(message).to_string();
                log::debug!("MCP server `{}` answers what is not asked: {}", self.server, head(&message, 200));
                continue;
            }
            return match (message.remove("result"), message.remove("error")) {
                (_, Some(error)) if !error.is_null() => Ok(Err(error)),
                (Some(result), _) => Ok(Ok(result)),
                _ => Err(Failure::Unusable("its answer has neither a result nor an error".to_owned())),
            };
        }
    }

    /// Answers a request of the server.
    fn answer(&mut self, method: &str, id: Value, deadline: Instant) -> Result<(), Lost> {
        let mut reply = json!({ "jsonrpc": "2.0", "id": id });
        match method {
            "ping" => reply["result"] = json!({}),
            "roots/list" => reply["result"] = json!({ "roots": [{ "uri": self.tree_uri, "name": "work tree" }] }),
            _ => {
                log::debug!("MCP server `{}` asks for `{}`, which it does not get", self.server, head(method, 80));
                reply["error"] = json!({ "code": METHOD_NOT_FOUND, "message": "this client does not offer that" });
            }
        }
        match self.transport.send(&reply, deadline) {
            // It asked and would not hear the answer; our own request goes on.
            Err(Lost::Refused(why)) => {
                log::debug!("MCP server `{}` refused an answer: {why}", self.server);
                Ok(())
            }
            sent => sent,
        }
    }

    fn note(&mut self, method: &str, params: Option<&Value>) {
        match (method, params) {
            ("notifications/message", Some(params)) => {
                let data = params.get("data").unwrap_or(params);
                let line = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                self.log_messages.hear(&line);
            }
            ("notifications/tools/list_changed", _) if !self.told_of_changed_tools => {
                self.told_of_changed_tools = true;
                log::info!("MCP server `{}` has changed its tools; this task keeps those it began with", self.server);
            }
            _ => {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

/// An introduction that failed, with a version of ours that the server says it knows.
struct Refusal {
    failure: Failure,
    supported: Option<&'static str>,
}

/// Whether `found` is the id we gave; some servers make text of it.
fn is_id(found: &Value, id: u64) -> bool {
    found.as_u64() == Some(id) || found.as_str().is_some_and(|text| text == id.to_string())
}

/// An error object of JSON-RPC in words.
fn words(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str).map(str::trim).filter(|message| !message.is_empty());
    let code = error.get("code").and_then(Value::as_i64);
    let text = match (message.or(error.as_str()), code) {
        (Some(message), _) => message.to_owned(),
        (None, Some(code)) => format!("code {code} without a message"),
        (None, None) => error.to_string(),
    };
    head(&as_displayed(&text), LONGEST_REASON_BYTES).to_owned()
}

/// The newest version of ours in the list that comes with a refused version.
fn supported_version(error: &Value) -> Option<&'static str> {
    let Value::Array(supported) = error.get("data")?.get("supported")? else { return None };
    KNOWN_VERSIONS.into_iter().find(|known| *known != PROTOCOL_VERSION && supported.iter().any(|one| one == known))
}

fn file_uri(path: &Path) -> String {
    let path = path.to_string_lossy();
    let segments = path.split('/').map(percent_encoded);
    format!("file://{}", segments.collect::<Vec<_>>().join("/"))
}

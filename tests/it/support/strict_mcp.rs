//! An MCP server over streamable HTTP that is stricter than any real one: it wants every header the
//! specification (2025-06-18, "Transports") asks of a client, and JSON-RPC to the letter. What it objects to
//! is refused with status 422, and fails the test when the server is dropped.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Answer;
use super::http_server::{HttpServer, Received};

const VERSION: &str = "2025-06-18";

/// A running server. Sessions are called `s1`, `s2`, ….
pub struct StrictMcp {
    server: HttpServer,
    state: Arc<Mutex<State>>,
}

/// What a test may answer itself.
#[derive(Debug)]
pub enum Asked<'a> {
    /// `tools/call`; the answer has this id.
    Call { id: &'a Value, tool: &'a str },
    /// Our reply to a request of the server.
    Reply(&'a Value),
    /// GET with this `Last-Event-ID`.
    Resume(&'a str),
}

type Respond = dyn Fn(&Asked<'_>) -> Answer + Send + Sync;

struct State {
    respond: Arc<Respond>,
    header: Option<(&'static str, &'static str)>,
    gives_sessions: bool,
    begun: u32,
    /// The session that is alive.
    session: Option<String>,
    /// What `initialize` gets instead of a session.
    refusal: Option<Answer>,
    /// What a forgotten session gets.
    forgotten: Answer,
    used_ids: BTreeSet<String>,
    journal: Vec<String>,
    complaints: Vec<String>,
}

impl StrictMcp {
    /// Leaves calls of tools, replies and resumptions to `respond`.
    pub fn new(respond: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static) -> Self {
        Self::with_tls(None, respond)
    }

    pub fn with_tls(
        tls: Option<Arc<rustls::ServerConfig>>,
        respond: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(State {
            respond: Arc::new(respond),
            header: None,
            gives_sessions: true,
            begun: 0,
            session: None,
            refusal: None,
            forgotten: Answer::json(404, &error(&Value::Null, "Session not found")),
            used_ids: BTreeSet::new(),
            journal: Vec::new(),
            complaints: Vec::new(),
        }));
        let shared = state.clone();
        let server = HttpServer::start(
            tls,
            Arc::new(move |request| {
                let answered = shared.lock().unwrap().answer(request);
                // What the test answers may wait for another request.
                answered.unwrap_or_else(|ask| ask())
            }),
        );
        Self { server, state }
    }

    /// Everybody must send this header from now on.
    pub fn wants_header(&self, name: &'static str, value: &'static str) {
        self.state.lock().unwrap().header = Some((name, value));
    }

    /// It has no sessions.
    pub fn without_sessions(&self) {
        self.state.lock().unwrap().gives_sessions = false;
    }

    /// It is started again and knows no session.
    pub fn forget_sessions(&self) {
        self.state.lock().unwrap().session = None;
    }

    /// What a forgotten session gets instead of 404.
    pub fn answer_forgotten(&self, answer: Answer) {
        self.state.lock().unwrap().forgotten = answer;
    }

    /// What `initialize` gets from now on.
    pub fn refuse_introductions(&self, answer: Answer) {
        self.state.lock().unwrap().refusal = Some(answer);
    }

    /// `initialize` begins sessions again.
    pub fn accept_introductions(&self) {
        self.state.lock().unwrap().refusal = None;
    }

    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.server.address)
    }

    /// What was asked so far: methods of JSON-RPC, `reply`, `GET <id>`, `DELETE`, with the session.
    pub fn journal(&self) -> Vec<String> {
        self.state.lock().unwrap().journal.clone()
    }
}

impl Drop for StrictMcp {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.state.lock().unwrap().complaints, Vec::<String>::new());
        }
    }
}

/// An answer, or what makes one without the state being locked.
type Answered = Result<Answer, Box<dyn FnOnce() -> Answer>>;

impl State {
    fn answer(&mut self, request: &Received) -> Answered {
        let session = request.header("mcp-session-id").unwrap_or("none").to_owned();
        let message = match request.method.as_str() {
            "POST" => serde_json::from_slice(&request.body).unwrap_or(Value::Null),
            _ => Value::Null,
        };
        let what = match (request.method.as_str(), request.header("last-event-id"), message["method"].as_str()) {
            ("POST", _, Some(method)) => method.to_owned(),
            ("POST", ..) => "reply".to_owned(),
            (method, Some(id), _) => format!("{method} {id}"),
            (method, ..) => method.to_owned(),
        };
        self.journal.push(format!("{what} {session}"));
        if let Some((name, value)) = self.header
            && request.header(name) != Some(value)
        {
            return Ok(Answer::json(401, &json!({ "error": "invalid_token" })));
        }
        let begins = what == "initialize";
        if let Some(objection) = self.objection(request, &message, begins) {
            self.complaints.push(format!("{what}: {objection}"));
            return Ok(Answer::raw(422, objection));
        }
        if self.gives_sessions && !begins && self.session.as_deref() != Some(session.as_str()) {
            return Ok(self.forgotten.clone());
        }
        self.respond(request, &what, &message)
    }

    fn respond(&mut self, request: &Received, what: &str, message: &Value) -> Answered {
        let respond = self.respond.clone();
        let id = message["id"].clone();
        match (request.method.as_str(), what) {
            ("POST", "initialize") if self.refusal.is_some() => Ok(self.refusal.clone().unwrap()),
            ("POST", "initialize") => {
                self.begun += 1;
                let about = json!({
                    "protocolVersion": VERSION,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "strict", "version": "1" },
                });
                let answer = Answer::json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": about }));
                if !self.gives_sessions {
                    return Ok(answer);
                }
                let session = format!("s{}", self.begun);
                self.session = Some(session.clone());
                Ok(answer.header("Mcp-Session-Id", &session))
            }
            ("POST", "tools/list") => {
                let tools = json!([{ "name": "look", "inputSchema": { "type": "object" } }]);
                Ok(Answer::json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": tools } })))
            }
            ("POST", "tools/call") => {
                let tool = message["params"]["name"].as_str().unwrap().to_owned();
                Err(Box::new(move || respond(&Asked::Call { id: &id, tool: &tool })))
            }
            ("POST", "reply") => {
                let message = message.clone();
                Err(Box::new(move || respond(&Asked::Reply(&message))))
            }
            ("POST", _) => Ok(Answer::raw(202, "")),
            ("GET", _) => {
                let id = request.header("last-event-id").unwrap().to_owned();
                Err(Box::new(move || respond(&Asked::Resume(&id))))
            }
            ("DELETE", _) => {
                self.session = None;
                Ok(Answer::raw(200, ""))
            }
            _ => Ok(Answer::raw(405, "")),
        }
    }

    /// What is wrong with a request.
    fn objection(&mut self, request: &Received, message: &Value, begins: bool) -> Option<String> {
        let accept: Vec<&str> = request.header("accept").unwrap_or_default().split(',').map(str::trim).collect();
        if request.path != "/mcp" {
            return Some(format!("no such path: {}", request.path));
        }
        let wanted_version = (!begins).then_some(VERSION);
        if request.header("mcp-protocol-version") != wanted_version {
            return Some(format!("version {:?}", request.header("mcp-protocol-version")));
        }
        let has_session = request.header("mcp-session-id").is_some();
        if has_session != (self.gives_sessions && !begins) {
            return Some(format!("session {:?}", request.header("mcp-session-id")));
        }
        match request.method.as_str() {
            "GET" if accept != ["text/event-stream"] => Some(format!("accepts {accept:?}")),
            "GET" if request.header("last-event-id").is_none() => Some("a stream nobody reads".into()),
            "GET" | "DELETE" => (!request.body.is_empty()).then(|| "a body".into()),
            "POST" if !["application/json", "text/event-stream"].iter().all(|kind| accept.contains(kind)) => {
                Some(format!("accepts {accept:?}"))
            }
            "POST" if request.header("content-type") != Some("application/json") => Some("no content type".into()),
            "POST" => self.objection_to_message(message),
            method => Some(format!("what is {method}?")),
        }
    }

    fn objection_to_message(&mut self, message: &Value) -> Option<String> {
        let Some(object) = message.as_object() else { return Some("not one object of JSON".into()) };
        let fields: Vec<&str> = object.keys().map(String::as_str).filter(|key| *key != "jsonrpc").collect();
        if message["jsonrpc"] != "2.0" {
            return Some("not JSON-RPC 2.0".into());
        }
        match (object.get("method"), object.get("id")) {
            (Some(method), id) => {
                if method == "initialize" {
                    self.used_ids.clear();
                    // It would ask for them on a stream that nobody has opened, and wait.
                    if message.pointer("/params/capabilities/roots").is_some() {
                        return Some("roots that nobody can ask for".into());
                    }
                }
                let known = fields.iter().all(|field| ["method", "id", "params"].contains(field));
                let params = object.get("params").is_none_or(Value::is_object);
                let is_new = id.is_none_or(|id| !id.is_null() && self.used_ids.insert(id.to_string()));
                (!known || !params || !method.is_string() || !is_new).then(|| format!("a bad request: {message}"))
            }
            (None, Some(_)) if fields.len() == 2 && (fields.contains(&"result") || fields.contains(&"error")) => None,
            _ => Some(format!("a bad reply: {message}")),
        }
    }
}

/// The result of a tool: one text.
pub fn result(id: &Value, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } })
}

/// An error of JSON-RPC.
pub fn error(id: &Value, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000, "message": message } })
}

/// A notification that may come before an answer.
pub fn notification() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "hi" } })
}

/// An event with that message, and an id where it is not empty.
pub fn event(id: &str, message: &Value) -> String {
    let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
    format!("event: message\n{id}data: {message}\n\n")
}

/// A stream of events that ends with the last one.
pub fn stream(events: &str) -> Answer {
    Answer::Whole {
        status: 200,
        headers: vec![("Content-Type".into(), "text/event-stream".into())],
        body: events.as_bytes().to_vec(),
        framing: super::http_server::Framing::Chunked,
    }
}

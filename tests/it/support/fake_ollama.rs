//! An Ollama server that is stricter than any real one: it knows the fields of its API and no
//! others, wants the window named, arguments as objects and every call answered. What it objects to
//! is refused with status 400, and fails the test when the server is dropped. Source: Ollama's API
//! (github.com/ollama/ollama, docs/api.md and api/types.go).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::Answer;
use super::http_server::{HttpServer, Received};
#[cfg(test)]
use super::{Cassette, World};

/// The model it has.
pub const OLLAMA_MODEL: &str = "qwen:7b";

/// A running server.
pub struct FakeOllama {
    server: HttpServer,
    state: Arc<Mutex<State>>,
}

struct State {
    script: VecDeque<Answer>,
    shown: Answer,
    requests: Vec<Received>,
    complaints: Vec<String>,
}

impl FakeOllama {
    /// Answers one chat request after the other with `script`.
    pub fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        let shown = json!({
            "model_info": { "general.architecture": "qwen2", "qwen2.context_length": 131_072, "qwen2.block_count": 28 },
            "capabilities": ["completion", "tools"],
        });
        let state = Arc::new(Mutex::new(State {
            script: script.into_iter().collect(),
            shown: Answer::json(200, &shown),
            requests: Vec::new(),
            complaints: Vec::new(),
        }));
        let shared = state.clone();
        let server = HttpServer::start(None, Arc::new(move |request| shared.lock().unwrap().answer(request)));
        Self { server, state }
    }

    /// What `POST /api/show` gives from now on.
    pub fn set_shown(&self, answer: Answer) {
        self.state.lock().unwrap().shown = answer;
    }

    /// More answers.
    pub fn then(&self, script: impl IntoIterator<Item = Answer>) {
        self.state.lock().unwrap().script.extend(script);
    }

    /// Bodies of the chat requests so far.
    pub fn chats(&self) -> Vec<Value> {
        let state = self.state.lock().unwrap();
        let chats = state.requests.iter().filter(|request| request.path == "/api/chat");
        chats.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
    }

    /// Its address, with a scheme.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// A world with the issue `fix` whose model is this server, with `settings` more of it.
    #[cfg(test)]
    pub fn world(&self, settings: &str) -> World {
        let world = World::with_task(&Cassette::new());
        world.write(
            "config.yaml",
            &format!(
                "task_source: local\nllm: {{provider: ollama, ollama: {{endpoint: '127.0.0.1:{}', model: '{OLLAMA_MODEL}'{settings}}}}}\n\
                 command_executor: {{backend: host}}\n",
                self.server.address.port()
            ),
        );
        world
    }
}

impl Drop for FakeOllama {
    fn drop(&mut self) {
        let complaints = std::mem::take(&mut self.state.lock().unwrap().complaints);
        if !std::thread::panicking() {
            assert_eq!(complaints, Vec::<String>::new(), "the Ollama server has to complain");
        }
    }
}

impl State {
    fn answer(&mut self, request: &Received) -> Answer {
        self.requests.push(request.clone());
        match self.judge(request) {
            Ok(answer) => answer,
            Err(complaint) => {
                self.complaints.push(complaint.clone());
                Answer::json(400, &json!({ "error": complaint }))
            }
        }
    }

    fn judge(&mut self, request: &Received) -> Result<Answer, String> {
        if request.header("authorization").is_some() {
            return Err("a key for a server that takes none".into());
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/api/tags") => {
                let listed = |name: &str| json!({ "name": name, "model": name, "size": 1, "digest": "0".repeat(64) });
                Ok(Answer::json(200, &json!({ "models": [listed("other:latest"), listed(OLLAMA_MODEL)] })))
            }
            ("POST", "/api/show") => {
                object(&body, "show", &["model"])?;
                Ok(self.shown.clone())
            }
            ("POST", "/api/chat") => {
                chat(&body)?;
                self.script.pop_front().ok_or("the script is at its end".into())
            }
            (method, path) => Err(format!("nothing is at {method} {path}")),
        }
    }
}

fn object<'a>(value: &'a Value, at: &str, allowed: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("{at} is no object"))?;
    match object.keys().find(|name| !allowed.contains(&name.as_str())) {
        Some(name) => Err(format!("unknown field `{name}` in {at}")),
        None => Ok(object),
    }
}

fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn chat(body: &Value) -> Result<(), String> {
    object(body, "the request", &["model", "messages", "tools", "stream", "truncate", "shift", "options"])?;
    ensure(body["model"] == OLLAMA_MODEL, "another model")?;
    ensure(body["stream"] == false, "the answer would come in pieces")?;
    object(&body["options"], "options", &["num_ctx", "num_predict"])?;
    ensure(body["options"]["num_ctx"].as_u64().is_some_and(|window| window > 0), "no num_ctx")?;
    for tool in body["tools"].as_array().into_iter().flatten() {
        object(tool, "a tool", &["type", "function"])?;
        object(&tool["function"], "a function", &["name", "description", "parameters"])?;
    }
    let mut open: VecDeque<String> = VecDeque::new();
    super::fake_model::two_in_a_row(body)?;
    for message in body["messages"].as_array().ok_or("no messages")? {
        let fields: &[&str] = match message["role"].as_str() {
            Some("system" | "user") => &["role", "content"],
            Some("assistant") => &["role", "content", "thinking", "tool_calls"],
            Some("tool") => &["role", "content", "tool_name"],
            role => return Err(format!("no such role: {role:?}")),
        };
        object(message, "a message", fields)?;
        ensure(message["content"].is_string(), "content is no text")?;
        if message["role"] == "tool" {
            ensure(open.pop_front().as_deref() == message["tool_name"].as_str(), "a result without its call")?;
            continue;
        }
        ensure(open.is_empty(), "a call without a result")?;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            object(call, "a call", &["function"])?;
            object(&call["function"], "a called function", &["name", "arguments"])?;
            ensure(call["function"]["arguments"].is_object(), "arguments are no object")?;
            open.push_back(call["function"]["name"].as_str().unwrap_or_default().to_owned());
        }
        let is_empty = message["content"] == "" && message.get("tool_calls").is_none();
        ensure(message["role"] != "assistant" || !is_empty, "an answer of nothing")?;
    }
    ensure(open.is_empty(), "a call without a result")
}

/// A message as a whole answer, with these tokens counted.
pub fn ollama_answer(message: Value, prompt_tokens: Value) -> Answer {
    let mut message = message;
    message["role"] = "assistant".into();
    Answer::json(
        200,
        &json!({
            "model": OLLAMA_MODEL, "created_at": "2024-12-07T03:00:00Z", "message": message, "done": true,
            "done_reason": "stop", "total_duration": 1, "prompt_eval_count": prompt_tokens, "eval_count": 10,
        }),
    )
}

/// A call as Ollama sends it: an object, and no id.
pub fn ollama_call(name: &str, arguments: Value) -> Value {
    json!({ "content": "", "tool_calls": [{ "function": { "name": name, "arguments": arguments } }] })
}

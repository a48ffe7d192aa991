//! A model server that is stricter than any real one: what it has to object to is refused with
//! status 400, and fails the test when the server is dropped. What it answers is scripted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

#[cfg(test)]
use super::World;
use super::http_server::{HttpServer, Received};
use super::{Answer, Cassette, objection};

/// The key the server takes.
pub const KEY: &str = "sk-test-0123456789abcdef";
/// The model it has.
pub const MODEL: &str = "fake-model";

/// A running server.
pub struct FakeModel {
    server: HttpServer,
    state: Arc<Mutex<State>>,
    scheme: &'static str,
}

struct State {
    script: VecDeque<Answer>,
    models: Answer,
    /// LM Studio's own list.
    windows: Option<Answer>,
    /// Each call must come back with the reasoning and the signature it was sent with.
    wants_reasoning: bool,
    key: Option<&'static str>,
    /// Bytes of a request divided by four that are too many, and what is answered then.
    window: Option<(usize, Answer)>,
    /// Answers to requests without tools: someone wants a summary. The last stays.
    summaries: VecDeque<Answer>,
    /// What a request is said to have cost, as a multiple of its bytes / 4.
    count: Option<u64>,
    requests: Vec<Received>,
    complaints: Vec<String>,
}

impl FakeModel {
    /// Answers one chat request after the other with `script`.
    pub fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::start(script, None)
    }

    /// Plays a cassette.
    pub fn playing(cassette: &Cassette) -> Self {
        Self::new(cassette.lines().iter().map(reply))
    }

    /// As `new`, over TLS.
    pub fn with_tls(script: impl IntoIterator<Item = Answer>, tls: Arc<rustls::ServerConfig>) -> Self {
        Self::start(script, Some(tls))
    }

    fn start(script: impl IntoIterator<Item = Answer>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let state = Arc::new(Mutex::new(State {
            script: script.into_iter().collect(),
            models: Answer::json(200, &json!({ "object": "list", "data": [listed("other"), listed(MODEL)] })),
            windows: None,
            wants_reasoning: false,
            key: Some(KEY),
            window: None,
            summaries: VecDeque::new(),
            count: None,
            requests: Vec::new(),
            complaints: Vec::new(),
        }));
        let shared = state.clone();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server = HttpServer::start(tls, Arc::new(move |request| shared.lock().unwrap().answer(request)));
        Self { server, state, scheme }
    }

    /// What `GET /models` gives from now on.
    pub fn set_models(&self, answer: Answer) {
        self.state.lock().unwrap().models = answer;
    }

    /// What `GET /api/v0/models` gives from now on.
    pub fn set_windows(&self, answer: Answer) {
        self.state.lock().unwrap().windows = Some(answer);
    }

    /// From now on a turn of tools without its `reasoning_content` is refused, and so is a call without
    /// its `extra_content`.
    pub fn wants_reasoning(&self) {
        self.state.lock().unwrap().wants_reasoning = true;
    }

    /// From now on a request with a key is refused.
    pub fn wants_no_key(&self) {
        self.state.lock().unwrap().key = None;
    }

    /// From now on only this key is taken.
    pub fn wants_key(&self, key: &'static str) {
        self.state.lock().unwrap().key = Some(key);
    }

    /// From now on a request of more than `tokens` (bytes / 4) gets `answer`.
    pub fn set_window(&self, tokens: usize, answer: Answer) {
        self.state.lock().unwrap().window = Some((tokens, answer));
    }

    /// From now on a request of the script is said to have cost `factor` times its bytes / 4.
    pub fn set_count(&self, factor: u64) {
        self.state.lock().unwrap().count = Some(factor);
    }

    /// Requests without tools get these answers, the last one again and again.
    pub fn set_summaries(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.lock().unwrap().summaries = answers.into_iter().collect();
    }

    /// More answers.
    pub fn then(&self, script: impl IntoIterator<Item = Answer>) {
        self.state.lock().unwrap().script.extend(script);
    }

    /// Port it listens on.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// Its address, for the configuration.
    pub fn base_url(&self) -> String {
        // The certificate names a host, not an address.
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}/v1", self.scheme, self.port())
    }

    /// Bodies of the chat requests so far.
    pub fn chats(&self) -> Vec<Value> {
        let state = self.state.lock().unwrap();
        let chats = state.requests.iter().filter(|request| request.method == "POST");
        chats.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
    }

    /// Requests so far as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.requests.iter().map(|request| format!("{} {}", request.method, request.path)).collect()
    }

    /// A world with the issue `fix` whose model is this server.
    #[cfg(test)]
    pub fn world(&self) -> World {
        let mut world = World::with_task(&Cassette::new());
        self.configure(&world, "");
        world.set_env("OPENAI_API_KEY", KEY);
        world
    }

    /// Writes the configuration anew, with `settings` more in `llm.openai`.
    #[cfg(test)]
    pub fn configure(&self, world: &World, settings: &str) {
        let base_url = self.base_url();
        world.write(
            "config.yaml",
            &format!(
                "task_source: local\nllm: {{provider: openai, openai: {{base_url: '{base_url}', model: {MODEL}{settings}}}}}\n\
                 command_executor: {{backend: host}}\n"
            ),
        );
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        let complaints = std::mem::take(&mut self.state.lock().unwrap().complaints);
        if !std::thread::panicking() {
            assert_eq!(complaints, Vec::<String>::new(), "the model server has to complain");
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
                let error =
                    json!({ "message": complaint, "type": "invalid_request_error", "param": null, "code": null });
                Answer::json(400, &json!({ "error": error }))
            }
        }
    }

    fn judge(&mut self, request: &Received) -> Result<Answer, String> {
        let wanted = self.key.map(|key| format!("Bearer {key}"));
        if request.header("authorization") != wanted.as_deref() {
            return Err("not the right Authorization".into());
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/v1/models") => Ok(self.models.clone()),
            ("GET", "/api/v0/models") => self.windows.clone().ok_or("this is not LM Studio".into()),
            ("POST", "/v1/chat/completions") => {
                if request.header("content-type") != Some("application/json") {
                    return Err("Content-Type is not application/json".into());
                }
                if request.header("content-length").is_none() {
                    return Err("no Content-Length".into());
                }
                let mut body: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
                if self.wants_reasoning {
                    take_reasoning(&mut body)?;
                }
                if let Some(objection) = objection(&body) {
                    return Err(objection);
                }
                two_in_a_row(&body)?;
                if body["model"] != MODEL {
                    return Err(format!("no such model: {}", body["model"]));
                }
                if let Some((most, answer)) = &self.window
                    && request.body.len() / 4 > *most
                {
                    return Ok(answer.clone());
                }
                if body.get("tools").is_none() && !self.summaries.is_empty() {
                    let last = self.summaries.len() == 1;
                    let answer = if last { self.summaries.front().cloned() } else { self.summaries.pop_front() };
                    return answer.ok_or_else(String::new);
                }
                let mut answer = self.script.pop_front().ok_or("the script is at its end")?;
                if let (Some(factor), Answer::Whole { body, .. }) = (self.count, &mut answer) {
                    let mut counted: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                    let tokens = request.body.len() as u64 / 4 * factor;
                    counted["usage"] = with_total(json!({ "prompt_tokens": tokens, "completion_tokens": 10 }));
                    *body = counted.to_string().into();
                }
                Ok(answer)
            }
            (method, path) => Err(format!("nothing is at {method} {path}")),
        }
    }
}

/// What templates of local models say to two user messages in a row.
pub fn two_in_a_row(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_twin = |pair: &[Value]| pair.iter().all(|message| message["role"] == "user");
    if messages.windows(2).any(is_twin) {
        return Err("Conversation roles must alternate user/assistant/user/assistant/...".into());
    }
    Ok(())
}

/// Takes out what goes back with turns of tools; what is missing is told.
fn take_reasoning(body: &mut Value) -> Result<(), String> {
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        let Some(fields) = message.as_object_mut().filter(|fields| fields.contains_key("tool_calls")) else { continue };
        fields.remove("reasoning_content").ok_or("The `reasoning_content` must be passed back")?;
        for call in fields["tool_calls"].as_array_mut().into_iter().flatten() {
            let call = call.as_object_mut().ok_or("no call")?;
            call.remove("extra_content").ok_or("the call has no thought_signature")?;
        }
    }
    Ok(())
}

/// A line of a cassette as a whole answer.
pub fn reply(line: &Value) -> Answer {
    let mut message = line.clone();
    let fields = message.as_object_mut().unwrap();
    fields.insert("role".into(), "assistant".into());
    let usage = fields.remove("usage");
    let has_calls = fields.contains_key("tool_calls");
    let reason = fields.remove("finish_reason").unwrap_or_else(|| if has_calls { "tool_calls" } else { "stop" }.into());
    let mut answer = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": MODEL,
        "choices": [{ "index": 0, "message": message, "finish_reason": reason, "logprobs": null }],
    });
    if let Some(usage) = usage {
        answer["usage"] = with_total(usage);
    }
    Answer::json(200, &answer)
}

/// A model as `GET /models` lists it.
fn listed(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": 1_700_000_000, "owned_by": "nobody" })
}

/// What was counted, with the sum that real servers add; what a test has made odd stays as it is.
fn with_total(mut usage: Value) -> Value {
    if let (Some(prompt), Some(reply)) = (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64())
        && usage.get("total_tokens").is_none()
    {
        usage["total_tokens"] = (prompt + reply).into();
    }
    usage
}

//! Ollama's own API: the one that takes the size of the window with each request. One call is one
//! request; a slow one is waited for, and never repeated while it may still be at work (case C10).

mod dropped_front;
mod wire;

use serde_json::Value;

use self::dropped_front::LastCount;
use super::alternation::alternating;
use super::{PROBE_LIMIT, failure, window};
use crate::chat::check_history;
use crate::error::{Context, Error, Kind, Result};
use crate::ports::{Llm, ModelProfile, Reply, Request};
use crate::sys::http::{HttpClient, HttpRequest, HttpResponse};
use crate::text::{head_chars, parse_json, server_words};

/// A longer answer is none of a model.
const MOST_ANSWER_BYTES: u64 = 32 << 20;
/// Characters of the names of models in a sentence.
const MOST_NAMES_CHARS: usize = 300;
const MODEL_SETTING: &str = "llm.ollama.model or OLLAMA_MODEL";

/// Which server and which model.
#[derive(Debug, Clone)]
pub struct OllamaSettings {
    /// Address of the server; no slash at the end.
    pub endpoint: String,
    /// Tools will be offered; a model that cannot call them is found by the probe.
    pub needs_tools: bool,
    /// Provider and model, with its limits.
    pub profile: ModelProfile,
}

/// A model of an Ollama server.
#[derive(Debug)]
pub struct Ollama {
    settings: OllamaSettings,
    client: HttpClient,
    last: Option<LastCount>,
}

impl Ollama {
    /// The model of these settings, asked through `client`.
    pub fn new(settings: OllamaSettings, client: HttpClient) -> Self {
        Self { settings, client, last: None }
    }

    /// A question of the probe.
    fn look_at(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<HttpResponse> {
        self.send(&self.client.within(PROBE_LIMIT), method, path, body)
    }

    fn send(&self, client: &HttpClient, method: &str, path: &str, body: Option<&[u8]>) -> Result<HttpResponse> {
        let url = format!("{}{path}", self.settings.endpoint);
        let mut headers = vec![("accept", "application/json")];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let request = HttpRequest { method, url: &url, headers: &headers, body, most_body_bytes: MOST_ANSWER_BYTES };
        client.send(&request)
    }

    /// What a refusal means: host, later or task (ARCHITECTURE.md, "Errors").
    fn refusal(&self, response: &HttpResponse) -> Error {
        let OllamaSettings { endpoint, profile, .. } = &self.settings;
        let model = &profile.model;
        let status = response.status;
        let words = server_words(&response.body);
        let plain = words.to_lowercase();
        if failure::is_overflow(status, &response.body) {
            return self.too_long(&words);
        }
        match status {
            401 | 403 => Error::host(format!("`{endpoint}` wants a key ({status}){words}"))
                .hint("the provider ollama sends none; look at what stands in front of the server"),
            _ if plain.contains("does not support tools") => self.without_tools(),
            404 if plain.contains("model") => Error::host(format!("`{endpoint}` has no model `{model}`{words}"))
                .hint(format!("run `ollama pull {model}` there, or set {MODEL_SETTING}")),
            404 | 405 | 501 => Error::host(format!("`{endpoint}` does not answer like Ollama ({status}){words}"))
                .hint("look at llm.ollama.endpoint; it has no path"),
            408 | 425 | 429 | 500.. => {
                failure::passing(response, format!("`{endpoint}` cannot answer now ({status}){words}"))
            }
            400..500 => Error::task(format!("`{endpoint}` refuses the request ({status}){words}")),
            _ => Error::host(format!("`{endpoint}` does not answer like Ollama ({status})"))
                .hint("look at llm.ollama.endpoint"),
        }
    }

    fn too_long(&self, words: &str) -> Error {
        let model = &self.settings.profile.model;
        Error::task(format!("the conversation no longer fits the window of the model `{model}`{words}"))
            .too_large()
            .hint("set llm.ollama.context_length to what the model and the machine really have")
    }

    fn without_tools(&self) -> Error {
        Error::host(format!("the model `{}` cannot call tools", self.settings.profile.model))
            .hint(format!("set llm.function_calling to false, or another model in {MODEL_SETTING}"))
    }

    /// The models the server has, for a sentence.
    fn names(&self) -> String {
        let Ok(response) = self.look_at("GET", "/api/tags", None) else { return String::new() };
        let list = parse_json(&response.body).unwrap_or_default();
        let models = list.get("models").and_then(Value::as_array).cloned().unwrap_or_default();
        let names: Vec<String> =
            models.iter().filter_map(|model| Some(format!("`{}`", model.get("name")?.as_str()?))).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("; it has {}", head_chars(&names.join(", "), MOST_NAMES_CHARS))
    }
}

impl Llm for Ollama {
    fn model(&self) -> &ModelProfile {
        &self.settings.profile
    }

    /// Asks what the server knows of the model: whether it is there, calls tools, and how long its
    /// window is. Loads nothing.
    fn probe(&mut self) -> Result<()> {
        let model = self.settings.profile.model.clone();
        let body = serde_json::json!({ "model": model }).to_string();
        let response =
            self.look_at("POST", "/api/show", Some(body.as_bytes())).map_err(|error| match error.kind() {
                Kind::Task => {
                    Error::host(format!("cannot ask `{}` for its model", self.settings.endpoint)).caused_by(error)
                }
                _ => error,
            })?;
        match response.status {
            200 => {}
            404 if server_words(&response.body).contains("not found") => {
                let endpoint = &self.settings.endpoint;
                return Err(Error::host(format!("`{endpoint}` has no model `{model}`{}", self.names()))
                    .hint(format!("run `ollama pull {model}` there, or set {MODEL_SETTING}")));
            }
            _ => return Err(self.refusal(&response)),
        }
        let shown = parse_json(&response.body).unwrap_or_default();
        let can = shown.get("capabilities").and_then(Value::as_array);
        // Older versions do not say what a model can do.
        if self.settings.needs_tools && can.is_some_and(|can| !can.iter().any(|word| word == "tools")) {
            return Err(self.without_tools());
        }
        let remedy = "set llm.ollama.context_length";
        window::apply(&mut self.settings.profile, window::in_ollama(&shown), remedy);
        Ok(())
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        check_history(request.messages).map_err(|broken| Error::bug(format!("the history is not valid: {broken}")))?;
        let messages = alternating(request.messages);
        let body = wire::Body::new(&self.settings.profile, &messages, request.tools);
        let body = serde_json::to_vec(&body).context(Kind::Bug, || "cannot write a request".into())?;
        let response = self.send(&self.client, "POST", "/api/chat", Some(&body))?;
        if response.status != 200 {
            return Err(self.refusal(&response));
        }
        let endpoint = &self.settings.endpoint;
        let unusable = |why: &str| failure::no_answer(&response, format!("`{endpoint}` sent no usable reply: {why}"));
        let answer = parse_json(&response.body).map_err(|error| unusable(&error.to_string()))?;
        if answer.get("error").is_some() {
            return Err(match failure::is_overflow(200, &response.body) {
                true => self.too_long(&server_words(&response.body)),
                false => unusable(&format!("an error{}", server_words(&response.body))),
            });
        }
        let reply = wire::reply(&answer).ok_or_else(|| unusable("it holds no message"))?;
        if let Some(usage) = reply.usage {
            let window_tokens = self.settings.profile.context_tokens;
            let count = LastCount::new(request, usage.prompt_tokens);
            if count.tells_of_a_dropped_front(self.last.as_ref(), window_tokens) {
                log::warn!(
                    "`{endpoint}` counted {} tokens in a request for a window of {window_tokens}: it dropped the \
                     front of it and did not say so",
                    usage.prompt_tokens
                );
                return Err(self.too_long(""));
            }
            self.last = Some(count);
        }
        Ok(reply)
    }
}

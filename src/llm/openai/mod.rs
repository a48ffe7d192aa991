//! OpenAI's chat completions, and every server that speaks them. One call is one request: trying
//! again is the wrapper's work. Keeps the key to itself: no sentence of its errors holds it.

mod wire;

use serde_json::Value;

use super::alternation::alternating;
use super::{PROBE_LIMIT, failure, window};
use crate::chat::{Role, check_history};
use crate::config::Secret;
use crate::error::{Context, Error, Kind, Result};
use crate::ports::{Llm, ModelProfile, Reply, Request};
use crate::sys::http::{HttpClient, HttpRequest, HttpResponse};
use crate::text::{Redactor, parse_json, server_words};

/// A longer answer is none of a model.
const MOST_ANSWER_BYTES: u64 = 32 << 20;
/// Names of models in a sentence.
const MOST_NAMES: usize = 10;

/// Which server, which model, and what a person calls the settings that say so.
#[derive(Debug, Clone)]
pub struct OpenAiSettings {
    /// Address to which `/chat/completions` is appended; no slash at the end.
    pub base_url: String,
    /// Key; without one no `Authorization` is sent.
    pub api_key: Option<Secret>,
    /// Variable that holds the key, for messages; `None` for a server that takes none.
    pub key_variable: Option<&'static str>,
    /// Setting and variable that name the model, for messages.
    pub model_setting: &'static str,
    /// LM Studio's own list of models, which tells the window a model really has.
    pub windows_url: Option<String>,
    /// Provider and model, with its limits.
    pub profile: ModelProfile,
}

/// A model behind a chat completions API.
#[derive(Debug)]
pub struct OpenAi {
    settings: OpenAiSettings,
    client: HttpClient,
    authorization: Option<Secret>,
    redactor: Redactor,
}

impl OpenAi {
    /// The model of these settings, asked through `client`.
    pub fn new(settings: OpenAiSettings, client: HttpClient) -> Self {
        let key = settings.api_key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty());
        let authorization = key.map(|key| Secret::new(format!("Bearer {key}")));
        // Some servers repeat a refused key in their answer.
        let redactor = Redactor::new(key);
        Self { settings, client, authorization, redactor }
    }

    /// A question of the probe.
    fn look_at(&self, url: &str) -> Result<HttpResponse> {
        self.send(&self.client.within(PROBE_LIMIT), "GET", url, None)
    }

    fn send(&self, client: &HttpClient, method: &str, url: &str, body: Option<&[u8]>) -> Result<HttpResponse> {
        let mut headers = vec![("accept", "application/json")];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        if let Some(authorization) = &self.authorization {
            headers.push(("authorization", authorization.expose()));
        }
        let request = HttpRequest { method, url, headers: &headers, body, most_body_bytes: MOST_ANSWER_BYTES };
        client.send(&request)
    }

    /// What the server said, without our key.
    fn words(&self, body: &[u8]) -> String {
        self.redactor.mask(&server_words(body))
    }

    /// What a refusal means: host, later or task (ARCHITECTURE.md, "Errors"). Source: OpenAI's guide
    /// "Error codes" (platform.openai.com/docs/guides/error-codes).
    fn refusal(&self, status: u16, response: &HttpResponse) -> Error {
        let OpenAiSettings { base_url, key_variable, profile, model_setting, .. } = &self.settings;
        let words = self.words(&response.body);
        if failure::is_quota(status, &response.body) {
            return failure::quota(response, base_url, &words);
        }
        if failure::is_overflow(status, &response.body) {
            let model = &profile.model;
            return match status {
                429 => Error::task(format!("one request is more than `{base_url}` takes for `{model}`{words}"))
                    .hint("set context_length of the provider to less than that, or ask for a higher limit"),
                _ => Error::task(format!("the conversation no longer fits the window of the model `{model}`{words}"))
                    .hint("set context_length of the provider to what the model really has"),
            }
            .too_large();
        }
        let is_unknown_model = words.contains("model_not_found") || code(&response.body) == "model_not_found";
        match status {
            // A gateway's word for "this text is not allowed": about the request, not about the key.
            403 if failure::is_moderation(&response.body) => {
                Error::task(format!("`{base_url}` refuses the content of the request{words}"))
            }
            401 | 403 if self.authorization.is_none() => {
                let hint = key_variable.map_or_else(
                    || "switch its authentication off, or use it as the provider openai with a key".to_owned(),
                    |variable| format!("set {variable}"),
                );
                Error::host(format!("`{base_url}` wants a key ({status}){words}")).hint(hint)
            }
            401 | 403 => {
                let variable = key_variable.unwrap_or("the configuration");
                Error::host(format!("`{base_url}` refuses the key in {variable} ({status}){words}"))
                    .hint("a new key may be needed, or one that may use this model")
            }
            404 | 405 | 501 => Error::host(format!(
                "`{base_url}` has no model `{}`, or the address is wrong ({status}){words}",
                profile.model
            ))
            .hint(format!("look at {model_setting} and at the address")),
            _ if is_unknown_model => Error::host(format!("`{base_url}` has no model `{}`{words}", profile.model))
                .hint(format!("look at {model_setting}")),
            408 | 425 | 429 | 500.. => {
                failure::passing(response, format!("`{base_url}` cannot answer now ({status}){words}"))
            }
            400..500 => Error::task(format!("`{base_url}` refuses the request ({status}){words}")),
            _ => Error::host(format!("`{base_url}` does not answer like a model server ({status})"))
                .hint("look at the address; it usually ends in /v1"),
        }
    }

    fn without_tools(&self, words: &str) -> Error {
        let OpenAiSettings { base_url, profile, model_setting, .. } = &self.settings;
        Error::host(format!("the model `{}` at `{base_url}` cannot be given tools{words}", profile.model))
            .hint(format!("set llm.function_calling to false, or another model in {model_setting}"))
    }

    /// An answer with status 200 that holds no reply: never the end of a task (case C06).
    fn unusable(&self, response: &HttpResponse, why: &str) -> Error {
        let excerpt: String = String::from_utf8_lossy(&response.body).chars().take(200).collect();
        log::info!("an unusable answer of `{}` begins: {}", self.settings.base_url, self.redactor.mask(&excerpt));
        failure::no_answer(response, format!("`{}` sent no usable reply: {why}", self.settings.base_url))
    }

    /// `error` in an answer with status 200, as OpenRouter and other gateways send it.
    fn error_inside(&self, response: &HttpResponse, error: &Value) -> Error {
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        match code {
            // What a person must mend is no passing trouble, wherever it is said.
            Some(status @ (401 | 402 | 403 | 429)) => self.refusal(status, response),
            _ if failure::is_quota(200, &response.body) || failure::is_overflow(200, &response.body) => {
                self.refusal(200, response)
            }
            _ => self.unusable(response, &format!("an error{}", self.words(&response.body))),
        }
    }
}

impl Llm for OpenAi {
    fn model(&self) -> &ModelProfile {
        &self.settings.profile
    }

    /// Asks for the list of models (platform.openai.com/docs/api-reference/models/list), which costs
    /// nothing and tells key, address and model. A server without a usable list is taken as it is:
    /// its first reply tells the same, parks the task and spends no attempt; a probing chat request
    /// would cost money at each pass, and is refused by models that must think first.
    fn probe(&mut self) -> Result<()> {
        self.look_for_model()?;
        self.look_at_window();
        Ok(())
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        check_history(request.messages).map_err(|broken| Error::bug(format!("the history is not valid: {broken}")))?;
        let (profile, messages) = (&self.settings.profile, alternating(request.messages));
        let body = wire::Body::new(&profile.model, &messages, request.tools, profile.max_output_tokens);
        let body = serde_json::to_vec(&body).context(Kind::Bug, || "cannot write a request".into())?;
        let url = format!("{}/chat/completions", self.settings.base_url);
        let response = self.send(&self.client, "POST", &url, Some(&body))?;
        if response.status != 200 {
            let is_first = !request.messages.iter().any(|message| message.role == Role::Assistant);
            if is_first && !request.tools.is_empty() && failure::is_without_tools(response.status, &response.body) {
                return Err(self.without_tools(&self.words(&response.body)));
            }
            return Err(self.refusal(response.status, &response));
        }
        if response.body.iter().all(u8::is_ascii_whitespace) {
            return Err(self.unusable(&response, "it is empty"));
        }
        let answer = parse_json(&response.body).map_err(|error| self.unusable(&response, &format!("{error}")))?;
        match (answer.get("error").filter(|error| !error.is_null()), wire::reply(&answer)) {
            (_, Some(reply)) => Ok(reply),
            (Some(error), None) => Err(self.error_inside(&response, error)),
            (None, None) => Err(self.unusable(&response, "it holds no message")),
        }
    }
}

impl OpenAi {
    fn look_for_model(&self) -> Result<()> {
        let OpenAiSettings { base_url, profile, model_setting, .. } = &self.settings;
        let response = self.look_at(&format!("{base_url}/models")).map_err(|error| match error.kind() {
            // Too long, or redirected elsewhere: here it is no task's fault.
            Kind::Task => Error::host(format!("cannot ask `{base_url}` for its models")).caused_by(error),
            _ => error,
        })?;
        match response.status {
            200 => {}
            400 | 404 | 405 | 410 | 501 => {
                log::debug!("`{base_url}` has no list of models ({})", response.status);
                return Ok(());
            }
            // A key with few rights may still be good for chat completions.
            401 | 403 if self.words(&response.body).to_lowercase().contains("missing scopes") => return Ok(()),
            status => return Err(self.refusal(status, &response)),
        }
        let names = model_names(&response.body);
        if names.is_empty() || names.iter().any(|name| is_same_model(name, &profile.model)) {
            return Ok(());
        }
        Err(Error::host(format!(
            "`{base_url}` has no model `{}`; it has {}",
            profile.model,
            self.redactor.mask(&listed(names, &profile.model))
        ))
        .hint(format!("set {model_setting}")))
    }

    /// Takes the window that LM Studio really gave the model, where it says so: what does not fit is
    /// cut off there without a word.
    fn look_at_window(&mut self) {
        let Some(url) = &self.settings.windows_url else { return };
        let found = match self.look_at(url) {
            Ok(response) if response.status == 200 => {
                window::in_lmstudio(&parse_json(&response.body).unwrap_or_default(), &self.settings.profile.model)
            }
            // Older versions have no such list.
            Ok(response) => return log::debug!("`{url}` tells no windows ({})", response.status),
            Err(error) => return log::debug!("`{url}` tells no windows: {error:#}"),
        };
        window::apply(&mut self.settings.profile, found, "load it with a longer context there, or set that");
    }
}

/// `error.code` of a refusal.
fn code(body: &[u8]) -> String {
    let value = parse_json(body).unwrap_or_default();
    value.pointer("/error/code").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The ids in a list of models; empty when it is none, or one of another form.
fn model_names(body: &[u8]) -> Vec<String> {
    let list = parse_json(body).unwrap_or_default();
    let models = list.get("data").unwrap_or(&list).as_array().cloned().unwrap_or_default();
    models.iter().filter_map(|model| model.get("id")?.as_str().map(str::to_owned)).collect()
}

/// Whether the model listed as `name` can be asked for as `wanted`. Servers take more names than
/// they list: without `models/` (Gemini) or a tag (Ollama), with a variant (OpenRouter's
/// `vendor/model:online`), and any name behind a wildcard (LiteLLM).
fn is_same_model(name: &str, wanted: &str) -> bool {
    let tagged = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with(':'));
    let wildcard = name.strip_suffix('*').is_some_and(|start| wanted.starts_with(start));
    name == wanted
        || name.strip_prefix("models/") == Some(wanted)
        || tagged(name, wanted)
        || tagged(wanted, name)
        || wildcard
}

/// Some of `names` for a sentence, those that begin most like `wanted` first.
fn listed(mut names: Vec<String>, wanted: &str) -> String {
    let likeness = |name: &str| name.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    names.sort_by(|a, b| likeness(b).cmp(&likeness(a)).then_with(|| a.cmp(b)));
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

//! Settings of one user, asked for when a task of his begins: the user config API. Whatever goes wrong
//! there, the task is worked on with the base settings, and one warning says why.

use std::time::Duration;

use serde_json::Value;

use super::models::{http_client, model};
use crate::chat::estimate_tokens;
use crate::config::{Config, is_plain_word};
use crate::error::{Error, Kind, Result};
use crate::ports::{Llm, ModelProfile};
use crate::sys::http::{HttpRequest, HttpResponse};
use crate::task::TaskMessage;
use crate::text::{Redactor, head_chars, percent_encoded};

/// Longest time until the API has answered.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Settings are small.
const MOST_BODY_BYTES: u64 = 256 << 10;
/// Characters of a name or word from outside in a sentence.
const MOST_NAME_CHARS: usize = 60;

/// What one task is worked on with.
pub struct UserSettings {
    /// The configuration with the user's settings in it.
    pub config: Config,
    /// The user's model, probed; `None` where it is the one of the base configuration.
    pub llm: Option<Box<dyn Llm>>,
    /// What he wants in all of his tasks.
    pub orders: Option<String>,
}

/// The settings of the user whose task this is; `None` means the base configuration, whose probed model
/// is `base`. The redactor learns the secrets among them.
pub fn for_task(
    config: &Config,
    message: &TaskMessage,
    base: &ModelProfile,
    redactor: &Redactor,
) -> Option<UserSettings> {
    if !config.user_config_api.enabled {
        return None;
    }
    let user = message.user.as_deref().map(str::trim).filter(|user| !user.is_empty());
    let asked = user.ok_or_else(|| Error::host("nobody is known for whom it is"));
    match asked.and_then(|user| settings_of(config, message.key.source(), user, base, redactor)) {
        Ok(settings) => {
            let profile = settings.llm.as_ref().map_or(base, |llm| llm.model());
            log::info!("{}: with the settings of {}, model {}", message.key, user.unwrap_or_default(), profile.model);
            Some(settings)
        }
        Err(error) => {
            // The sentence alone: what lies below may hold anything of a foreign answer.
            log::warn!("{}: worked on with the base settings: {}", message.key, error.sentence());
            None
        }
    }
}

fn settings_of(
    base_config: &Config,
    source: &str,
    user: &str,
    base: &ModelProfile,
    redactor: &Redactor,
) -> Result<UserSettings> {
    let response = request(base_config, source, user)?;
    let fault = |why: &str| Error::host(format!("the user config API {why}"));
    match response.status {
        200 => {}
        401 | 403 => return Err(fault(&format!("refuses the key in USER_CONFIG_API_KEY ({})", response.status))),
        404 => return Err(fault(&format!("does not know the user `{}` (404)", head_chars(user, MOST_NAME_CHARS)))),
        status => return Err(fault(&format!("answers with status {status}"))),
    }
    let reply: Value = serde_json::from_slice(&response.body).map_err(|_| fault("does not answer with JSON"))?;
    match reply.get("status").and_then(Value::as_str) {
        Some("success") => {}
        Some(status) => return Err(fault(&format!("answers `{}`", head_chars(status, MOST_NAME_CHARS)))),
        None => return Err(fault("answers without a status")),
    }
    let data = reply.get("data").and_then(Value::as_object).ok_or_else(|| fault("answers without data"))?;
    if let Some(key) = reply.pointer("/data/llm/openai/api_key").and_then(Value::as_str) {
        // Before anything is made of it that could show it.
        redactor.learn(Some(key).filter(|key| !is_plain_word(key)));
    }
    let orders = match data.get("system_prompt") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Some(_) => return Err(fault("says a `system_prompt` that is no text")),
    };
    let config = base_config.with_user_settings(data).map_err(|error| fault(&format!("says: {}", error.sentence())))?;
    redactor.learn(config.secrets());
    let llm = if config.llm == base_config.llm {
        None
    } else {
        let unusable = |error: Error| fault(&format!("names a model that cannot be used: {}", error.sentence()));
        let mut llm = model(&config).map_err(unusable)?;
        llm.probe().map_err(unusable)?;
        Some(llm)
    };
    let window_tokens = llm.as_ref().map_or(base.context_tokens, |llm| llm.model().context_tokens);
    if orders.as_deref().is_some_and(|orders| estimate_tokens(orders) > window_tokens / 4) {
        return Err(fault("says a `system_prompt` that is longer than a quarter of the model's window"));
    }
    Ok(UserSettings { config, llm, orders })
}

/// Asks the API for the settings of `user` of the forge `source`.
///
/// # Errors
/// When no answer comes; the sentence is fit for everybody.
pub fn request(config: &Config, source: &str, user: &str) -> Result<HttpResponse> {
    if matches!(user, "." | "..") {
        // No encoding keeps these from being read as a way through the address.
        return Err(Error::host(format!("`{user}` cannot be asked for at the user config API")));
    }
    let api = &config.user_config_api;
    let url = format!("{}/config/{}/{}", api.url, percent_encoded(source), percent_encoded(user));
    let authorization = api.api_key.as_ref().map(|key| format!("Bearer {}", key.expose().trim()));
    let mut headers = vec![("accept", "application/json")];
    headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
    let request =
        HttpRequest { method: "GET", url: &url, headers: &headers, body: None, most_body_bytes: MOST_BODY_BYTES };
    let client = http_client(config, &url, TIMEOUT.as_secs())?;
    client.send(&request).map_err(|error| Error::new(Kind::Host, format!("the user config API: {}", error.sentence())))
}

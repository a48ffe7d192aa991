//! Which model a configuration names, and how its server is reached.

use std::time::Duration;

use crate::config::{Config, Provider};
use crate::error::{Error, Result};
use crate::llm::{Ollama, OllamaSettings, OpenAi, OpenAiSettings, Replay};
use crate::ports::{Llm, ModelProfile};
use crate::sys::http::{HttpClient, HttpSettings};

/// The model of `config`; nothing is sent yet.
///
/// # Errors
/// `Kind::Host` when none is named, or the recorded one cannot be read.
pub fn model(config: &Config) -> Result<Box<dyn Llm>> {
    let llm = &config.llm;
    match (llm.provider, &llm.replay.file) {
        (Provider::Openai, _) => Ok(Box::new(openai(config)?)),
        (Provider::Ollama, _) => Ok(Box::new(ollama(config)?)),
        (Provider::Lmstudio, _) => Ok(Box::new(lmstudio(config)?)),
        (Provider::Replay, Some(file)) => Ok(Box::new(Replay::open(file, llm.replay.context_length)?)),
        (Provider::Replay, None) => Err(Error::bug("provider `replay` without a file passed the configuration")),
    }
}

/// A client for the server at `url`; 0 seconds are no limit.
pub fn http_client(config: &Config, url: &str, timeout_seconds: u64) -> Result<HttpClient> {
    let timeout = (timeout_seconds > 0).then(|| Duration::from_secs(timeout_seconds));
    let settings = HttpSettings { ca_file: config.ca_file.as_deref(), timeout };
    HttpClient::new(settings, url.starts_with("https:"))
}

fn openai(config: &Config) -> Result<OpenAi> {
    const MODEL_SETTING: &str = "llm.openai.model or OPENAI_MODEL";
    let openai = &config.llm.openai;
    let settings = OpenAiSettings {
        base_url: openai.base_url.clone(),
        api_key: openai.api_key.clone(),
        key_variable: Some("OPENAI_API_KEY"),
        model_setting: MODEL_SETTING,
        windows_url: None,
        profile: ModelProfile {
            provider: "openai".into(),
            model: chosen_model(openai.model.as_deref(), MODEL_SETTING)?,
            context_tokens: openai.context_length,
            max_output_tokens: openai.max_output_tokens.map(u64::from),
        },
    };
    let client = http_client(config, &settings.base_url, openai.timeout_seconds)?;
    Ok(OpenAi::new(settings, client))
}

fn lmstudio(config: &Config) -> Result<OpenAi> {
    const MODEL_SETTING: &str = "llm.lmstudio.model or LMSTUDIO_MODEL";
    let lmstudio = &config.llm.lmstudio;
    let root = lmstudio.base_url.strip_suffix("/v1").unwrap_or(&lmstudio.base_url);
    let settings = OpenAiSettings {
        base_url: lmstudio.base_url.clone(),
        api_key: None,
        key_variable: None,
        model_setting: MODEL_SETTING,
        windows_url: Some(format!("{root}/api/v0/models")),
        profile: ModelProfile {
            provider: "lmstudio".into(),
            model: chosen_model(lmstudio.model.as_deref(), MODEL_SETTING)?,
            context_tokens: lmstudio.context_length,
            max_output_tokens: None,
        },
    };
    let client = http_client(config, &settings.base_url, lmstudio.timeout_seconds)?;
    Ok(OpenAi::new(settings, client))
}

fn ollama(config: &Config) -> Result<Ollama> {
    let ollama = &config.llm.ollama;
    let settings = OllamaSettings {
        endpoint: ollama.endpoint.clone(),
        needs_tools: config.llm.function_calling,
        profile: ModelProfile {
            provider: "ollama".into(),
            model: chosen_model(ollama.model.as_deref(), "llm.ollama.model or OLLAMA_MODEL")?,
            context_tokens: ollama.context_length,
            max_output_tokens: None,
        },
    };
    let client = http_client(config, &settings.endpoint, ollama.timeout_seconds)?;
    Ok(Ollama::new(settings, client))
}

/// The model that was chosen by `setting`.
fn chosen_model(model: Option<&str>, setting: &str) -> Result<String> {
    let model = model.map(str::trim).filter(|name| !name.is_empty());
    let key = setting.split(' ').next().unwrap_or(setting);
    model
        .map(str::to_owned)
        .ok_or_else(|| Error::host(format!("no model is chosen: {key} is not set")).hint(format!("set {setting}")))
}

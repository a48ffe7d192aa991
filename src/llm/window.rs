//! The window that a server really gives a model: what does not fit there is cut off without a word
//! (case C15). Sends nothing. Sources: LM Studio's "REST API v0", `GET /api/v0/models`
//! (lmstudio.ai/docs/developer/rest/endpoints); Ollama's API, "Show Model Information"
//! (github.com/ollama/ollama, docs/api.md).

use serde_json::Value;

use crate::ports::ModelProfile;

/// Tokens of the window of `model` in LM Studio's list: as it is loaded, else the most it could be
/// loaded with.
pub fn in_lmstudio(list: &Value, model: &str) -> Option<u64> {
    let models = list.get("data")?.as_array()?;
    let entry = models.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(model))?;
    let tokens = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|tokens| *tokens > 0);
    tokens("loaded_context_length").or_else(|| tokens("max_context_length"))
}

/// Tokens that a model of Ollama was made for; a longer window is not given to it.
pub fn in_ollama(shown: &Value) -> Option<u64> {
    let facts = shown.get("model_info")?.as_object()?;
    let family = facts.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let of_family = facts.get(&format!("{family}.context_length"));
    let any = || facts.iter().find(|(name, _)| name.ends_with(".context_length")).map(|(_, tokens)| tokens);
    of_family.or_else(any)?.as_u64().filter(|tokens| *tokens > 0)
}

/// Takes the window that was found where it is smaller than the configured one, with a warning.
pub fn apply(profile: &mut ModelProfile, found: Option<u64>, remedy: &str) {
    let configured = profile.context_tokens;
    let Some(found) = found.filter(|found| *found < configured) else { return };
    log::warn!(
        "the model `{}` has a window of {found} tokens, not {configured} as llm.{}.context_length says; \
         {found} are used; {remedy}",
        profile.model,
        profile.provider
    );
    profile.context_tokens = found;
}

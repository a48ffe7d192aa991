//! The settings of one user on top of a configuration: a new one for one task. As strict as the file,
//! and shows no value of what it refuses: it came from elsewhere and may be a key.

use serde_json::{Map, Value};

use super::field::Field as _;
use super::{Config, Provider};
use crate::error::{Error, Result};
use crate::sys::http::same_origin;

impl Config {
    /// This configuration with what `data` says in `llm`, in the shape of that section and in part, and
    /// in `max_llm_process_num`. Other fields of `data` are none of its business.
    ///
    /// # Errors
    /// `Kind::Host` when a key is unknown or a value is impossible.
    pub fn with_user_settings(&self, data: &Map<String, Value>) -> Result<Self> {
        let given = |name: &str| data.get(name).cloned().unwrap_or_default();
        let llm = given("llm");
        let has_own_key =
            llm.pointer("/openai/api_key").and_then(Value::as_str).is_some_and(|key| !key.trim().is_empty());
        let names_a_file = llm.get("replay").is_some_and(|replay| !replay.is_null());
        let mut config = self.clone();
        config
            .llm
            .overlay("llm", llm)
            .and_then(|()| config.max_llm_process_num.overlay("max_llm_process_num", given("max_llm_process_num")))
            .map_err(Error::host)?;
        if names_a_file || (config.llm.provider == Provider::Replay && self.llm.provider != Provider::Replay) {
            return Err(Error::host("`llm.replay` is not for users: it names a file of this machine"));
        }
        config.settle();
        config.validate()?;
        // Nobody but the operator may let the agent wait longer.
        let limits = [
            (&mut config.llm.openai.timeout_seconds, self.llm.openai.timeout_seconds),
            (&mut config.llm.ollama.timeout_seconds, self.llm.ollama.timeout_seconds),
            (&mut config.llm.lmstudio.timeout_seconds, self.llm.lmstudio.timeout_seconds),
        ];
        for (wanted, most) in limits {
            // 0 is no limit.
            if most > 0 && (*wanted == 0 || *wanted > most) {
                *wanted = most;
            }
        }
        // The operator's key is for the server he chose; another one must not get it.
        if !has_own_key && !same_origin(&config.llm.openai.base_url, &self.llm.openai.base_url) {
            config.llm.openai.api_key = None;
        }
        Ok(config)
    }
}

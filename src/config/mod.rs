//! `config.yaml` and the environment become one typed `Config`. Everything wrong in it stops the
//! start with one sentence; nothing is guessed, clamped or silently ignored. Never prints, never
//! reads the process environment itself, never writes.

mod check;
mod choices;
mod credential;
mod environment;
mod field;
mod nearest;
mod overlay;
mod secret;
mod shell_words;
mod source;
mod tools;
mod tree;
mod unbuilt;
mod url;

use std::path::{Path, PathBuf};

pub use choices::{ExecutorBackend, Language, Provider, QueueBackend, Submodules, TaskSource};
pub use environment::{Lookup, variables};
pub use secret::Secret;
pub use tools::{
    CommandExecutor, Compression, ContextStorage, Docker, Execution, Inheritance, Llm, Lmstudio, McpServer, Ollama,
    Openai, Replay, Resources, TextEditorMcp,
};
pub use tree::{
    Config, Consumer, Continuous, Database, FileListContext, Github, Gitlab, IssueToMrConversion, Local, PauseResume,
    Planning, Producer, ProjectAgentRules, PullRequest, Queue, Rabbitmq, TaskStop, UserConfigApi, Workspace,
};

use crate::error::{Error, Result};
use environment::Origin;
use field::Field;
use source::Source;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "config.yaml";

impl Config {
    /// Where the database is: as configured, else beside the contexts.
    pub fn database_path(&self) -> PathBuf {
        self.database.sqlite_path().unwrap_or_else(|| self.context_storage.base_dir.join("tasks.db"))
    }

    /// The file that [`Config::load`] reads; `None` where the environment alone counts.
    pub fn file_in_use(path: Option<&Path>, env: Lookup<'_>) -> Option<PathBuf> {
        let named = path.map(Path::to_path_buf).or_else(|| environment::value(env, "CONFIG_FILE").map(PathBuf::from));
        named.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists()))
    }

    /// The configuration to work with: as `read`, and without anything this version cannot do.
    pub fn load(path: Option<&Path>, env: Lookup<'_>) -> Result<Self> {
        let layered = Layered::read(path, env)?;
        layered.accept(unbuilt::check(&layered.config))?;
        Ok(layered.config)
    }

    /// File, then environment, checked.
    ///
    /// `path` must exist; without it `$CONFIG_FILE` must, and without that `config.yaml` may: a
    /// fresh user can start from the environment alone.
    pub fn read(path: Option<&Path>, env: Lookup<'_>) -> Result<Self> {
        Layered::read(path, env).map(|layered| layered.config)
    }

    /// Refuses impossible values; `read` has done it, who changes a configuration does it again.
    pub fn validate(&self) -> Result<()> {
        check::check(self).map_err(|problem| blame(&problem, &[], None))
    }

    /// Tokens, keys, passwords, and the entries of MCP servers that are called like one; short
    /// ones too, which the redactor leaves out.
    pub fn secrets(&self) -> Vec<&str> {
        let mut found = Vec::new();
        Field::secrets(self, &mut found);
        // What local servers are given for a key, `lm-studio` or `not-needed`, stands in ordinary text too.
        let model_key = self.llm.openai.api_key.as_ref().map(Secret::expose).filter(|key| is_plain_word(key));
        found.retain(|secret| Some(*secret) != model_key);
        found
    }

    /// Brings what can be written in several ways to the one way the rest relies on.
    fn settle(&mut self) {
        if self.use_rabbitmq {
            self.queue.backend = QueueBackend::Rabbitmq;
        }
        // A key written as a block in YAML ends with a line break.
        let keys = [
            &mut self.github.personal_access_token,
            &mut self.gitlab.personal_access_token,
            &mut self.llm.openai.api_key,
            &mut self.user_config_api.api_key,
        ];
        for key in keys.into_iter().flatten() {
            *key = Secret::new(key.expose().trim());
        }
        for api_url in [&mut self.github.api_url, &mut self.gitlab.api_url, &mut self.user_config_api.url] {
            // No scheme is guessed here: a token would go out unencrypted.
            *api_url = url::trimmed(api_url);
        }
        for base_url in [&mut self.llm.openai.base_url, &mut self.llm.ollama.endpoint] {
            *base_url = url::with_scheme(base_url);
        }
        self.llm.lmstudio.base_url = url::with_v1(&self.llm.lmstudio.base_url);
        // The server of the other forge has no token and no task to serve.
        let other_forges: &[&str] = match self.task_source {
            TaskSource::Github => &["gitlab"],
            TaskSource::Gitlab => &["github"],
            TaskSource::Local => &["github", "gitlab"],
        };
        self.mcp_servers.retain(|server| !other_forges.contains(&server.mcp_server_name.as_str()));
    }
}

/// A configuration that still knows where each value came from.
struct Layered {
    config: Config,
    origins: Vec<Origin>,
    source: Option<Source>,
}

impl Layered {
    fn read(path: Option<&Path>, env: Lookup<'_>) -> Result<Self> {
        let source = source(path, env)?;
        let mut config = source.as_ref().map_or_else(|| Ok(Config::default()), Source::parse)?;
        let origins = environment::apply(&mut config, env)?;
        config.settle();
        environment::fill_headers(&mut config, env)?;
        let layered = Self { config, origins, source };
        layered.accept(check::check(&layered.config))?;
        Ok(layered)
    }

    fn accept(&self, checked: check::Checked) -> Result<()> {
        checked.map_err(|problem| blame(&problem, &self.origins, self.source.as_ref()))
    }
}

fn source(path: Option<&Path>, env: Lookup<'_>) -> Result<Option<Source>> {
    let missing = |name: &Path| Error::host(format!("cannot read config `{}`: no such file", name.display()));
    if let Some(path) = path {
        return Source::read(path)?.map(Some).ok_or_else(|| missing(path));
    }
    if let Some(name) = environment::value(env, "CONFIG_FILE") {
        let path = Path::new(&name);
        return Source::read(path)?.map(Some).ok_or_else(|| missing(path).hint("CONFIG_FILE names it"));
    }
    Source::read(Path::new(DEFAULT_FILE))
}

/// Says where the bad value came from: the variable that set it, else the file.
fn blame(problem: &check::Problem, origins: &[Origin], source: Option<&Source>) -> Error {
    let check::Problem { key, text } = problem;
    match (origins.iter().find(|(origin, _)| origin == key), source) {
        (Some((_, variable)), _) => Error::host(format!("environment variable `{variable}`: `{key}` {text}")),
        (None, Some(source)) => source.error_at(key, text),
        (None, None) => Error::host(format!("config: `{key}` {text}")),
    }
}

/// Whether a key is a word or two in small letters rather than a secret. The longest that servers are
/// known to be given is llama.cpp's `sk-no-key-required`.
pub fn is_plain_word(key: &str) -> bool {
    const LONGEST_BYTES: usize = 18;
    key.len() <= LONGEST_BYTES && key.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte))
}

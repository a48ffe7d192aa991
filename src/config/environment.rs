//! Environment variables on top of the file: one table from variable to key. An unset or blank
//! variable changes nothing; a value that cannot be meant is refused, never guessed.

use super::{Config, McpServer, Provider, Secret, TaskSource, shell_words};
use crate::error::{Error, Result};

/// Reads one environment variable; the process environment or a test's.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Every variable that sets one key, with that key.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().map(|(name, key, _)| (*name, *key))
}

/// How a variable's text gets into its key.
enum Set {
    Text(fn(&mut Config) -> &mut String),
    Optional(fn(&mut Config) -> &mut Option<String>),
    Hidden(fn(&mut Config) -> &mut Option<Secret>),
    File(fn(&mut Config) -> &mut std::path::PathBuf),
    Flag(fn(&mut Config) -> &mut bool),
    Port(fn(&mut Config) -> &mut u16),
    OptionalPort(fn(&mut Config) -> &mut Option<u16>),
    Seconds(fn(&mut Config) -> &mut u64),
    Number(fn(&mut Config) -> &mut f64),
    Source(fn(&mut Config) -> &mut TaskSource),
    Llm(fn(&mut Config) -> &mut Provider),
    Command(&'static str),
}

#[rustfmt::skip]
const TABLE: &[(&str, &str, Set)] = &[
    ("TASK_SOURCE", "task_source", Set::Source(|c| &mut c.task_source)),
    ("GITHUB_PERSONAL_ACCESS_TOKEN", "github.personal_access_token", Set::Hidden(|c| &mut c.github.personal_access_token)),
    ("GITHUB_API_URL", "github.api_url", Set::Text(|c| &mut c.github.api_url)),
    ("GITHUB_BOT_NAME", "github.bot_name", Set::Optional(|c| &mut c.github.bot_name)),
    ("GITLAB_PERSONAL_ACCESS_TOKEN", "gitlab.personal_access_token", Set::Hidden(|c| &mut c.gitlab.personal_access_token)),
    ("GITLAB_API_URL", "gitlab.api_url", Set::Text(|c| &mut c.gitlab.api_url)),
    ("GITLAB_BOT_NAME", "gitlab.bot_name", Set::Optional(|c| &mut c.gitlab.bot_name)),
    ("LLM_PROVIDER", "llm.provider", Set::Llm(|c| &mut c.llm.provider)),
    ("FUNCTION_CALLING", "llm.function_calling", Set::Flag(|c| &mut c.llm.function_calling)),
    ("OPENAI_API_KEY", "llm.openai.api_key", Set::Hidden(|c| &mut c.llm.openai.api_key)),
    ("OPENAI_BASE_URL", "llm.openai.base_url", Set::Text(|c| &mut c.llm.openai.base_url)),
    ("OPENAI_MODEL", "llm.openai.model", Set::Optional(|c| &mut c.llm.openai.model)),
    ("OLLAMA_ENDPOINT", "llm.ollama.endpoint", Set::Text(|c| &mut c.llm.ollama.endpoint)),
    ("OLLAMA_MODEL", "llm.ollama.model", Set::Optional(|c| &mut c.llm.ollama.model)),
    ("LMSTUDIO_BASE_URL", "llm.lmstudio.base_url", Set::Text(|c| &mut c.llm.lmstudio.base_url)),
    ("LMSTUDIO_MODEL", "llm.lmstudio.model", Set::Optional(|c| &mut c.llm.lmstudio.model)),
    ("DATABASE_URL", "database.url", Set::Optional(|c| &mut c.database.url)),
    ("DATABASE_HOST", "database.host", Set::Optional(|c| &mut c.database.host)),
    ("DATABASE_PORT", "database.port", Set::OptionalPort(|c| &mut c.database.port)),
    ("DATABASE_NAME", "database.name", Set::Optional(|c| &mut c.database.name)),
    ("DATABASE_USER", "database.user", Set::Optional(|c| &mut c.database.user)),
    ("DATABASE_PASSWORD", "database.password", Set::Hidden(|c| &mut c.database.password)),
    ("RABBITMQ_HOST", "rabbitmq.host", Set::Text(|c| &mut c.rabbitmq.host)),
    ("RABBITMQ_PORT", "rabbitmq.port", Set::Port(|c| &mut c.rabbitmq.port)),
    ("RABBITMQ_USER", "rabbitmq.user", Set::Text(|c| &mut c.rabbitmq.user)),
    ("RABBITMQ_PASSWORD", "rabbitmq.password", Set::Hidden(|c| &mut c.rabbitmq.password)),
    ("RABBITMQ_QUEUE", "rabbitmq.queue", Set::Text(|c| &mut c.rabbitmq.queue)),
    ("USE_USER_CONFIG_API", "user_config_api.enabled", Set::Flag(|c| &mut c.user_config_api.enabled)),
    ("USER_CONFIG_API_URL", "user_config_api.url", Set::Text(|c| &mut c.user_config_api.url)),
    ("USER_CONFIG_API_KEY", "user_config_api.api_key", Set::Hidden(|c| &mut c.user_config_api.api_key)),
    ("COMMAND_EXECUTOR_ENABLED", "command_executor.enabled", Set::Flag(|c| &mut c.command_executor.enabled)),
    ("TEXT_EDITOR_MCP_ENABLED", "text_editor_mcp.enabled", Set::Flag(|c| &mut c.text_editor_mcp.enabled)),
    ("ISSUE_TO_MR_ENABLED", "issue_to_mr_conversion.enabled", Set::Flag(|c| &mut c.issue_to_mr_conversion.enabled)),
    ("PROJECT_AGENT_RULES_ENABLED", "project_agent_rules.enabled", Set::Flag(|c| &mut c.project_agent_rules.enabled)),
    ("EXECUTOR_DEFAULT_ENVIRONMENT", "command_executor.default_environment", Set::Optional(|c| &mut c.command_executor.default_environment)),
    ("EXECUTOR_BASE_IMAGE", "command_executor.docker.base_image", Set::Optional(|c| &mut c.command_executor.docker.base_image)),
    ("EXECUTOR_CPU_LIMIT", "command_executor.docker.resources.cpu_limit", Set::Number(|c| &mut c.command_executor.docker.resources.cpu_limit)),
    ("EXECUTOR_MEMORY_LIMIT", "command_executor.docker.resources.memory_limit", Set::Text(|c| &mut c.command_executor.docker.resources.memory_limit)),
    ("EXECUTOR_TIMEOUT", "command_executor.execution.timeout_seconds", Set::Seconds(|c| &mut c.command_executor.execution.timeout_seconds)),
    ("GITHUB_MCP_COMMAND", "mcp_servers", Set::Command("github")),
    ("LOGS", "logs", Set::File(|c| &mut c.logs)),
    ("DEBUG", "debug", Set::Flag(|c| &mut c.debug)),
];

/// A key and the variable it was taken from.
pub(super) type Origin = (&'static str, &'static str);

/// Puts the variables on top of `config`; tells which keys came from which.
pub(super) fn apply(config: &mut Config, lookup: Lookup<'_>) -> Result<Vec<Origin>> {
    let mut origins = Vec::new();
    for (name, key, set) in TABLE {
        if let Some(value) = value(lookup, name) {
            set.to(config, &value)
                .map_err(|problem| Error::host(format!("environment variable `{name}` {problem}")))?;
            origins.push((*key, *name));
        }
    }
    for (name, entry) in config.mcp_servers.iter_mut().flat_map(|server| &mut server.env) {
        if let Some(value) = value(lookup, name) {
            *entry = Secret::new(value);
        }
    }
    Ok(origins)
}

/// Puts variables into the headers of MCP servers that name them: `Bearer ${DOCS_TOKEN}`.
pub(super) fn fill_headers(config: &mut Config, lookup: Lookup<'_>) -> Result<()> {
    for server in &mut config.mcp_servers {
        for (header, entry) in &mut server.headers {
            let value = filled(entry.expose(), lookup).map_err(|variable| {
                let server = &server.mcp_server_name;
                Error::host(format!(
                    "cannot fill the header `{header}` of MCP server `{server}`: `{variable}` is not set"
                ))
                .hint("set that environment variable, or change the header in mcp_servers")
            })?;
            *entry = Secret::new(value.trim());
        }
    }
    Ok(())
}

/// `text` with every `${NAME}` replaced; the name of a variable that is not set is the error.
fn filled(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        filled.push_str(&value(lookup, name).ok_or_else(|| name.to_owned())?);
        rest = after;
    }
    Ok(filled + rest)
}

/// The variable without blanks around it; `None` when nothing is left.
pub(super) fn value(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

impl Set {
    fn to(&self, config: &mut Config, value: &str) -> Result<(), String> {
        match self {
            Self::Text(key) => *key(config) = value.to_owned(),
            Self::Optional(key) => *key(config) = Some(value.to_owned()),
            Self::Hidden(key) => *key(config) = Some(Secret::new(value)),
            Self::File(key) => *key(config) = value.into(),
            Self::Flag(key) => *key(config) = flag(value)?,
            Self::Port(key) => *key(config) = port(value)?,
            Self::OptionalPort(key) => *key(config) = Some(port(value)?),
            Self::Seconds(key) => *key(config) = parsed(value, "a whole number of seconds")?,
            Self::Number(key) => *key(config) = parsed(value, "a number")?,
            Self::Source(key) => *key(config) = named(value, TaskSource::named, TaskSource::NAMES)?,
            Self::Llm(key) => *key(config) = named(value, Provider::named, Provider::NAMES)?,
            Self::Command(server) => set_command(config, server, value)?,
        }
        Ok(())
    }
}

fn flag(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(refusal(value, "true, false, 1, 0, yes, no")),
    }
}

fn port(value: &str) -> Result<u16, String> {
    parsed(value, "a whole number from 1 to 65535")
}

fn parsed<T: std::str::FromStr>(value: &str, allowed: &str) -> Result<T, String> {
    value.parse().map_err(|_| refusal(value, allowed))
}

fn named<T>(value: &str, choice: fn(&str) -> Option<T>, names: &[&str]) -> Result<T, String> {
    choice(value).ok_or_else(|| refusal(value, &names.join(", ")))
}

fn refusal(value: &str, allowed: &str) -> String {
    // Env files of systemd, docker and make disagree on whether quotes belong to the value.
    let quoted =
        value.len() > 1 && ['"', '\''].iter().any(|quote| value.starts_with(*quote) && value.ends_with(*quote));
    let remark = if quoted { ", with quotes that are part of the value" } else { "" };
    format!("is `{value}`{remark}; allowed: {allowed}")
}

fn set_command(config: &mut Config, name: &str, line: &str) -> Result<(), String> {
    let command = shell_words::split(line)?;
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        return Err("names no program; allowed: a program and its arguments".to_owned());
    }
    match config.mcp_servers.iter_mut().find(|server| server.mcp_server_name == name) {
        Some(server) => {
            server.command = command;
            server.url = None;
        }
        None => {
            config.mcp_servers.push(McpServer { mcp_server_name: name.to_owned(), command, ..McpServer::default() });
        }
    }
    Ok(())
}

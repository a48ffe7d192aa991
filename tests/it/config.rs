//! Configuration: defaults, file, environment, refusals. The environment is always a closure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use coding_agent::config::{
    Config, DEFAULT_FILE, ExecutorBackend, Language, Provider, QueueBackend, Secret, TaskSource, variables,
};
use coding_agent::error::{Kind, Result};

const SHIPPED: &str = include_str!("../../config.yaml");

fn nothing(_: &str) -> Option<String> {
    None
}

/// Reads `bytes` as a file under `env`; messages name it `config.yaml`.
fn read_with(bytes: impl AsRef<[u8]>, env: &[(&str, &str)]) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DEFAULT_FILE);
    std::fs::write(&path, bytes).unwrap();
    let env: BTreeMap<&str, &str> = env.iter().copied().collect();
    Config::read(Some(&path), &|name| env.get(name).map(|value| (*value).to_owned())).map_err(|error| {
        assert_eq!(error.kind(), Kind::Host, "{error}");
        assert!(!error.sentence().ends_with('.'), "{error}");
        assert!(!error.sentence().contains('\n'), "{error}");
        error.sentence().replace(&path.display().to_string(), DEFAULT_FILE)
    })
}

fn read(bytes: impl AsRef<[u8]>) -> Result<Config, String> {
    read_with(bytes, &[])
}

fn refusal(bytes: impl AsRef<[u8]>) -> String {
    read(bytes).expect_err("refused")
}

// Defaults and the shipped file.

#[test]
fn shipped_file_is_exactly_the_defaults() {
    assert_eq!(read(SHIPPED), Ok(Config::default()));
}

#[test]
fn defaults_are_those_of_the_table() {
    let config = Config::default();
    assert_eq!(config.task_source, TaskSource::Github);
    assert_eq!(config.max_llm_process_num, 1000);
    assert_eq!(config.language, Language::En);
    assert_eq!(config.github.api_url, "https://api.github.com");
    assert_eq!(config.gitlab.api_url, "https://gitlab.com/api/v4");
    assert_eq!(config.github.bot_label, "coding agent");
    assert_eq!(config.queue.backend, QueueBackend::Spool);
    assert_eq!(config.queue.max_attempts, 3);
    assert_eq!(config.llm.provider, Provider::Openai);
    assert_eq!(config.llm.openai.base_url, "https://api.openai.com/v1");
    assert_eq!(config.llm.ollama.timeout_seconds, 3600);
    assert_eq!(config.command_executor.backend, ExecutorBackend::Auto);
    assert_eq!(config.command_executor.execution.max_output_size, 1_048_576);
    assert!(config.context_storage.compression.enabled);
    assert!((config.context_storage.compression.token_threshold - 0.6).abs() < f64::EPSILON);
    assert_eq!(config.pause_resume.signal_file, Path::new("contexts/pause_signal"));
    config.validate().unwrap();
}

/// The keys below `section`, as the refusal of a wrong one lists them; `None` for a single value.
fn keys_below(section: &[&str]) -> Option<Vec<String>> {
    let mut yaml = String::new();
    for (depth, name) in section.iter().chain(&["zzzzzzzz"]).enumerate() {
        yaml.push_str(&format!("{}{name}:\n", "  ".repeat(depth)));
    }
    let message = read(yaml).err()?;
    let keys = message.split_once("unknown key")?.1.split_once("; allowed: ")?.1;
    Some(keys.split(", ").map(str::to_owned).collect())
}

fn known_keys(section: &[&str], found: &mut BTreeSet<String>) {
    match keys_below(section) {
        None => drop(found.insert(section.join("."))),
        Some(keys) => keys.iter().for_each(|key| known_keys(&[section, &[key.as_str()]].concat(), found)),
    }
}

#[test]
fn a_key_that_fits_into_no_header_is_refused_and_not_shown() {
    let refused = read_with("", &[("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_1\nghp_2")]).unwrap_err();
    let said = "environment variable `GITHUB_PERSONAL_ACCESS_TOKEN`: `github.personal_access_token` holds a line break; \
                allowed: printable ASCII";
    assert_eq!(refused, said);
    for (yaml, said) in [
        ("gitlab: {personal_access_token: \"gl\\u0007\"}", "`gitlab.personal_access_token` holds a control character"),
        ("llm: {openai: {api_key: \"sk…\"}}", "`llm.openai.api_key` holds a character that is not ASCII"),
        ("user_config_api: {api_key: \"a\\rb\"}", "`user_config_api.api_key` holds a line break"),
        (
            "mcp_servers: [{mcp_server_name: a, url: 'http://a/', headers: {X-Key: \"a\\nb\"}}]",
            "`mcp_servers[0].headers` holds, in `X-Key`, a line break",
        ),
    ] {
        let refused = refusal(yaml);
        assert!(refused.contains(said), "{refused}");
    }
    // Written as a block, it ends with a line break.
    let config = read("gitlab:\n  personal_access_token: |\n    glpat-1\n").unwrap();
    assert_eq!(config.gitlab.personal_access_token.unwrap().expose(), "glpat-1");
}

#[test]
fn shipped_file_shows_every_key() {
    let mut keys = BTreeSet::new();
    known_keys(&[], &mut keys);
    // The second name of a section.
    keys.retain(|key| !key.starts_with("context."));
    assert!(keys.len() > 100, "{keys:?}");
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut shown = BTreeSet::new();
    for line in SHIPPED.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        // A secret stands there as `# api_key: use [VARIABLE]`.
        let content = if content.contains(": use [") { content.trim_start_matches("# ") } else { content };
        if let Some((name, _)) = content.split_once(':').filter(|_| !content.starts_with('#')) {
            open.retain(|(outer, _)| *outer < indent);
            open.push((indent, name));
            shown.insert(open.iter().map(|(_, name)| *name).collect::<Vec<_>>().join("."));
        }
    }
    let missing: Vec<_> = keys.difference(&shown).collect();
    assert!(missing.is_empty(), "config.yaml does not show {missing:?}");
    for key in [
        "mcp_server_name",
        "command",
        "env",
        "url",
        "headers",
        "timeout_seconds",
        "start_timeout_seconds",
        "required",
        "tools",
    ] {
        assert!(SHIPPED.contains(&format!("{key}: ")), "{key}");
    }
}

#[test]
fn shipped_file_names_every_variable() {
    for (variable, _) in variables() {
        assert!(SHIPPED.contains(&format!("[{variable}]")), "{variable}");
    }
}

// Which file.

#[test]
fn named_file_must_exist() {
    let missing = Path::new("/nonexistent/config.yaml");
    let error = Config::read(Some(missing), &nothing).unwrap_err();
    assert_eq!(error.sentence(), "cannot read config `/nonexistent/config.yaml`: no such file");
    let env = |name: &str| (name == "CONFIG_FILE").then(|| "/nonexistent/other.yaml".to_owned());
    let error = Config::read(None, &env).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "cannot read config `/nonexistent/other.yaml`: no such file\nhint: CONFIG_FILE names it; name an existing file there"
    );
}

#[test]
fn config_file_variable_chooses_and_an_argument_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (chosen, given) = (dir.path().join("a.yaml"), dir.path().join("b.yaml"));
    std::fs::write(&chosen, "max_llm_process_num: 1").unwrap();
    std::fs::write(&given, "max_llm_process_num: 2").unwrap();
    let env = |name: &str| (name == "CONFIG_FILE").then(|| chosen.display().to_string());
    assert_eq!(Config::read(None, &env).unwrap().max_llm_process_num, 1);
    assert_eq!(Config::read(Some(&given), &env).unwrap().max_llm_process_num, 2);
}

#[test]
fn a_directory_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = Config::read(Some(dir.path()), &nothing).unwrap_err();
    assert_eq!(error.sentence(), format!("cannot read config `{}`", dir.path().display()));
}

#[test]
fn nothing_and_null_are_defaults() {
    for yaml in [
        "",
        "\n",
        "# only a comment\n",
        "---\n",
        "llm:\n",
        "llm: null\n",
        "llm: ~\nqueue:\n  max_attempts: null\n",
        "github:\n  bot_label: null\n",
        "github:\n  repositories: null\n",
        "command_executor:\n  environments:\n",
        "task_source:\n",
        "llm:\n  openai:\n    # api_key: x\n  ollama: ~\n",
        "workspace: {depth: ~, dir: ~}",
        "mcp_servers:\n",
        "database: {password: }\n",
        "github: {assignee: ~, personal_access_token: ''}\n",
    ] {
        assert_eq!(read(yaml), Ok(Config::default()), "{yaml:?}");
    }
}

#[test]
fn values_of_the_file_arrive_typed() {
    let config = read(
        "task_source: local\nlocal: {tasks_dir: here}\nqueue:\n  backend: memory\nllm:\n  provider: replay\n  replay:\n    \
         file: replies.jsonl\ncontext:\n  compression:\n    token_threshold: 8000\nmcp_servers:\n  - mcp_server_name: a\n    \
         command: [npx, -y, 1.10]\n    env: {PORT: 8080, A_TOKEN: }\n",
    )
    .unwrap();
    assert_eq!(config.task_source, TaskSource::Local);
    assert_eq!(config.local.tasks_dir, Path::new("here"));
    assert_eq!(config.queue.backend, QueueBackend::Memory);
    assert_eq!(config.llm.replay.file.as_deref(), Some(Path::new("replies.jsonl")));
    assert!((config.context_storage.compression.token_threshold - 8000.0).abs() < f64::EPSILON);
    let server = &config.mcp_servers[0];
    assert_eq!(server.command, ["npx", "-y", "1.10"]);
    assert_eq!(server.env["PORT"].expose(), "8080");
    assert_eq!(server.env["A_TOKEN"].expose(), "");
    assert_eq!((server.timeout_seconds, server.start_timeout_seconds), (60, 30));
}

#[test]
fn use_rabbitmq_is_the_older_spelling() {
    assert_eq!(read("use_rabbitmq: true").unwrap().queue.backend, QueueBackend::Rabbitmq);
    assert_eq!(read("use_rabbitmq: false").unwrap().queue.backend, QueueBackend::Spool);
}

#[test]
fn addresses_are_brought_to_one_form() {
    let openai = |url: &str| read_with("", &[("OPENAI_BASE_URL", url)]).unwrap().llm.openai.base_url;
    assert_eq!(openai("https://api.example.org/v1/"), "https://api.example.org/v1");
    assert_eq!(openai("localhost:8000/v1"), "http://localhost:8000/v1");
    let lmstudio = |url: &str| read_with("", &[("LMSTUDIO_BASE_URL", url)]).unwrap().llm.lmstudio.base_url;
    assert_eq!(lmstudio("localhost:1234"), "http://localhost:1234/v1");
    assert_eq!(lmstudio("http://10.0.0.2:1234/v1/"), "http://10.0.0.2:1234/v1");
    assert_eq!(read_with("", &[("OLLAMA_ENDPOINT", "gpu:11434/")]).unwrap().llm.ollama.endpoint, "http://gpu:11434");
    assert_eq!(
        read_with("", &[("GITHUB_API_URL", "https://g.example/api/v3/")]).unwrap().github.api_url,
        "https://g.example/api/v3"
    );
}

#[test]
fn sqlite_url_chooses_the_path() {
    for (url, path) in
        [("sqlite:a/tasks.db", "a/tasks.db"), ("sqlite:/var/t.db", "/var/t.db"), ("sqlite:////var/t.db", "/var/t.db")]
    {
        let config = read_with("", &[("DATABASE_URL", url)]).unwrap();
        assert_eq!(config.database.sqlite_path().as_deref(), Some(Path::new(path)), "{url}");
        assert!(config.database.url.is_some());
    }
    assert_eq!(Config::default().database.sqlite_path(), None);
}

// Environment.

type Trace = fn(&Config) -> String;

/// Every variable, a value, and the value's trace in the typed configuration.
#[rustfmt::skip]
fn environment_table() -> Vec<(&'static str, &'static str, Trace, &'static str)> {
    fn secret(value: &Option<Secret>) -> String { value.as_ref().map_or("", Secret::expose).to_owned() }
    fn text(value: &Option<String>) -> String { value.clone().unwrap_or_default() }
    vec![
        ("TASK_SOURCE", "gitlab", |c| c.task_source.name().into(), "gitlab"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_1", |c| secret(&c.github.personal_access_token), "ghp_1"),
        ("GITHUB_API_URL", "https://g.example/api/v3", |c| c.github.api_url.clone(), "https://g.example/api/v3"),
        ("GITHUB_BOT_NAME", "bot", |c| text(&c.github.bot_name), "bot"),
        ("GITLAB_PERSONAL_ACCESS_TOKEN", "glpat-1", |c| secret(&c.gitlab.personal_access_token), "glpat-1"),
        ("GITLAB_API_URL", "https://l.example/api/v4", |c| c.gitlab.api_url.clone(), "https://l.example/api/v4"),
        ("GITLAB_BOT_NAME", "bot", |c| text(&c.gitlab.bot_name), "bot"),
        ("LLM_PROVIDER", "ollama", |c| c.llm.provider.name().into(), "ollama"),
        ("FUNCTION_CALLING", "No", |c| c.llm.function_calling.to_string(), "false"),
        ("OPENAI_API_KEY", "sk-1", |c| secret(&c.llm.openai.api_key), "sk-1"),
        ("OPENAI_BASE_URL", "https://o.example/v1", |c| c.llm.openai.base_url.clone(), "https://o.example/v1"),
        ("OPENAI_MODEL", "gpt", |c| text(&c.llm.openai.model), "gpt"),
        ("OLLAMA_ENDPOINT", "http://gpu:11434", |c| c.llm.ollama.endpoint.clone(), "http://gpu:11434"),
        ("OLLAMA_MODEL", "qwen", |c| text(&c.llm.ollama.model), "qwen"),
        ("LMSTUDIO_BASE_URL", "http://gpu:1234/v1", |c| c.llm.lmstudio.base_url.clone(), "http://gpu:1234/v1"),
        ("LMSTUDIO_MODEL", "qwen", |c| text(&c.llm.lmstudio.model), "qwen"),
        ("DATABASE_URL", "sqlite:x.db", |c| text(&c.database.url), "sqlite:x.db"),
        ("DATABASE_HOST", "db", |c| text(&c.database.host), "db"),
        ("DATABASE_PORT", " 5432 ", |c| format!("{:?}", c.database.port), "Some(5432)"),
        ("DATABASE_NAME", "tasks", |c| text(&c.database.name), "tasks"),
        ("DATABASE_USER", "me", |c| text(&c.database.user), "me"),
        ("DATABASE_PASSWORD", "pw", |c| secret(&c.database.password), "pw"),
        ("RABBITMQ_HOST", "mq", |c| c.rabbitmq.host.clone(), "mq"),
        ("RABBITMQ_PORT", "5673", |c| c.rabbitmq.port.to_string(), "5673"),
        ("RABBITMQ_USER", "me", |c| c.rabbitmq.user.clone(), "me"),
        ("RABBITMQ_PASSWORD", "pw", |c| secret(&c.rabbitmq.password), "pw"),
        ("RABBITMQ_QUEUE", "q", |c| c.rabbitmq.queue.clone(), "q"),
        ("USE_USER_CONFIG_API", "1", |c| c.user_config_api.enabled.to_string(), "true"),
        ("USER_CONFIG_API_URL", "http://u.example", |c| c.user_config_api.url.clone(), "http://u.example"),
        ("USER_CONFIG_API_KEY", "k", |c| secret(&c.user_config_api.api_key), "k"),
        ("COMMAND_EXECUTOR_ENABLED", "0", |c| c.command_executor.enabled.to_string(), "false"),
        ("TEXT_EDITOR_MCP_ENABLED", "FALSE", |c| c.text_editor_mcp.enabled.to_string(), "false"),
        ("ISSUE_TO_MR_ENABLED", "yes", |c| c.issue_to_mr_conversion.enabled.to_string(), "true"),
        ("PROJECT_AGENT_RULES_ENABLED", "True", |c| c.project_agent_rules.enabled.to_string(), "true"),
        ("EXECUTOR_DEFAULT_ENVIRONMENT", "rust", |c| text(&c.command_executor.default_environment), "rust"),
        ("EXECUTOR_BASE_IMAGE", "debian:13", |c| text(&c.command_executor.docker.base_image), "debian:13"),
        ("EXECUTOR_CPU_LIMIT", "1.5", |c| c.command_executor.docker.resources.cpu_limit.to_string(), "1.5"),
        ("EXECUTOR_MEMORY_LIMIT", "512m", |c| c.command_executor.docker.resources.memory_limit.clone(), "512m"),
        ("EXECUTOR_TIMEOUT", "60", |c| c.command_executor.execution.timeout_seconds.to_string(), "60"),
        ("GITHUB_MCP_COMMAND", "npx 'a b' c\\ d \"e\\\"f\"", |c| c.mcp_servers.iter().map(|s| s.command.join("|")).collect(), "npx|a b|c d|e\"f"),
        ("LOGS", "/var/log/a.log", |c| c.logs.display().to_string(), "/var/log/a.log"),
        ("DEBUG", "true", |c| c.debug.to_string(), "true"),
    ]
}

#[test]
fn every_variable_sets_its_key() {
    let table = environment_table();
    let tested: BTreeSet<&str> = table.iter().map(|(name, ..)| *name).collect();
    assert_eq!(tested, variables().map(|(name, _)| name).collect());
    // Switching the user config API on needs its address.
    let yaml = "user_config_api: {url: 'http://other.example'}";
    for (name, value, trace, expected) in table {
        let config = read_with(yaml, &[(name, value)]).unwrap();
        assert_eq!(trace(&config), expected, "{name}");
        assert_ne!(trace(&Config::default()), expected, "{name}");
    }
}

#[test]
fn empty_variables_change_nothing() {
    for (name, value, trace, _) in environment_table() {
        for empty in ["", "  ", "\t\n"] {
            assert_eq!(read_with("", &[(name, empty)]), Ok(Config::default()), "{name}");
        }
        let yaml = "github: {bot_name: file}\ndebug: true\ncommand_executor: {execution: {timeout_seconds: 7}}";
        let file = read(yaml).unwrap();
        assert_eq!(trace(&read_with(yaml, &[(name, " ")]).unwrap()), trace(&file), "{name} {value}");
    }
}

#[test]
fn entries_of_mcp_servers_come_from_the_environment() {
    let yaml = "mcp_servers:\n- {mcp_server_name: a, command: [a], env: {A_TOKEN: file, OTHER: file}}\n";
    let config = read_with(yaml, &[("A_TOKEN", " environment "), ("OTHER", "")]).unwrap();
    assert_eq!(config.mcp_servers[0].env["A_TOKEN"].expose(), "environment");
    assert_eq!(config.mcp_servers[0].env["OTHER"].expose(), "file");
}

#[test]
fn headers_of_mcp_servers_name_variables() {
    let yaml = |header: &str| {
        format!(
            "mcp_servers:\n- {{mcp_server_name: a, url: 'https://x.example', headers: {{Authorization: '{header}'}}}}\n"
        )
    };
    let env = [("A_TOKEN", " t${B} "), ("B", "b"), ("EMPTY", " ")];
    let cases = [("Bearer ${A_TOKEN}", "Bearer t${B}"), ("${B}:${B}", "b:b"), ("$B {B} ${B", "$B {B} ${B"), ("", "")];
    for (header, sent) in cases {
        let config = read_with(yaml(header), &env).unwrap();
        assert_eq!(config.mcp_servers[0].headers["Authorization"].expose(), sent);
    }
    assert!(read_with(yaml("Bearer ${B}"), &env).unwrap().secrets().contains(&"b"), "the token alone is a secret too");
    for (header, variable) in [("Bearer ${C}", "C"), ("${EMPTY}", "EMPTY"), ("${}", "")] {
        let error = read_with(yaml(header), &env).unwrap_err();
        let said = format!("the header `Authorization` of MCP server `a`: `{variable}` is not set");
        assert!(error.contains(&said), "{error}");
    }
    // Nothing is asked of a server that is left out.
    let other = yaml("${C}").replace("name: a", "name: gitlab") + "task_source: local\n";
    assert_eq!(read_with(other, &env).unwrap().mcp_servers, []);
}

#[test]
fn github_mcp_command_changes_or_makes_its_server() {
    let yaml = "mcp_servers:\n- {mcp_server_name: github, url: 'https://x.example', timeout_seconds: 5}\n";
    let config = read_with(yaml, &[("GITHUB_MCP_COMMAND", "server stdio")]).unwrap();
    assert_eq!(config.mcp_servers.len(), 1);
    assert_eq!(config.mcp_servers[0].command, ["server", "stdio"]);
    assert_eq!((config.mcp_servers[0].url.as_deref(), config.mcp_servers[0].timeout_seconds), (None, 5));
    // Nothing to serve: the tasks come from elsewhere.
    let env = [("GITHUB_MCP_COMMAND", "server"), ("TASK_SOURCE", "local")];
    assert_eq!(read_with(yaml, &env).unwrap().mcp_servers, []);
}

#[test]
fn bad_variables_are_named() {
    const FLAG: &str = "allowed: true, false, 1, 0, yes, no";
    let table = [
        ("DEBUG", "maybe", format!("environment variable `DEBUG` is `maybe`; {FLAG}")),
        ("DEBUG", "2", format!("environment variable `DEBUG` is `2`; {FLAG}")),
        ("DEBUG", "\"false\"", format!("environment variable `DEBUG` is `\"false\"`, with quotes that are part of the value; {FLAG}")),
        ("DATABASE_PORT", "\"8080\"", "environment variable `DATABASE_PORT` is `\"8080\"`, with quotes that are part of the value; allowed: a whole number from 1 to 65535".into()),
        ("RABBITMQ_PORT", "x", "environment variable `RABBITMQ_PORT` is `x`; allowed: a whole number from 1 to 65535".into()),
        ("RABBITMQ_PORT", "0", "environment variable `RABBITMQ_PORT`: `rabbitmq.port` is 0; allowed: 1 or more".into()),
        ("RABBITMQ_PORT", "65536", "environment variable `RABBITMQ_PORT` is `65536`; allowed: a whole number from 1 to 65535".into()),
        ("EXECUTOR_TIMEOUT", "10s", "environment variable `EXECUTOR_TIMEOUT` is `10s`; allowed: a whole number of seconds".into()),
        ("EXECUTOR_TIMEOUT", "0", "environment variable `EXECUTOR_TIMEOUT`: `command_executor.execution.timeout_seconds` is 0; allowed: 1 or more".into()),
        ("EXECUTOR_CPU_LIMIT", "two", "environment variable `EXECUTOR_CPU_LIMIT` is `two`; allowed: a number".into()),
        ("EXECUTOR_CPU_LIMIT", "NaN", "environment variable `EXECUTOR_CPU_LIMIT`: `command_executor.docker.resources.cpu_limit` is NaN; allowed: a number above 0".into()),
        ("TASK_SOURCE", "gitea", "environment variable `TASK_SOURCE` is `gitea`; allowed: github, gitlab, local".into()),
        ("LLM_PROVIDER", "'openai'", "environment variable `LLM_PROVIDER` is `'openai'`, with quotes that are part of the value; allowed: openai, ollama, lmstudio, replay".into()),
        ("LLM_PROVIDER", "replay", "config `config.yaml`: `llm.replay.file` is not set, but the LLM provider `replay` reads its replies from there".into()),
        ("GITHUB_MCP_COMMAND", "npx 'a", "environment variable `GITHUB_MCP_COMMAND` has a `'` that is never closed".into()),
        ("GITHUB_MCP_COMMAND", "npx \"a", "environment variable `GITHUB_MCP_COMMAND` has a `\"` that is never closed".into()),
        ("GITHUB_MCP_COMMAND", "npx \\", "environment variable `GITHUB_MCP_COMMAND` ends in a backslash".into()),
        ("GITHUB_MCP_COMMAND", "''", "environment variable `GITHUB_MCP_COMMAND` names no program; allowed: a program and its arguments".into()),
        ("OPENAI_BASE_URL", "api.example.org", "environment variable `OPENAI_BASE_URL`: `llm.openai.base_url` is `api.example.org`; allowed: http:// or https://, a host and a path, without user, ? and #".into()),
        ("GITHUB_API_URL", "g.example:443", "environment variable `GITHUB_API_URL`: `github.api_url` is `g.example:443`; allowed: http:// or https://, a host and a path, without user, ? and #".into()),
        ("DATABASE_URL", "mysql://me:pass@h/db", "environment variable `DATABASE_URL`: `database.url` names no database file; allowed: `sqlite:PATH`, relative to the working directory or absolute".into()),
        ("DATABASE_URL", "sqlite:///tasks.db", "environment variable `DATABASE_URL`: `database.url` names no database file; allowed: `sqlite:PATH`, relative to the working directory or absolute".into()),
    ];
    for (name, value, expected) in table {
        assert_eq!(read_with("", &[(name, value)]), Err(expected), "{name}={value}");
    }
}

// Bad files.

#[test]
fn bad_files_are_refused_with_their_place() {
    let table: &[(&str, &str)] = &[
        ("task_sourse: local", "line 1: unknown key `task_sourse`; did you mean `task_source`"),
        (
            "\nllm:\n  # x\n  openai:\n    model: a\n    base_ur: b",
            "line 6: unknown key `llm.openai.base_ur`; did you mean `llm.openai.base_url`",
        ),
        (
            "queue:\n  colour: red",
            "line 2: unknown key `queue.colour`; allowed: backend, dir, max_attempts, max_consumers",
        ),
        (
            "mcp_servers:\n- mcp_server_name: a\n  comand: [x]",
            "line 3: unknown key `mcp_servers[0].comand`; did you mean `mcp_servers[0].command`",
        ),
        ("queue:\n  dir: a\n  max_attempts: 1\n  max_attempts: 2", "line 4: key `queue.max_attempts` is given twice"),
        (
            "context: {enabled: true}\ncontext_storage: {enabled: true}",
            "line 2: key `context_storage` is given twice (`context` is the same section)",
        ),
        (
            "debug: true\nllm:\n  function_calling: no",
            "line 3: `llm.function_calling` is the text \"no\"; allowed: true, false",
        ),
        (
            "llm:\n  function_calling: \"false\"",
            "line 2: `llm.function_calling` is the text \"false\"; allowed: true, false",
        ),
        ("debug: 0", "line 1: `debug` is `0`; allowed: true, false"),
        (
            "queue: {max_attempts: three}",
            "line 1: `queue.max_attempts` is the text \"three\"; allowed: a whole number from 0 to 4294967295",
        ),
        (
            "queue:\n  max_attempts: 2.5",
            "line 2: `queue.max_attempts` is `2.5`; allowed: a whole number from 0 to 4294967295",
        ),
        (
            "queue:\n  max_attempts: -1",
            "line 2: `queue.max_attempts` is `-1`; allowed: a whole number from 0 to 4294967295",
        ),
        ("queue:\n  max_attempts: 0", "line 2: `queue.max_attempts` is 0; allowed: 1 or more"),
        ("queue:\n  max_consumers: 0", "line 2: `queue.max_consumers` is 0; allowed: 1 or more"),
        ("rabbitmq:\n  port: 70000", "line 2: `rabbitmq.port` is `70000`; allowed: a whole number from 1 to 65535"),
        (
            "rabbitmq:\n  port: \"5672\"",
            "line 2: `rabbitmq.port` is the text \"5672\"; allowed: a whole number from 1 to 65535",
        ),
        ("queue:\n  backend: kafka", "line 2: `queue.backend` is `kafka`; allowed: spool, memory, rabbitmq"),
        ("queue:\n  backend: [spool]", "line 2: `queue.backend` is a list; allowed: spool, memory, rabbitmq"),
        ("language: EN", "line 1: `language` is `EN`; allowed: en, ja"),
        ("llm:\n  openai: sk-secret-value", "line 2: `llm.openai` is text; allowed: a section with keys"),
        ("llm:\n  openai:\n    api_key: [sk-secret-value]", "line 3: `llm.openai.api_key` is a list; allowed: text"),
        ("github:\n  repositories: a/b", "line 2: `github.repositories` is text; allowed: a list"),
        (
            "github:\n  repositories: [a]",
            "line 2: `github.repositories` holds `a`; allowed: `owner/repo` and `owner/*`",
        ),
        ("mcp_servers:\n-\n", "line 1: `mcp_servers[0].mcp_server_name` is empty; allowed: text"),
        (
            "max_llm_process_num: 99999999999999999999",
            "line 1: `max_llm_process_num` is `99999999999999999999`; allowed: a whole number from 0 to 4294967295",
        ),
        (
            "llm:\n  openai:\n    base_url: https://h/v1?key=sk-secret",
            "line 3: `llm.openai.base_url` is no usable address; allowed: http:// or https://, a host and a path, without user, ? and #",
        ),
        ("just text", "line 1: the file is text; allowed: a section with keys"),
        ("- a\n- b", "line 1: the file is a list; allowed: a section with keys"),
        (
            "llm:\n  openai:\n    context_length: 1000",
            "line 3: `llm.openai.context_length` is 1000; allowed: 1024 or more",
        ),
        (
            "context:\n  compression:\n    token_threshold: 0",
            "line 3: `context_storage.compression.token_threshold` is 0; allowed: a number above 0",
        ),
        (
            "local:\n  tasks_dir: \"\"",
            "line 2: `local.tasks_dir` is empty; allowed: text (in quotes where it begins with #), or null for the default",
        ),
        (
            "pull_request:\n  branch_prefix: \"a b/\"",
            "line 2: `pull_request.branch_prefix` is `a b/`; allowed: the begin of a git branch name, such as `coding-agent/`",
        ),
        (
            "pull_request:\n  branch_prefix: /a",
            "line 2: `pull_request.branch_prefix` is `/a`; allowed: the begin of a git branch name, such as `coding-agent/`",
        ),
        (
            "github:\n  done_label: Coding Agent",
            "line 2: `github.done_label` is `Coding Agent`, the same label as `github.bot_label`; allowed: six different labels",
        ),
        ("gitlab:\n  bot_label: a,b", "line 2: `gitlab.bot_label` is `a,b`; allowed: text on one line without a comma"),
        (
            "gitlab:\n  bot_label: \"  \"",
            "line 2: `gitlab.bot_label` is empty; allowed: text (in quotes where it begins with #), or null for the default",
        ),
        (
            "github:\n  api_url: https://me:pass@host",
            "line 2: `github.api_url` is no usable address; allowed: http:// or https://, a host and a path, without user, ? and #",
        ),
        (
            "command_executor:\n  execution:\n    max_processes: 1",
            "line 3: `command_executor.execution.max_processes` is 1; allowed: 8 or more",
        ),
        (
            "command_executor:\n  docker:\n    resources:\n      memory_limit: lots",
            "line 4: `command_executor.docker.resources.memory_limit` is `lots`; allowed: a whole number above 0, with b, k, m or g behind it or nothing",
        ),
        (
            "mcp_servers:\n- mcp_server_name: a",
            "line 2: `mcp_servers[0].command` or `url`: the server `a` needs exactly one of them",
        ),
        (
            "mcp_servers:\n- {mcp_server_name: a, command: [x]}\n- {mcp_server_name: a, command: [x]}",
            "line 3: `mcp_servers[1].mcp_server_name` is `a` a second time; allowed: different names",
        ),
        (
            "mcp_servers:\n- {mcp_server_name: a, command: [x], timeout_seconds: 0}",
            "line 2: `mcp_servers[0].timeout_seconds` is 0; allowed: 1 to 604800 (a week)",
        ),
        (
            "mcp_servers:\n- mcp_server_name: a\n  command: [x]\n  env:\n    A_TOKEN: one\n    A_TOKEN: two",
            "line 6: key `mcp_servers[0].env.A_TOKEN` is given twice",
        ),
        (
            "llm:\n  provider: replay",
            "line 1: `llm.replay.file` is not set, but the LLM provider `replay` reads its replies from there",
        ),
        ("queue: {dir: a", "line 1: not valid YAML: did not find expected ',' or '}'"),
        (
            "debug: true\n---\ndebug: false",
            "not valid YAML: deserializing from YAML containing more than one document is not supported",
        ),
    ];
    for (yaml, expected) in table {
        let colon = if expected.starts_with("line") { "" } else { ":" };
        assert_eq!(refusal(yaml), format!("config `config.yaml`{colon} {expected}"), "{yaml}");
    }
}

#[test]
fn invalid_utf8_is_refused_with_its_line() {
    assert_eq!(refusal(b"debug: true\nlogs: \xff\n"), "config `config.yaml` line 2: not UTF-8 text");
    assert_eq!(refusal(b"\xff\xfed\0e\0"), "config `config.yaml` line 1: not UTF-8 text");
}

// C59.

#[test]
fn c59_hash_is_a_comment_and_the_label_empty() {
    assert_eq!(
        refusal("github:\n  bot_label: #todo\n  query: x"),
        "config `config.yaml` line 2: `github.bot_label` is empty; allowed: text (in quotes where it begins with #), or null for the default"
    );
}

#[test]
fn c59_colon_in_a_label_needs_quotes() {
    assert_eq!(
        refusal("github:\n  bot_label: ai: todo"),
        "config `config.yaml` line 2: not valid YAML: mapping values are not allowed in this context; text that holds a colon and a blank must stand in quotes"
    );
    assert_eq!(read("github:\n  bot_label: 'ai: todo'").unwrap().github.bot_label, "ai: todo");
}

#[test]
fn c59_text_stays_as_it_is_written() {
    for label in ["no", "1.10", "on", "0x10", "1e3", "2024-01-01", "true"] {
        assert_eq!(read(format!("github: {{bot_label: {label}}}")).unwrap().github.bot_label, label);
    }
    // Nor does a layer on top change it.
    assert_eq!(read_with("github: {bot_label: 1.10}", &[("DEBUG", "1")]).unwrap().github.bot_label, "1.10");
}

#[test]
fn c59_file_switches_are_true_or_false() {
    for value in ["no", "\"false\"", "0", "yes", "on"] {
        let message = refusal(format!("pull_request:\n  draft: {value}"));
        assert!(message.starts_with("config `config.yaml` line 2: `pull_request.draft` is "), "{message}");
        assert!(message.ends_with("; allowed: true, false"), "{message}");
    }
}

#[test]
fn c59_repeated_key_is_refused() {
    assert_eq!(
        refusal("max_llm_process_num: 5\ndebug: true\nmax_llm_process_num: 50"),
        "config `config.yaml` line 3: key `max_llm_process_num` is given twice"
    );
}

#[test]
fn c59_tab_as_indent_is_refused() {
    for yaml in ["llm:\n\tprovider: openai", "llm:\n  provider: openai\n\tfunction_calling: true", "logs: a\n\tb"] {
        let line = yaml.lines().count();
        assert_eq!(refusal(yaml), format!("config `config.yaml` line {line}: indented with a tab; allowed: spaces"));
    }
}

#[test]
fn c59_byte_order_mark_is_skipped() {
    assert!(read("\u{feff}debug: true").unwrap().debug);
}

#[test]
fn c59_switches_of_the_environment() {
    for (value, expected) in [
        ("false", false),
        ("False", false),
        ("0", false),
        ("no", false),
        ("", true),
        (" ", true),
        ("TRUE", true),
        ("yes", true),
        ("1", true),
    ] {
        let config = read_with("pull_request: {draft: true}\ndebug: true", &[("DEBUG", value)]).unwrap();
        assert_eq!(config.debug, expected, "{value:?}");
    }
    assert!(read_with("", &[("DEBUG", "\"false\"")]).unwrap_err().contains("quotes that are part of the value"));
}

#[test]
fn c59_numbers_of_the_environment() {
    let port = |value| read_with("", &[("RABBITMQ_PORT", value)]).map(|config| config.rabbitmq.port);
    assert_eq!(port(" 8080"), Ok(8080));
    assert_eq!(port(""), Ok(5672));
    assert!(port("\"8080\"").unwrap_err().contains("quotes that are part of the value"));
}

#[test]
fn c59_wrong_file_never_polls_without_a_label() {
    for label in ["bot_label", "processing_label", "done_label", "failed_label", "paused_label", "stopped_label"] {
        for forge in ["github", "gitlab"] {
            for empty in ["", " #todo", " \"\"", " ' '"] {
                let message = refusal(format!("{forge}:\n  {label}:{empty}\n"));
                assert!(message.contains(&format!("line 2: `{forge}.{label}` is empty")), "{message}");
            }
        }
    }
}

// Secrets.

#[test]
fn secrets_are_listed_and_never_shown() {
    let yaml = "github: {personal_access_token: s1-secret}\ngitlab: {personal_access_token: s2-secret}\n\
        llm: {openai: {api_key: s3-secret}}\nuser_config_api: {api_key: s4-secret}\nrabbitmq: {password: s5-secret}\n\
        database: {password: s6-secret}\nmcp_servers:\n- mcp_server_name: a\n  command: [x]\n  env: {A_TOKEN: s7-secret, \
        my_key: s8-secret, HOME: /not/listed}\n- {mcp_server_name: b, url: 'http://b', headers: {Authorization: Bearer s9-secret}}";
    let config = read(yaml).unwrap();
    let mut secrets = config.secrets();
    secrets.sort_unstable();
    assert_eq!(
        secrets,
        [
            "Bearer s9-secret",
            "s1-secret",
            "s2-secret",
            "s3-secret",
            "s4-secret",
            "s5-secret",
            "s6-secret",
            "s7-secret",
            "s8-secret",
            "s9-secret"
        ]
    );
    let shown = format!("{config:?} {:#?} {}", config, Secret::new("s0-secret"));
    assert!(!shown.contains("-secret") && !shown.contains("/not/listed"), "{shown}");
    assert!(shown.contains("[secret]"));
}

#[test]
fn secrets_of_mcp_servers_are_known_by_name_looks_and_place() {
    let yaml = "mcp_servers:
- mcp_server_name: a
  command: [mcp-remote, 'https://user:pa55-word@db.example/x?mode=ro', 'postgres://tom:hunter2-h2@db/x', '--level=3']
  env: {DB_PASS: no-digits-here, PLACE: a1b2c3d4e5f6, DB: 'redis://:open-sesame@r', NODE_ENV: production, TOOLS: 'repos,issues',
    MODEL: gpt-4o-mini, HOME: /srv/a1b2c3d4e5, REGION: us-east-1, PORT: \"123456789\", DEBUG: \"true\", API: 'https://api.example.com/v1'}
- mcp_server_name: b
  url: 'https://b.example/mcp?api_key=in-the-url&site=x9y8z7w6v5&page=overview#frag'
  headers: {X-Place: q1w2e3r4t5, Accept-Language: en-GB, X-Toolsets: everything}";
    let config = read(yaml).unwrap();
    let mut secrets = config.secrets();
    secrets.sort_unstable();
    let known = [
        ":open-sesame",
        "a1b2c3d4e5f6",
        "hunter2-h2",
        "in-the-url",
        "no-digits-here",
        "open-sesame",
        "pa55-word",
        "q1w2e3r4t5",
        "tom:hunter2-h2",
        "user:pa55-word",
        "x9y8z7w6v5",
    ];
    assert_eq!(secrets, known);
}

// Not built yet.

#[test]
fn smallest_working_configuration_loads() {
    let env = |name: &str| match name {
        "TASK_SOURCE" => Some("local".to_owned()),
        "CONFIG_FILE" => Some(format!("{}/config.yaml", env!("CARGO_MANIFEST_DIR"))),
        _ => None,
    };
    // The shipped file loads as it is; what else is needed, a token and a model, is said at the start.
    let bare = Config::load(None, &env).unwrap();
    assert_eq!((bare.task_source, bare.llm.provider), (TaskSource::Local, Provider::Openai));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DEFAULT_FILE);
    std::fs::write(&path, WORKING).unwrap();
    assert_eq!(Config::load(Some(&path), &nothing).unwrap(), read(WORKING).unwrap());
}

const WORKING: &str = "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl}}\n";

#[test]
fn paths_for_commands_are_absolute_and_not_everything() {
    for path in ["", "/", "//", "/etc", "/etc/", "/home", "/a/../etc", "./a", "~/a", "/proc", "/tmp/"] {
        let error = read(format!("command_executor: {{read_only_paths: ['{path}']}}")).unwrap_err();
        assert!(error.contains("`command_executor.read_only_paths` holds "), "{path}: {error}");
    }
    for path in ["/opt", "/opt/jdk/", "/home/me/.rustup", "/etc/java", "/nix", "/a b"] {
        let config = read(format!("command_executor: {{read_only_paths: ['{path}']}}")).unwrap();
        assert_eq!(config.command_executor.read_only_paths, [path]);
    }
}

#[test]
fn a_memory_limit_is_a_number_of_bytes() {
    for (text, bytes) in [("4g", 4u64 << 30), ("512M", 512 << 20), ("8k", 8192), ("100b", 100), ("7", 7)] {
        let config = read(format!("command_executor: {{docker: {{resources: {{memory_limit: '{text}'}}}}}}")).unwrap();
        assert_eq!(config.command_executor.docker.resources.memory_limit_bytes(), Some(bytes), "{text}");
    }
    for text in ["", "0", "g", "-1g", "+1g", "1t", "1.5g", " 1g", "0g", "1gb", "é"] {
        assert!(
            read(format!("command_executor: {{docker: {{resources: {{memory_limit: '{text}'}}}}}}")).is_err(),
            "{text}"
        );
    }
}

#[test]
fn unbuilt_features_are_refused() {
    let table: &[(&str, &str)] = &[
        ("queue: {backend: rabbitmq}", "queue.backend: rabbitmq"),
        ("use_rabbitmq: true", "queue.backend: rabbitmq"),
        ("continuous: {enabled: true}", "continuous.enabled: true"),
        ("planning: {enabled: true}", "planning.enabled: true"),
        ("issue_to_mr_conversion: {enabled: true}", "issue_to_mr_conversion.enabled: true"),
        ("project_agent_rules: {enabled: true}", "project_agent_rules.enabled: true"),
        ("file_list_context: {enabled: true}", "file_list_context.enabled: true"),
        ("command_executor: {backend: docker}", "command_executor.backend: docker"),
        ("command_executor: {backend: podman}", "command_executor.backend: podman"),
        ("command_executor: {environments: {a: b}}", "command_executor.environments"),
        ("command_executor: {default_environment: a}", "command_executor.default_environment"),
        ("language: ja", "language: ja"),
        ("database: {url: 'postgres://me:hunter2@h/db'}", "database.url: postgres"),
        ("database: {url: 'postgresql+psycopg2://me:hunter2@h/db'}", "database.url: postgres"),
        ("database: {host: h}", "database.host"),
        ("database: {password: hunter2}", "database.password"),
    ];
    for (yaml, setting) in table {
        let error = load(&format!("{WORKING}{yaml}")).unwrap_err();
        assert_eq!(error.kind(), Kind::Host);
        let (key, value) = setting.split_once(": ").unwrap_or((setting, "used"));
        assert!(error.sentence().contains("config.yaml"), "{error}");
        assert!(error.sentence().contains(&format!("`{key}` cannot be {value} in this version yet; ")), "{error}");
        assert!(!error.sentence().contains("hunter2"), "{error}");
    }
    // A value from the environment is blamed on its variable.
    let env = |name: &str| (name == "EXECUTOR_DEFAULT_ENVIRONMENT").then(|| "python".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DEFAULT_FILE);
    std::fs::write(&path, WORKING).unwrap();
    let error = Config::load(Some(&path), &env).unwrap_err();
    assert!(error.sentence().contains("`EXECUTOR_DEFAULT_ENVIRONMENT`"), "{error}");
}

fn load(yaml: &str) -> Result<Config> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DEFAULT_FILE);
    std::fs::write(&path, yaml).unwrap();
    Config::load(Some(&path), &nothing)
}

//! What a configuration cannot mean, key by key, after all layers. Looks at values only: whether a
//! host answers or a directory exists is found out by those who use them.

use std::path::{Component, Path};

use super::{Config, ExecutorBackend, Provider, Resources, url};

/// Nobody waits longer for anything; in seconds.
const LONGEST_SECONDS: u64 = 7 * 24 * 3600;

/// What is wrong with the value of one key.
pub(super) struct Problem {
    /// Dotted key.
    pub(super) key: String,
    /// Goes on after the key: `is 0; allowed: 1 or more`.
    pub(super) text: String,
}

pub(super) type Checked = Result<(), Problem>;

pub(super) fn problem(key: impl Into<String>, text: impl Into<String>) -> Problem {
    Problem { key: key.into(), text: text.into() }
}

fn ensure(holds: bool, key: &str, text: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(problem(key, text())) }
}

/// The first impossible value.
pub(super) fn check(config: &Config) -> Checked {
    executor(config)?;
    numbers(config)?;
    texts(config)?;
    labels("github", &config.github.labels())?;
    labels("gitlab", &config.gitlab.labels())?;
    repositories(config)?;
    addresses(config)?;
    branch_prefix(&config.pull_request.branch_prefix)?;
    memory_limit(&config.command_executor.docker.resources)?;
    read_only_paths(&config.command_executor.read_only_paths)?;
    mcp_servers(config)?;
    database(config)?;
    ensure(config.llm.provider != Provider::Replay || config.llm.replay.file.is_some(), "llm.replay.file", || {
        "is not set, but the LLM provider `replay` reads its replies from there".to_owned()
    })
}

fn executor(c: &Config) -> Checked {
    let on_host = c.command_executor.backend == ExecutorBackend::Host;
    ensure(c.command_executor.network || !on_host, "command_executor.network", || {
        "is false, but `command_executor.backend: host` cannot shut the network off; allowed there: true".into()
    })
}

fn numbers(c: &Config) -> Checked {
    let whole = [
        ("max_llm_process_num", u64::from(c.max_llm_process_num), 1),
        ("workspace.depth", c.workspace.depth.map_or(1, u64::from), 1),
        ("queue.max_attempts", c.queue.max_attempts.into(), 1),
        ("queue.max_consumers", c.queue.max_consumers.into(), 1),
        ("llm.openai.context_length", c.llm.openai.context_length, 1024),
        ("llm.openai.max_output_tokens", c.llm.openai.max_output_tokens.map_or(1, u64::from), 1),
        ("llm.ollama.context_length", c.llm.ollama.context_length, 1024),
        ("llm.lmstudio.context_length", c.llm.lmstudio.context_length, 1024),
        ("llm.replay.context_length", c.llm.replay.context_length, 1024),
        ("command_executor.execution.timeout_seconds", c.command_executor.execution.timeout_seconds, 1),
        ("command_executor.execution.max_output_size", c.command_executor.execution.max_output_size, 1),
        ("command_executor.execution.max_processes", c.command_executor.execution.max_processes, 8),
        ("context_storage.cleanup_days", c.context_storage.cleanup_days.into(), 1),
        ("context_storage.compression.keep_recent", c.context_storage.compression.keep_recent.into(), 1),
        ("context_storage.compression.min_to_compress", c.context_storage.compression.min_to_compress.into(), 1),
        ("context_storage.inheritance.max_summary_tokens", c.context_storage.inheritance.max_summary_tokens.into(), 1),
        ("planning.max_subtasks", c.planning.max_subtasks.into(), 1),
        ("continuous.producer.interval_minutes", c.continuous.producer.interval_minutes.into(), 1),
        ("continuous.consumer.queue_timeout_seconds", c.continuous.consumer.queue_timeout_seconds.into(), 1),
        ("rabbitmq.port", c.rabbitmq.port.into(), 1),
        ("database.port", c.database.port.map_or(1, u64::from), 1),
    ];
    for (key, found, least) in whole {
        ensure(found >= least, key, || format!("is {found}; allowed: {least} or more"))?;
    }
    let seconds = [
        ("llm.openai.timeout_seconds", c.llm.openai.timeout_seconds),
        ("llm.ollama.timeout_seconds", c.llm.ollama.timeout_seconds),
        ("llm.lmstudio.timeout_seconds", c.llm.lmstudio.timeout_seconds),
        ("command_executor.execution.timeout_seconds", c.command_executor.execution.timeout_seconds),
    ];
    for (key, found) in seconds {
        ensure(found <= LONGEST_SECONDS, key, || format!("is {found}; allowed: {LONGEST_SECONDS} (a week) or less"))?;
    }
    let above_zero = [
        ("command_executor.docker.resources.cpu_limit", c.command_executor.docker.resources.cpu_limit),
        ("context_storage.compression.token_threshold", c.context_storage.compression.token_threshold),
    ];
    for (key, found) in above_zero {
        ensure(found.is_finite() && found > 0.0, key, || format!("is {found}; allowed: a number above 0"))?;
    }
    Ok(())
}

fn texts(c: &Config) -> Checked {
    let texts = [
        ("github.api_url", c.github.api_url.as_str()),
        ("gitlab.api_url", &c.gitlab.api_url),
        ("workspace.author_name", &c.workspace.author_name),
        ("workspace.author_email", &c.workspace.author_email),
        ("pull_request.branch_prefix", &c.pull_request.branch_prefix),
        ("llm.openai.base_url", &c.llm.openai.base_url),
        ("llm.ollama.endpoint", &c.llm.ollama.endpoint),
        ("llm.lmstudio.base_url", &c.llm.lmstudio.base_url),
        ("rabbitmq.host", &c.rabbitmq.host),
        ("rabbitmq.user", &c.rabbitmq.user),
        ("rabbitmq.queue", &c.rabbitmq.queue),
    ];
    let paths = [
        ("logs", &c.logs),
        ("local.tasks_dir", &c.local.tasks_dir),
        ("workspace.dir", &c.workspace.dir),
        ("queue.dir", &c.queue.dir),
        ("context_storage.base_dir", &c.context_storage.base_dir),
        ("pause_resume.signal_file", &c.pause_resume.signal_file),
    ];
    for (key, text) in texts {
        filled(key, text)?;
    }
    for (key, path) in paths {
        filled(key, path_text(path))?;
    }
    // git cuts these silently or refuses the commit.
    let author =
        [("workspace.author_name", &c.workspace.author_name), ("workspace.author_email", &c.workspace.author_email)];
    for (key, text) in author {
        ensure(!text.contains(|char: char| "<>".contains(char) || char.is_control()), key, || {
            format!("is `{}`; allowed: text on one line without < and >", text.escape_debug())
        })?;
    }
    Ok(())
}

fn path_text(path: &Path) -> &str {
    // A path that is no UTF-8 is at least not blank.
    path.to_str().unwrap_or("?")
}

fn filled(key: &str, text: &str) -> Checked {
    ensure(!text.trim().is_empty(), key, || {
        "is empty; allowed: text (in quotes where it begins with #), or null for the default".to_owned()
    })
}

fn labels(forge: &str, labels: &[(&str, &str); 6]) -> Checked {
    let same = |a: &str, b: &str| a.trim().to_lowercase() == b.trim().to_lowercase();
    for (index, (key, label)) in labels.iter().enumerate() {
        let key = format!("{forge}.{key}");
        filled(&key, label)?;
        // Both APIs take lists of labels with commas between them.
        ensure(!label.contains(|char: char| char == ',' || char.is_control()), &key, || {
            format!("is `{}`; allowed: text on one line without a comma", label.escape_debug())
        })?;
        if let Some((other, _)) = labels[..index].iter().find(|(_, earlier)| same(earlier, label)) {
            return Err(problem(
                key,
                format!("is `{label}`, the same label as `{forge}.{other}`; allowed: six different labels"),
            ));
        }
    }
    Ok(())
}

fn repositories(c: &Config) -> Checked {
    let clean = |entry: &str| {
        !entry.contains(char::is_whitespace)
            && entry.split('/').all(|part| !part.is_empty() && (part == "*" || !part.contains('*')))
            && !entry.trim_end_matches("/*").contains('*')
    };
    for entry in &c.github.repositories {
        ensure(clean(entry) && entry.matches('/').count() == 1, "github.repositories", || {
            format!("holds `{entry}`; allowed: `owner/repo` and `owner/*`")
        })?;
    }
    for entry in &c.gitlab.repositories {
        ensure(clean(entry), "gitlab.repositories", || {
            format!("holds `{entry}`; allowed: paths of projects and groups, and `group/*`")
        })?;
    }
    Ok(())
}

fn addresses(c: &Config) -> Checked {
    let always = [
        ("github.api_url", &c.github.api_url),
        ("gitlab.api_url", &c.gitlab.api_url),
        ("llm.openai.base_url", &c.llm.openai.base_url),
        ("llm.ollama.endpoint", &c.llm.ollama.endpoint),
        ("llm.lmstudio.base_url", &c.llm.lmstudio.base_url),
    ];
    for (key, address) in always {
        root(key, address)?;
    }
    let api = &c.user_config_api;
    ensure(!api.enabled || !api.url.trim().is_empty(), "user_config_api.url", || {
        "is not set, but `user_config_api.enabled` is true; allowed: the address of the API".to_owned()
    })?;
    if !api.url.trim().is_empty() { root("user_config_api.url", &api.url) } else { Ok(()) }
}

fn root(key: &str, address: &str) -> Checked {
    ensure(url::is_root(address), key, || {
        // What stands before an @ or behind a ? may be a password.
        let found = if address.contains(['@', '?']) {
            "no usable address".to_owned()
        } else {
            format!("`{}`", address.escape_debug())
        };
        format!("is {found}; allowed: http:// or https://, a host and a path, without user, ? and #")
    })
}

fn branch_prefix(prefix: &str) -> Checked {
    let bad_char = |char: char| char.is_whitespace() || char.is_control() || "~^:?*[\\".contains(char);
    let bad_part = |part: &str| part.starts_with('.') || part.ends_with(".lock") || part.ends_with('.');
    let parts = prefix.strip_suffix('/').unwrap_or(prefix);
    let plausible = !prefix.contains(bad_char)
        && !prefix.contains("..")
        && !prefix.contains("@{")
        && !prefix.starts_with(['-', '@'])
        && parts.split('/').all(|part| !part.is_empty() && !bad_part(part));
    ensure(plausible, "pull_request.branch_prefix", || {
        format!("is `{}`; allowed: the begin of a git branch name, such as `coding-agent/`", prefix.escape_debug())
    })
}

fn memory_limit(resources: &Resources) -> Checked {
    ensure(resources.memory_limit_bytes().is_some(), "command_executor.docker.resources.memory_limit", || {
        let limit = &resources.memory_limit;
        format!("is `{limit}`; allowed: a whole number above 0, with b, k, m or g behind it or nothing")
    })
}

fn read_only_paths(paths: &[String]) -> Checked {
    // These hold what the sandbox is there to hide, or are its own.
    const TOO_MUCH: [&str; 10] = ["/", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var"];
    for path in paths {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let tidy = path.trim_end_matches('/');
        let fits = plain && path.starts_with('/') && !TOO_MUCH.contains(&if tidy.is_empty() { "/" } else { tidy });
        ensure(fits, "command_executor.read_only_paths", || {
            let path = path.escape_debug();
            format!("holds `{path}`; allowed: absolute paths without `..`, but not {}", TOO_MUCH.join(", "))
        })?;
    }
    Ok(())
}

fn mcp_servers(c: &Config) -> Checked {
    for (index, server) in c.mcp_servers.iter().enumerate() {
        let key = |key: &str| format!("mcp_servers[{index}].{key}");
        let name = &server.mcp_server_name;
        let present = |part: &str, text: &str| {
            ensure(!text.trim().is_empty(), &key(part), || "is empty; allowed: text".to_owned())
        };
        present("mcp_server_name", name)?;
        if c.mcp_servers[..index].iter().any(|earlier| earlier.mcp_server_name == *name) {
            return Err(problem(
                key("mcp_server_name"),
                format!("is `{name}` a second time; allowed: different names"),
            ));
        }
        let program = server.command.first().map(String::as_str);
        match (program, &server.url) {
            (Some(program), None) => present("command", program)?,
            (None, Some(url)) => ensure(url::is_http(url), &key("url"), || {
                "is no usable address; allowed: http:// or https://, a host and a path, without user".to_owned()
            })?,
            _ => {
                return Err(problem(
                    key("command"),
                    format!("or `url`: the server `{name}` needs exactly one of them"),
                ));
            }
        }
        for (part, found) in
            [("timeout_seconds", server.timeout_seconds), ("start_timeout_seconds", server.start_timeout_seconds)]
        {
            ensure((1..=LONGEST_SECONDS).contains(&found), &key(part), || {
                format!("is {found}; allowed: 1 to {LONGEST_SECONDS} (a week)")
            })?;
        }
    }
    Ok(())
}

fn database(c: &Config) -> Checked {
    let Some(url) = &c.database.url else { return Ok(()) };
    let is_postgres = super::unbuilt::is_postgres(url);
    // The URL is not shown: it may hold a password.
    ensure(is_postgres || c.database.sqlite_path().is_some(), "database.url", || {
        "names no database file; allowed: `sqlite:PATH`, relative to the working directory or absolute".to_owned()
    })
}

//! What the configuration can ask for and this version cannot do yet. Whoever builds one of these
//! deletes its line here. Nothing that is asked for is silently left out.

use super::check::{Checked, problem};
use super::{Config, ExecutorBackend, Language, QueueBackend};

/// The setting as people write it, whether it is asked for, and what to do instead.
type Unbuilt = (&'static str, fn(&Config) -> bool, &'static str);

const SQLITE: &str =
    "tasks are kept in SQLite: set `database.url: sqlite:PATH` or leave the section and DATABASE_* out";

#[rustfmt::skip]
const UNBUILT: &[Unbuilt] = &[
    ("queue.backend: rabbitmq", |c| c.queue.backend == QueueBackend::Rabbitmq, "set `queue.backend: spool` and leave `use_rabbitmq` out"),
    ("continuous.enabled: true", |c| c.continuous.enabled, "set it to false and let a timer start the agent"),
    ("planning.enabled: true", |c| c.planning.enabled, "set it to false"),
    ("issue_to_mr_conversion.enabled: true", |c| c.issue_to_mr_conversion.enabled, "set it to false"),
    ("project_agent_rules.enabled: true", |c| c.project_agent_rules.enabled, "set it to false"),
    ("file_list_context.enabled: true", |c| c.file_list_context.enabled, "set it to false"),
    ("command_executor.backend: docker", |c| c.command_executor.backend == ExecutorBackend::Docker, "set it to auto"),
    ("command_executor.backend: podman", |c| c.command_executor.backend == ExecutorBackend::Podman, "set it to auto"),
    ("command_executor.environments", |c| !c.command_executor.environments.is_empty(), "leave it empty"),
    ("command_executor.default_environment", |c| c.command_executor.default_environment.is_some(), "leave it out"),
    ("language: ja", |c| c.language == Language::Ja, "set `language: en`"),
    ("database.url: postgres", |c| c.database.url.as_deref().is_some_and(is_postgres), SQLITE),
    ("database.host", |c| c.database.host.is_some(), SQLITE),
    ("database.port", |c| c.database.port.is_some(), SQLITE),
    ("database.name", |c| c.database.name.is_some(), SQLITE),
    ("database.user", |c| c.database.user.is_some(), SQLITE),
    ("database.password", |c| c.database.password.is_some(), SQLITE),
];

/// The first setting that asks for what this version cannot do yet, with what to do instead.
pub(super) fn check(config: &Config) -> Checked {
    match UNBUILT.iter().find(|(_, is_asked, _)| is_asked(config)) {
        None => Ok(()),
        Some((setting, _, instead)) => {
            let (key, value) = setting.split_once(": ").unwrap_or((setting, "used"));
            Err(problem(key, format!("cannot be {value} in this version yet; {instead}")))
        }
    }
}

/// Whether `url` names a PostgreSQL server.
pub(super) fn is_postgres(url: &str) -> bool {
    let scheme = url.split(':').next().unwrap_or_default();
    // SQLAlchemy's `postgresql+psycopg2:` is what the earlier program wanted.
    let scheme = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
    scheme == "postgres" || scheme == "postgresql"
}

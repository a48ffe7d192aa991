//! This machine: configuration, directories, queue, database, git, sandbox.

use std::path::{Path, PathBuf};

use crate::commands::sandbox;
use crate::commands::setup::Setup;
use crate::config::{Config, DEFAULT_FILE, ExecutorBackend, Lookup, QueueBackend, TaskSource};
use crate::context::TaskDbView;
use crate::error::Result;
use crate::ports::{Finding, FindingState};
use crate::prompts::Prompts;
use crate::queue::State;
use crate::sys::file_system::{self, FileSystem};
use crate::sys::http::certificate_bundle;
use crate::sys::{file, lock};
use crate::workspace;

const SPOOL: &str = "spool directory";
const CONTEXTS: &str = "contexts directory";
/// With less room a clone may not fit.
const LITTLE_ROOM_BYTES: u64 = 1 << 30;
/// With less room nothing can be written down.
const NO_ROOM_BYTES: u64 = 50 << 20;

pub fn configuration(loaded: &Result<Config>, path: Option<&Path>, env: Lookup<'_>) -> Finding {
    const NAME: &str = "configuration";
    let file = Config::file_in_use(path, env);
    let config = match loaded {
        Ok(config) => config,
        Err(error) => {
            let finding =
                Finding::of(NAME, FindingState::Bad, error, "mend it; config.yaml as shipped shows every key");
            let told = if file.is_none() { format!("{}; {}", finding.finding, no_file()) } else { finding.finding };
            return Finding { finding: told, ..finding };
        }
    };
    let file = file.map_or_else(no_file, |file| format!("`{}`", file.display()));
    let (source, provider) = (config.task_source.name(), config.llm.provider.name());
    Finding::good(NAME, format!("{file}; tasks from {source}, model of {provider}"))
}

/// Where a file was looked for in vain.
fn no_file() -> String {
    let dir = std::env::current_dir().unwrap_or_default();
    format!("no `{DEFAULT_FILE}` in `{}`, the environment alone", dir.display())
}

/// Only where some are replaced.
pub fn prompts(loaded: &Result<Prompts>, config: &Config) -> Option<Finding> {
    let dir = config.prompts_dir.as_ref()?;
    Some(match loaded {
        Ok(_) => Finding::good("prompts", format!("those in `{}` can be used", dir.display())),
        Err(error) => {
            Finding::of("prompts", FindingState::Bad, error, "mend it, or take it away: then the built-in one counts")
        }
    })
}

/// Only where there are some of one's own.
pub fn certificates(config: &Config) -> Option<Finding> {
    let file = config.ca_file.as_ref()?;
    Some(match certificate_bundle(file) {
        Ok(_) => Finding::good("certificates", format!("those in `{}` can be used", file.display())),
        Err(error) => Finding::of("certificates", FindingState::Bad, &error, "name a file in PEM form in ca_file"),
    })
}

pub fn directories(config: &Config) -> impl Iterator<Item = Finding> {
    let (is_local, tasks_dir) = (config.task_source == TaskSource::Local, config.local.tasks_dir.clone());
    let log = config.logs.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    [
        (SPOOL, config.queue.dir.clone()),
        (CONTEXTS, config.context_storage.base_dir.clone()),
        ("workspaces directory", config.workspace.dir.clone()),
        ("log directory", log.to_path_buf()),
    ]
    .into_iter()
    // Who makes issue files makes their directory.
    .chain((is_local && tasks_dir.is_dir()).then_some(("tasks directory", tasks_dir)))
    .map(|(name, dir)| directory(name, &dir))
}

/// Where it is not there yet, what will hold it is looked at.
fn directory(name: &str, dir: &Path) -> Finding {
    let there = file_system::nearest_existing(dir);
    let looked = file_system::look_at(&there).and_then(|found| file_system::try_out(&there).map(|()| found));
    let FileSystem { remote, is_in_memory, free_bytes } = match looked {
        Ok(found) => found,
        Err(error) => {
            let remedy = "let the user of the agent write there (chown), or name a directory of a local file system";
            return Finding::of(name, FindingState::Bad, &error, remedy);
        }
    };
    let place = if dir.is_dir() { "there" } else { "not there yet, will be made" };
    let memory = if is_in_memory { ", in memory: gone after a restart of the machine" } else { "" };
    let finding = format!("`{}` ({place}): {} free{memory}", dir.display(), amount(free_bytes));
    match remote {
        Some(kind) => Finding::warning(
            name,
            format!("{finding}; it lies on {kind}, where locks and renames may not hold"),
            "name a directory of a local file system",
        ),
        None if free_bytes < NO_ROOM_BYTES => Finding::bad(name, finding, "make room"),
        None if is_in_memory && matches!(name, SPOOL | CONTEXTS) => Finding::warning(
            name,
            format!("{finding}, with every task that waits or is in work"),
            "name a directory on a disk",
        ),
        None if free_bytes < LITTLE_ROOM_BYTES => Finding::warning(name, finding, "make room: clones are made there"),
        None => Finding::good(name, finding),
    }
}

fn amount(bytes: u64) -> String {
    if bytes < 10 << 30 { format!("{} MiB", bytes >> 20) } else { format!("{} GiB", bytes >> 30) }
}

/// What waits, and who is at it. Nothing is locked for looking.
pub fn queue(config: &Config) -> Option<Finding> {
    if config.queue.backend != QueueBackend::Spool {
        return None;
    }
    let dir = &config.queue.dir;
    let listed: Result<Vec<_>> =
        State::ALL.into_iter().map(|state| Ok((state, file::names(&dir.join(state.directory()))?.len()))).collect();
    let Ok(listed) = listed else {
        return Some(Finding::skipped("queue", "the spool directory cannot be read"));
    };
    let count = |wanted: State| listed.iter().find(|(state, _)| *state == wanted).map_or(0, |(_, count)| *count);
    let states = [(State::Queue, "wait"), (State::Running, "are in work"), (State::Deferred, "are put off")];
    let mut parts: Vec<String> = states.map(|(state, what)| format!("{} {what}", count(state))).into();
    let at_it = |name: &str| match lock::holder(&dir.join(name))? {
        0 => Some("a process of another container".to_owned()),
        process => Some(format!("process {process}")),
    };
    parts.extend(at_it("producer.lock").map(|who| format!("a producer is at work ({who})")));
    let consumers = (0..config.queue.max_consumers).filter_map(|slot| at_it(&format!("consumer-{slot}.lock")));
    parts.extend(consumers.map(|who| format!("a consumer is at work ({who})")));
    let finding = parts.join(", ");
    Some(match count(State::Corrupt) {
        0 => Finding::good("queue", finding),
        corrupt => Finding::warning(
            "queue",
            format!("{finding}, {corrupt} cannot be read"),
            format!("look at the files in `{}`", dir.join(State::Corrupt.directory()).display()),
        ),
    })
}

/// Only while it is up.
pub fn pause_signal(setup: &Setup) -> Option<Finding> {
    let path = setup.pause_signal().filter(|path| path.exists())?;
    let finding = format!("it is up: nothing is done while `{}` exists", path.display());
    Some(Finding::warning("pause signal", finding, "remove that file when work should go on"))
}

/// Only where it cannot be read: it is an index, and made by the first task.
pub fn database(config: &Config) -> Option<Finding> {
    let path: PathBuf = config.database_path();
    let view = TaskDbView::open(&path);
    let problem = view.problem()?;
    let remedy = "`coding-agent gc --rebuild-db` makes it again";
    Some(Finding::warning("database", format!("`{}` cannot be read: {problem}", path.display()), remedy))
}

pub fn git(setup: &Setup) -> Finding {
    match workspace::check_installed(&setup.workspace_settings_alone()) {
        Ok(version) => Finding::good("git", version),
        Err(error) => Finding::of("git", FindingState::Bad, &error, "see whether `git --version` works for this user"),
    }
}

pub fn sandbox(config: &Config) -> Finding {
    const NAME: &str = "sandbox";
    let executor = &config.command_executor;
    if !executor.enabled {
        return Finding::good(NAME, "not needed: command_executor.enabled is false, the model gets no commands");
    }
    if executor.backend == ExecutorBackend::Host {
        return Finding::good(NAME, "none: commands of the model may do what this user may (backend is host)");
    }
    let network = if executor.network { "with" } else { "without" };
    match sandbox::find(config) {
        Ok(_) => {
            let works = format!("bubblewrap works; commands run {network} the network");
            match sandbox::read_only_paths(config).1.as_slice() {
                [] => Finding::good(NAME, works),
                unseen => Finding::warning(
                    NAME,
                    format!("{works}; {}", unseen.join("; ")),
                    "name another path there, or take it out; what does not exist is left out",
                ),
            }
        }
        Err(error) => {
            let is_needed = executor.required || executor.backend == ExecutorBackend::Bubblewrap;
            let finding = Finding::of(NAME, FindingState::Bad, &error, "see the section Commands of the README");
            if is_needed {
                return finding;
            }
            let told = format!("{}; the model gets no commands", finding.finding);
            Finding { state: FindingState::Warning, finding: told, ..finding }
        }
    }
}

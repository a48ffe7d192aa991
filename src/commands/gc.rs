//! `gc`: removes what nobody needs any more after `cleanup_days`, and keeps the database small. Runs
//! by itself at the end of a pass, at most once a day. Never touches a task that is not finished.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::context::{Contexts, Place, TaskDb};
use crate::error::{Exit, Result};
use crate::queue::{EntryName, State};
use crate::sys::file::{self, Sync};
use crate::sys::{clock, lock, tree};
use crate::task::TaskId;
use crate::text::counted;

const DAY_MS: u64 = 24 * 3_600_000;
/// Model calls older than this leave the database; their days are nobody's question any more.
const CALLS_KEPT_DAYS: u64 = 400;
/// Written at each run; its age says when the next is due.
const STAMP: &str = "gc.stamp";

/// What to do besides removing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcOptions {
    /// Only say what would be removed.
    pub dry_run: bool,
    /// Make the rows of the database again from the directories.
    pub rebuild_db: bool,
}

/// What was removed, or would be.
#[derive(Debug, Default)]
pub struct GcReport {
    removed: Vec<(&'static str, PathBuf, u64)>,
    kept_by_refusal: Vec<String>,
    calls: u64,
    rebuilt: Option<u64>,
    vacuumed: bool,
    is_damaged: bool,
}

/// Removes what is old. `None` when another run is at it.
pub fn gc(config: &Config, options: GcOptions) -> Result<Option<GcReport>> {
    let contexts = Contexts::new(&config.context_storage.base_dir, Sync::Later, true);
    if !contexts.base_dir().is_dir() {
        return Ok(Some(GcReport::default()));
    }
    lock::exclusively(&contexts.base_dir().join("gc.lock"), || {
        let queued = queued(&config.queue.dir)?;
        let mut run = Run { config, contexts: &contexts, queued, options, report: GcReport::default() };
        run.contexts()?;
        run.workspaces()?;
        run.given_up()?;
        run.database();
        if !options.dry_run {
            file::replace(&contexts.base_dir().join(STAMP), clock::now_rfc3339().as_bytes())?;
        }
        Ok(run.report)
    })
}

/// The run at the end of a pass: once a day, and its trouble is a line in the log.
pub fn gc_when_due(config: &Config) {
    let stamp = config.context_storage.base_dir.join(STAMP);
    if !config.context_storage.base_dir.is_dir() {
        return;
    }
    if file::age_ms(&stamp).is_some_and(|age_ms| age_ms < DAY_MS) {
        return;
    }
    match gc(config, GcOptions { dry_run: false, rebuild_db: false }) {
        Ok(Some(report)) => report.text(false).lines().for_each(|line| log::info!("gc: {line}")),
        Ok(None) => {}
        Err(error) => log::warn!("gc: {error:#}"),
    }
}

struct Run<'a> {
    config: &'a Config,
    contexts: &'a Contexts,
    /// Tasks that wait or run.
    queued: HashSet<TaskId>,
    options: GcOptions,
    report: GcReport,
}

impl Run<'_> {
    fn limit_ms(&self) -> u64 {
        u64::from(self.config.context_storage.cleanup_days) * DAY_MS
    }

    fn is_old(&self, idle_ms: Option<u64>) -> bool {
        idle_ms.is_some_and(|idle_ms| idle_ms > self.limit_ms())
    }

    /// Finished contexts. One that still has an entry stays: without it the task would be done again.
    fn contexts(&mut self) -> Result<()> {
        let dir = self.contexts.base_dir().join("completed");
        for (uuid, path) in tasks_in(&dir)? {
            if !self.queued.contains(&uuid) && self.is_old(tree::idle_ms(&path)) {
                self.remove("finished context", path, file::remove_dir);
            }
        }
        Ok(())
    }

    /// Workspaces of tasks that are over: kept ones, and what a crash left.
    fn workspaces(&mut self) -> Result<()> {
        for (uuid, path) in tasks_in(&self.config.workspace.dir)? {
            let in_work = matches!(self.contexts.find(uuid), Place::Running | Place::Paused);
            if !in_work && !self.queued.contains(&uuid) && self.is_old(tree::idle_ms(&path)) {
                self.remove("workspace", path, file::remove_dir);
            }
        }
        Ok(())
    }

    fn given_up(&mut self) -> Result<()> {
        let dir = self.config.queue.dir.join(State::GaveUp.directory());
        for name in file::names(&dir)? {
            let path = dir.join(&name);
            if EntryName::parse(&name).is_some() && self.is_old(file::age_ms(&path)) {
                self.remove("given up entry", path, file::remove);
            }
        }
        Ok(())
    }

    fn database(&mut self) {
        let path = self.config.database_path();
        if self.options.dry_run || !(path.exists() || self.options.rebuild_db) {
            return;
        }
        let mut db = if self.options.rebuild_db {
            let mut db = TaskDb::open_or_replace(&path);
            self.report.rebuilt = Some(self.contexts.rebuild_db(&mut db));
            db
        } else if let Some(db) = TaskDb::open_sound(&path) {
            db
        } else {
            self.report.is_damaged = true;
            return;
        };
        let before = clock::rfc3339(clock::now_ms().saturating_sub(CALLS_KEPT_DAYS * DAY_MS));
        self.report.calls = db.forget_calls_before(&before);
        self.report.vacuumed = db.vacuum();
    }

    /// One that cannot be removed must not keep the others.
    fn remove(&mut self, what: &'static str, path: PathBuf, remove: fn(&Path) -> Result<()>) {
        let bytes = tree::size_bytes(&path);
        let removed = if self.options.dry_run { Ok(()) } else { remove(&path) };
        match removed {
            Ok(()) => self.report.removed.push((what, path, bytes)),
            Err(error) => self.report.kept_by_refusal.push(format!("{error:#}")),
        }
    }
}

/// The tasks that have an entry. By name alone: looking into an entry would lock it for a moment.
fn queued(spool: &Path) -> Result<HashSet<TaskId>> {
    let mut queued = HashSet::new();
    for state in [State::Queue, State::Running, State::Deferred] {
        let names = file::names(&spool.join(state.directory()))?;
        queued.extend(names.iter().filter_map(|name| Some(EntryName::parse(name)?.uuid)));
    }
    Ok(queued)
}

/// Directories named after a task; others are not ours to remove.
fn tasks_in(dir: &Path) -> Result<Vec<(TaskId, PathBuf)>> {
    let named = file::names(dir)?.into_iter().filter_map(|name| Some((name.parse().ok()?, dir.join(name))));
    Ok(named.filter(|(_, path)| path.is_dir() && !path.is_symlink()).collect())
}

impl GcReport {
    /// What the run means for the exit code.
    pub fn exit(&self) -> Exit {
        if self.kept_by_refusal.is_empty() { Exit::Done } else { Exit::Host }
    }

    /// For people: a line for each thing and a sum.
    pub fn text(&self, dry_run: bool) -> String {
        let verb = if dry_run { "would remove" } else { "removed" };
        let mut lines: Vec<String> = Vec::new();
        for (what, path, bytes) in &self.removed {
            lines.push(format!("{verb} the {what} `{}` ({})", path.display(), amount(*bytes)));
        }
        lines.extend(self.kept_by_refusal.iter().cloned());
        let bytes: u64 = self.removed.iter().map(|(_, _, bytes)| bytes).sum();
        lines.push(match self.removed.len() {
            0 => "nothing is old enough to be removed".to_owned(),
            count => format!("{verb} {}, {}", counted(count as u64, "thing"), amount(bytes)),
        });
        if let Some(tasks) = self.rebuilt {
            lines.push(format!("made the database's rows of {} again", counted(tasks, "task")));
        }
        if self.calls > 0 {
            lines.push(format!(
                "removed {} model calls older than {CALLS_KEPT_DAYS} days from the database",
                self.calls
            ));
        }
        if self.is_damaged {
            lines.push("the database is damaged; `coding-agent gc --rebuild-db` makes it again".to_owned());
        }
        if self.vacuumed {
            lines.push("compacted the database".to_owned());
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn amount(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

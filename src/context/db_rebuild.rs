//! Making the rows of `tasks.db` again from the context directories, for a database that was lost or
//! is damaged. The directories may be damaged too, or of this program's predecessor: what cannot be
//! read is left out. Rows of tasks whose directories are gone stay as they are.

use std::path::{Path, PathBuf};

use rusqlite::params;

use super::loose_lines::LooseLines;
use super::transcript_entry::{Entry, Spoken};
use super::{Contexts, Statistics, TaskDb, TaskRecord, Transcript};
use crate::chat::Usage;
use crate::sys::{clock, file};
use crate::task::OutcomeKind;

/// All that a directory tells for the database.
struct Rows {
    record: TaskRecord,
    status: String,
    statistics: Statistics,
    /// When the last thing in it happened (RFC 3339, UTC).
    ended_at: Option<String>,
    calls: Vec<ModelCall>,
}

struct ModelCall {
    at: String,
    phase: &'static str,
    usage: Usage,
}

impl Contexts {
    /// Makes the rows of every directory again; how many tasks that were.
    pub fn rebuild_db(&self, db: &mut TaskDb) -> u64 {
        let mut tasks = 0;
        for place in ["running", "paused", "completed"] {
            let dir = self.base_dir().join(place);
            for name in file::names(&dir).unwrap_or_default() {
                let dir = dir.join(name);
                if dir.is_dir() {
                    db.restore(&read(&dir, place));
                    tasks += 1;
                }
            }
        }
        tasks
    }
}

fn read(dir: &Path, place: &str) -> Rows {
    let record = TaskRecord::read(dir);
    let decided = record.ending.as_ref().and_then(|ending| OutcomeKind::parse(&ending.outcome));
    let status = match (place, decided) {
        ("completed", Some(kind)) => kind.status(),
        (place, _) => place,
    };
    let mut rows = Rows {
        status: status.to_owned(),
        statistics: Statistics::default(),
        ended_at: None,
        calls: Vec::new(),
        record,
    };
    for entry in Transcript::open(dir) {
        rows.count(entry);
    }
    for line in LooseLines::open(dir, "current.jsonl").flatten() {
        rows.statistics.final_message_count += 1;
        rows.statistics.final_token_count += Spoken::of(&line).estimated_tokens();
    }
    rows
}

impl Rows {
    fn count(&mut self, entry: Entry) {
        let time = |at: Option<&String>| at.and_then(|at| clock::parse_time_loosely(at)).map(clock::rfc3339);
        match entry {
            Entry::Message(message) => {
                self.statistics.total_messages += 1;
                self.statistics.total_tool_calls += u64::from(message.record.is_some());
                if let Some(at) = time(message.at.as_ref()) {
                    self.calls.extend(message.usage.map(|usage| ModelCall { at: at.clone(), phase: "loop", usage }));
                    self.ended_at = Some(at);
                }
            }
            Entry::Call(_) => self.statistics.total_tool_calls += 1,
            Entry::Summary(summary) => {
                self.statistics.total_summaries += 1;
                let call = time(summary.at.as_ref()).zip(summary.usage);
                self.calls.extend(call.map(|(at, usage)| ModelCall { at, phase: "summary", usage }));
            }
            Entry::Plan(_) | Entry::Damage(_) => {}
        }
    }
}

impl TaskDb {
    /// Opens a database that is whole; `None` where it is not. Says nothing: a run has said it before.
    pub fn open_sound(path: &Path) -> Option<Self> {
        Self::open_quietly(path).ok().filter(Self::is_sound)
    }

    /// Opens the database; one that is damaged is put aside as `<path>.broken`.
    pub fn open_or_replace(path: &Path) -> Self {
        if path.exists() && Self::open_sound(path).is_none() {
            let beside = |ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
            let broken = beside(".broken");
            log::warn!("`{}` is damaged; it is kept as `{}`", path.display(), broken.display());
            let moved = file::remove(&broken).and_then(|()| file::rename(path, &broken));
            // What SQLite keeps beside it belongs to the damaged one.
            let cleaned = moved.and_then(|()| ["-wal", "-shm"].iter().try_for_each(|end| file::remove(&beside(end))));
            if let Err(error) = cleaned {
                log::warn!("{error:#}");
            }
        }
        Self::open(path)
    }

    fn restore(&mut self, rows: &Rows) {
        let (record, numbers) = (&rows.record, &rows.statistics);
        let unknown = || clock::rfc3339(0);
        let is_over = !matches!(rows.status.as_str(), "running" | "paused");
        let completed_at = is_over.then(|| rows.ended_at.clone().unwrap_or_else(unknown));
        let reason = record.ending.as_ref().and_then(|ending| ending.reason.clone());
        self.write("make the rows of a task again", |transaction| {
            transaction.execute(
                "INSERT INTO tasks (uuid, status, task_type, task_identifier, repository, user, created_at, updated_at,
                   completed_at, total_messages, total_summaries, total_tool_calls, final_token_count,
                   final_message_count, error_message)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
                 ON CONFLICT(uuid) DO UPDATE SET status = ?2, task_type = ?3, task_identifier = ?4, repository = ?5,
                   user = ?6, created_at = ?7, updated_at = ?8, completed_at = COALESCE(completed_at, ?9),
                   total_messages = ?10, total_summaries = ?11, total_tool_calls = ?12, final_token_count = ?13,
                   final_message_count = ?14, error_message = ?15",
                params![
                    record.uuid,
                    rows.status,
                    record.task_type.as_deref().unwrap_or_default(),
                    record.task_identifier,
                    record.repository,
                    record.user,
                    record.created_at.clone().unwrap_or_else(unknown),
                    rows.ended_at,
                    completed_at,
                    numbers.total_messages,
                    numbers.total_summaries,
                    numbers.total_tool_calls,
                    numbers.final_token_count,
                    numbers.final_message_count,
                    reason
                ],
            )?;
            // The rows that are there know more than the messages: the model, the time it took, what failed.
            let known: u64 =
                transaction
                    .query_row("SELECT count(*) FROM llm_calls WHERE uuid = ?1", [&record.uuid], |row| row.get(0))?;
            let missing = if known == 0 { rows.calls.as_slice() } else { &[] };
            for call in missing {
                transaction.execute(
                    "INSERT INTO llm_calls (uuid, at, phase, provider, model, prompt_tokens, completion_tokens,
                       cached_tokens, estimated, duration_ms) VALUES (?1, ?2, ?3, '', '', ?4, ?5, ?6, 0, 0)",
                    params![
                        record.uuid,
                        call.at,
                        call.phase,
                        call.usage.prompt_tokens,
                        call.usage.completion_tokens,
                        call.usage.cached_tokens
                    ],
                )?;
            }
            Ok(1)
        });
    }
}

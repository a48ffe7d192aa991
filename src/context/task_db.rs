//! `tasks.db`: one row per task and one per model call, for people with `sqlite3`. An index of the
//! files: it never stops a task, a failing write is a warning.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, TransactionBehavior, params};

use super::{Metadata, PreviousContext};
use crate::chat::Usage;
use crate::sys::{clock, file};
use crate::task::TaskId;

/// Append-only: a schema change is a new entry, and `PRAGMA user_version` counts those applied.
const MIGRATIONS: &[&str] = &["
CREATE TABLE IF NOT EXISTS tasks (
  uuid TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  task_type TEXT NOT NULL,
  task_identifier TEXT,
  repository TEXT,
  user TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT,
  completed_at TEXT,
  metadata TEXT,
  total_messages INTEGER DEFAULT 0,
  total_summaries INTEGER DEFAULT 0,
  total_tool_calls INTEGER DEFAULT 0,
  final_token_count INTEGER,
  final_message_count INTEGER,
  error_message TEXT
);
CREATE INDEX IF NOT EXISTS idx_tasks_status ON tasks(status);
CREATE INDEX IF NOT EXISTS idx_tasks_task_type ON tasks(task_type);
CREATE INDEX IF NOT EXISTS idx_tasks_repository ON tasks(repository);
CREATE INDEX IF NOT EXISTS idx_tasks_user ON tasks(user);
CREATE INDEX IF NOT EXISTS idx_tasks_completed_at ON tasks(completed_at);
CREATE TABLE IF NOT EXISTS llm_calls (
  uuid TEXT NOT NULL,
  at TEXT NOT NULL,
  phase TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  prompt_tokens INTEGER,
  completion_tokens INTEGER,
  cached_tokens INTEGER,
  estimated INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  error TEXT
);
CREATE INDEX IF NOT EXISTS idx_llm_calls_uuid ON llm_calls(uuid);
"];

/// Another process may hold the write lock while it commits; never longer than milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The database, or nothing where it cannot be opened.
#[derive(Debug)]
pub struct TaskDb {
    connection: Option<Connection>,
}

/// Numbers of a task at its end or pause: columns of `tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Messages of the whole history.
    pub total_messages: u64,
    /// Summaries made.
    pub total_summaries: u64,
    /// Tool calls recorded.
    pub total_tool_calls: u64,
    /// Estimated tokens of the current context.
    pub final_token_count: u64,
    /// Messages of the current context.
    pub final_message_count: u64,
}

/// A row of `llm_calls`.
#[derive(Debug, Clone)]
pub struct LlmCall<'a> {
    /// The task it was for.
    pub uuid: TaskId,
    /// What it was for.
    pub phase: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens of the reply.
    pub completion_tokens: u64,
    /// Tokens of the request the server had cached.
    pub cached_tokens: u64,
    /// The numbers are our estimate, the server gave none.
    pub estimated: bool,
    /// How long the call took, in milliseconds.
    pub duration_ms: u64,
    /// What went wrong.
    pub error: Option<String>,
}

impl TaskDb {
    /// Opens the database, making or migrating it; a failure is a warning.
    pub fn open(path: &Path) -> Self {
        Self::open_quietly(path).unwrap_or_else(|error| {
            log::warn!("cannot open `{}`: {error}; going on without it", path.display());
            Self { connection: None }
        })
    }

    pub(super) fn open_quietly(path: &Path) -> rusqlite::Result<Self> {
        open(path).map(|connection| Self { connection: Some(connection) })
    }

    /// Adds the task's row, or sets an existing one to `running`.
    pub fn register(&mut self, metadata: &Metadata) {
        let message = &metadata.message;
        let facts = serde_json::json!({ "bot_assigned": metadata.bot_assigned, "resumes": metadata.resumes });
        self.write("note the start of a task", |transaction| {
            transaction.execute(
                "INSERT INTO tasks (uuid, status, task_type, task_identifier, repository, user, created_at, updated_at, metadata)
                 VALUES (?1, 'running', ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT(uuid) DO UPDATE SET status = 'running', updated_at = ?7, metadata = ?8",
                params![
                    message.uuid.to_string(),
                    message.key.task_type(),
                    message.key.identifier(),
                    metadata.repository,
                    message.user,
                    metadata.created_at,
                    clock::now_rfc3339(),
                    facts.to_string()
                ],
            )
        });
    }

    /// Writes the task's final row (or its row at a pause).
    pub fn finish(&mut self, uuid: TaskId, status: &str, error_message: Option<&str>, numbers: &Statistics) {
        let now = clock::now_rfc3339();
        self.write("note the end of a task", |transaction| {
            transaction.execute(
                "UPDATE tasks SET status = ?2, error_message = ?3, updated_at = ?4, completed_at = ?5,
                   total_messages = ?6, total_summaries = ?7, total_tool_calls = ?8,
                   final_token_count = ?9, final_message_count = ?10
                 WHERE uuid = ?1",
                params![
                    uuid.to_string(),
                    status,
                    error_message,
                    now,
                    (status != "paused").then_some(&now),
                    numbers.total_messages,
                    numbers.total_summaries,
                    numbers.total_tool_calls,
                    numbers.final_token_count,
                    numbers.final_message_count
                ],
            )
        });
    }

    /// Adds a row of `llm_calls`: the statistics hook of the seeds. It never fails a task.
    pub fn record_call(&mut self, call: &LlmCall<'_>) {
        self.write("note a model call", |transaction| {
            transaction.execute(
                "INSERT INTO llm_calls (uuid, at, phase, provider, model, prompt_tokens, completion_tokens,
                   cached_tokens, estimated, duration_ms, error)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    call.uuid.to_string(),
                    clock::now_rfc3339(),
                    call.phase,
                    call.provider,
                    call.model,
                    call.prompt_tokens,
                    call.completion_tokens,
                    call.cached_tokens,
                    call.estimated,
                    call.duration_ms,
                    call.error
                ],
            )
        });
    }

    /// Earlier tasks of the same kind, item, repository and user that ended by themselves, newest first.
    pub fn find_previous_contexts(&self, metadata: &Metadata) -> Vec<PreviousContext> {
        let Some(connection) = &self.connection else { return Vec::new() };
        let message = &metadata.message;
        let read = || -> rusqlite::Result<Vec<PreviousContext>> {
            let mut statement = connection.prepare(
                "SELECT uuid, status, COALESCE(completed_at, '') FROM tasks
                 WHERE task_identifier = ?1 AND repository = ?2 AND user IS ?3 AND task_type = ?4
                   AND status IN ('completed', 'failed') AND uuid <> ?5
                 ORDER BY completed_at DESC, rowid DESC",
            )?;
            let (kind, uuid) = (message.key.task_type(), message.uuid.to_string());
            let rows = statement
                .query_map(params![message.key.identifier(), metadata.repository, message.user, kind, uuid], |row| {
                    Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?))
                })?;
            rows.collect::<rusqlite::Result<Vec<_>>>().map(|rows| {
                let named = rows.into_iter().filter_map(|(uuid, status, completed_at)| {
                    // The name of a directory, so it has to be one of ours.
                    Some(PreviousContext { uuid: uuid.parse().ok()?, status, completed_at })
                });
                named.collect()
            })
        };
        read().inspect_err(|error| log::warn!("cannot look for earlier tasks: {error}")).unwrap_or_default()
    }

    /// The status of a task's row.
    pub fn status(&self, uuid: TaskId) -> Option<String> {
        let connection = self.connection.as_ref()?;
        let query = "SELECT status FROM tasks WHERE uuid = ?1";
        connection.query_row(query, [uuid.to_string()], |row| row.get(0)).optional().ok().flatten()
    }

    /// Tokens of a task's answered calls; `None` where the servers told them for all calls, or nothing is known.
    pub fn estimated_usage(&self, uuid: TaskId) -> Option<Usage> {
        let connection = self.connection.as_ref()?;
        let query = "SELECT sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens) FROM llm_calls \
                     WHERE uuid = ?1 AND error IS NULL GROUP BY uuid HAVING sum(estimated) > 0";
        let usage = connection.query_row(query, [uuid.to_string()], |row| {
            let number = |column| -> rusqlite::Result<u64> {
                let found: Option<i64> = row.get(column)?;
                Ok(u64::try_from(found.unwrap_or(0)).unwrap_or(0))
            };
            Ok(Usage { prompt_tokens: number(0)?, completion_tokens: number(1)?, cached_tokens: number(2)? })
        });
        usage.optional().ok().flatten()
    }

    /// Removes rows of `llm_calls` before a time (RFC 3339, UTC); how many there were.
    pub fn forget_calls_before(&mut self, time: &str) -> u64 {
        let mut removed = 0;
        self.write("remove old model calls", |transaction| {
            removed = transaction.execute("DELETE FROM llm_calls WHERE at < ?1", [time])?;
            Ok(removed)
        });
        removed as u64
    }

    /// Gives unused space back to the system; `false` when that failed, which is a warning.
    pub fn vacuum(&mut self) -> bool {
        let Some(connection) = &self.connection else { return false };
        let compacted = connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);");
        compacted.inspect_err(|error| log::warn!("cannot compact tasks.db: {error}")).is_ok()
    }

    /// Whether the database is there and whole.
    pub(super) fn is_sound(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        let check = connection.pragma_query_value(None, "quick_check", |row| row.get::<_, String>(0));
        check.is_ok_and(|result| result == "ok")
    }

    pub(super) fn write(
        &mut self,
        what: &str,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<usize>,
    ) {
        let Some(connection) = &mut self.connection else { return };
        // Immediate: a transaction that reads first and writes later fails at once when another
        // process wrote in between, whatever the busy timeout says.
        let written = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|transaction| work(&transaction).and_then(|_| transaction.commit()));
        if let Err(error) = written {
            log::warn!("cannot {what} in tasks.db: {error}; the files have it");
        }
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    if !path.exists() {
        // SQLite would make it readable for all. The files it puts beside it get the same mode.
        drop(file::open_append(path));
    }
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    switch_to_wal(&connection)?;
    // The files are the truth; a power cut may take the last rows.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let version = |connection: &Connection| -> rusqlite::Result<usize> {
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0)).map(|version| version as usize)
    };
    if version(&connection)? < MIGRATIONS.len() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again under the lock: another first start may have been faster.
        let applied = version(&transaction)?;
        for migration in MIGRATIONS.iter().skip(applied) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u64)?;
        transaction.commit()?;
    }
    Ok(connection)
}

/// Tries again by itself: two first starts at once would deadlock here, so SQLite lets one of them
/// fail at once, whatever the busy timeout says.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

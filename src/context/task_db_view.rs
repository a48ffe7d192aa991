//! `tasks.db` looked at by `status` and `show`: it is never made, migrated, locked for others or
//! written to, not even its `-shm` file, and whatever stands in a row can be read.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, params};

/// Looking may be a little stale; it must not wait long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Whole numbers of a column, added up without overflow whatever else is in it. Text and NULL count nothing.
macro_rules! sum {
    ($column:literal) => {
        concat!("TOTAL(CASE WHEN typeof(", $column, ") = 'integer' AND ", $column, " > 0 THEN ", $column, " END)")
    };
}

/// The columns of a [`Cost`]. `estimated` is 0 or 1.
const COST: &str = concat!(
    "COUNT(*), COUNT(error), ",
    sum!("prompt_tokens"),
    ", ",
    sum!("completion_tokens"),
    ", ",
    sum!("cached_tokens"),
    ", ",
    sum!("estimated"),
    ", ",
    sum!("duration_ms")
);
const COST_COLUMNS: usize = 7;

/// The database, or nothing where there is none or it cannot be read.
#[derive(Debug)]
pub struct TaskDbView {
    connection: Option<Connection>,
    problem: Option<String>,
}

/// What calls of models cost: sums over rows of `llm_calls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Calls, the failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// Tokens of the requests.
    pub prompt_tokens: u64,
    /// Tokens of the replies.
    pub completion_tokens: u64,
    /// Tokens of the requests that the server had cached.
    pub cached_tokens: u64,
    /// Calls whose tokens are our estimate, since the server gave none.
    pub estimated_calls: u64,
    /// Time the calls took, in milliseconds.
    pub model_ms: u64,
}

/// The cost of one phase of a task with one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseCost {
    /// What the calls were for.
    pub phase: String,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The sums.
    pub cost: Cost,
}

/// A row of `tasks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The task's UUID.
    pub uuid: String,
    /// `running`, `paused`, `completed`, `failed`, `stopped`.
    pub status: String,
    /// Kind of item.
    pub task_type: String,
    /// Number or name.
    pub task_identifier: String,
    /// Repository.
    pub repository: String,
    /// When it began (RFC 3339, UTC).
    pub created_at: String,
    /// When it ended (RFC 3339, UTC).
    pub completed_at: Option<String>,
    /// Why it failed.
    pub error_message: Option<String>,
}

const TASK: &str =
    "SELECT uuid, status, task_type, task_identifier, repository, created_at, completed_at, error_message FROM tasks";

/// What rows of `llm_calls` have in common in a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Nothing: one total.
    All,
    /// The day (UTC).
    Day,
    /// Who asked.
    User,
    /// The repository.
    Repository,
}

/// A total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Total {
    /// The day, user or repository; `None` where the rows name none.
    pub name: Option<String>,
    /// Tasks that made these calls.
    pub tasks: u64,
    /// The sums.
    pub cost: Cost,
}

impl TaskDbView {
    /// Looks at the database at `path`; a missing one is empty.
    pub fn open(path: &Path) -> Self {
        if !path.exists() {
            return Self { connection: None, problem: None };
        }
        match open(path) {
            Ok(connection) => Self { connection: Some(connection), problem: None },
            Err(error) => Self { connection: None, problem: Some(error.to_string()) },
        }
    }

    /// What could not be read, if anything.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// A task's row.
    pub fn task(&mut self, uuid: &str) -> Option<TaskRow> {
        self.rows(&format!("{TASK} WHERE uuid = ?1"), &[&uuid], task_row).pop()
    }

    /// The tasks that ended last, newest first.
    pub fn last_finished(&mut self, limit: u32) -> Vec<TaskRow> {
        let order = "WHERE completed_at IS NOT NULL ORDER BY completed_at DESC, rowid DESC LIMIT ?1";
        self.rows(&format!("{TASK} {order}"), params![limit], task_row)
    }

    /// The cost of a task by phase and model, in the order in which they were first used.
    pub fn cost_by_phase(&mut self, uuid: &str) -> Vec<PhaseCost> {
        let query = format!(
            "SELECT {COST}, phase, provider, model FROM llm_calls WHERE uuid = ?1
             GROUP BY phase, provider, model ORDER BY MIN(rowid)"
        );
        self.rows(&query, &[&uuid], |row| PhaseCost {
            cost: cost(row),
            phase: text(row, COST_COLUMNS).unwrap_or_default(),
            provider: text(row, COST_COLUMNS + 1).unwrap_or_default(),
            model: text(row, COST_COLUMNS + 2).unwrap_or_default(),
        })
    }

    /// Totals over all calls, one per day, user or repository, sorted by its name.
    pub fn totals(&mut self, group: Group) -> Vec<Total> {
        let name = match group {
            Group::All => "NULL",
            Group::Day => "substr(CAST(at AS TEXT), 1, 10)",
            Group::User => "tasks.user",
            Group::Repository => "tasks.repository",
        };
        let query = format!(
            "SELECT {COST}, COUNT(DISTINCT llm_calls.uuid), {name} AS name
             FROM llm_calls LEFT JOIN tasks ON tasks.uuid = llm_calls.uuid GROUP BY name ORDER BY name"
        );
        self.rows(&query, &[], |row| Total {
            cost: cost(row),
            tasks: number(row, COST_COLUMNS),
            name: text(row, COST_COLUMNS + 1),
        })
    }

    /// The rows read before something went wrong; what it was is kept.
    fn rows<T>(&mut self, query: &str, values: &[&dyn rusqlite::ToSql], read: impl Fn(&Row<'_>) -> T) -> Vec<T> {
        let mut found = Vec::new();
        let Some(connection) = &self.connection else { return found };
        let looked = connection.prepare(query).and_then(|mut statement| {
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                found.push(read(row));
            }
            Ok(())
        });
        // The predecessor's database has no `llm_calls`.
        if let Err(error) = looked
            && !error.to_string().starts_with("no such table")
        {
            self.problem = Some(error.to_string());
        }
        found
    }
}

/// Opens without leaving a trace. Where others write just now (`-wal` or `-journal` are there) their
/// locks are minded and their last rows seen, by a `-shm` that is only read; else, and where that
/// cannot be done, the file is read as it lies there: opening a file in WAL mode in any other way
/// makes files beside it.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        Path::new(&name).exists()
    };
    if (beside("-wal") || beside("-journal"))
        && let Ok(connection) = open_as(path, "mode=ro&readonly_shm=1")
    {
        return Ok(connection);
    }
    open_as(path, "immutable=1")
}

fn open_as(path: &Path, how: &str) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in std::path::absolute(path).as_deref().unwrap_or(path).as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("{uri}?{how}"), flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // SQLite reads the file only when asked something.
    connection.query_row("SELECT COUNT(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

fn task_row(row: &Row<'_>) -> TaskRow {
    let text_or_empty = |index| text(row, index).unwrap_or_default();
    TaskRow {
        uuid: text_or_empty(0),
        status: text_or_empty(1),
        task_type: text_or_empty(2),
        task_identifier: text_or_empty(3),
        repository: text_or_empty(4),
        created_at: text_or_empty(5),
        completed_at: text(row, 6),
        error_message: text(row, 7),
    }
}

fn cost(row: &Row<'_>) -> Cost {
    Cost {
        calls: number(row, 0),
        failed_calls: number(row, 1),
        prompt_tokens: number(row, 2),
        completion_tokens: number(row, 3),
        cached_tokens: number(row, 4),
        estimated_calls: number(row, 5),
        model_ms: number(row, 6),
    }
}

/// A column as text, whatever is in it; `None` for NULL.
fn text(row: &Row<'_>, index: usize) -> Option<String> {
    match row.get_ref(index).ok()? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// A sum or count; `as` stops at the ends of the range.
fn number(row: &Row<'_>, index: usize) -> u64 {
    match row.get_ref(index) {
        Ok(ValueRef::Integer(number)) => u64::try_from(number).unwrap_or_default(),
        Ok(ValueRef::Real(number)) => number as u64,
        _ => 0,
    }
}

impl Cost {
    /// Both added up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            failed_calls: self.failed_calls.saturating_add(other.failed_calls),
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            estimated_calls: self.estimated_calls.saturating_add(other.estimated_calls),
            model_ms: self.model_ms.saturating_add(other.model_ms),
        }
    }
}

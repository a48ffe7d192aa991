//! `tasks.db`: the first seed's schema, first starts at the same time, a busy database (case C48),
//! and that it never stops a task.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, mpsc};

use coding_agent::context::{LlmCall, Metadata, Statistics, TaskDb, TaskDbView};
use coding_agent::task::{TaskId, TaskKey, TaskMessage};
use rusqlite::Connection;

use crate::support::{Cassette, World};

fn metadata(number: u128) -> Metadata {
    let message = TaskMessage {
        key: TaskKey::GithubIssue { owner: "o".into(), repo: "r".into(), number: 7 },
        uuid: TaskId::from_u128(number),
        user: Some("alice".into()),
        enqueued_at: "2024-12-07T03:00:00+00:00".into(),
        paused_context_path: None,
    };
    Metadata::new(message, "o/r".into(), true)
}

fn llm_call(number: u128) -> LlmCall<'static> {
    LlmCall {
        uuid: TaskId::from_u128(number),
        phase: "loop",
        provider: "replay",
        model: "m",
        prompt_tokens: 1,
        completion_tokens: 2,
        cached_tokens: 3,
        estimated: false,
        duration_ms: 4,
        error: None,
    }
}

fn query(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let columns: rusqlite::Result<Vec<String>> = (0..row.as_ref().column_count())
            .map(|at| {
                Ok(match row.get::<_, rusqlite::types::Value>(at)? {
                    rusqlite::types::Value::Null => "NULL".to_owned(),
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => format!("{other:?}"),
                })
            })
            .collect();
        Ok(columns?.join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    (dir, path)
}

#[test]
fn schema_is_the_one_of_the_seed() {
    let (_dir, path) = place();
    TaskDb::open(&path);
    // Name, type, NOT NULL, default, place in the primary key.
    assert_eq!(
        query(&path, "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('tasks')"),
        [
            "uuid TEXT 0 NULL 1",
            "status TEXT 1 NULL 0",
            "task_type TEXT 1 NULL 0",
            "task_identifier TEXT 0 NULL 0",
            "repository TEXT 0 NULL 0",
            "user TEXT 0 NULL 0",
            "created_at TEXT 1 NULL 0",
            "updated_at TEXT 0 NULL 0",
            "completed_at TEXT 0 NULL 0",
            "metadata TEXT 0 NULL 0",
            "total_messages INTEGER 0 0 0",
            "total_summaries INTEGER 0 0 0",
            "total_tool_calls INTEGER 0 0 0",
            "final_token_count INTEGER 0 NULL 0",
            "final_message_count INTEGER 0 NULL 0",
            "error_message TEXT 0 NULL 0",
        ]
    );
    let indexes =
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'tasks' AND sql NOT NULL ORDER BY name";
    assert_eq!(
        query(&path, indexes),
        ["idx_tasks_completed_at", "idx_tasks_repository", "idx_tasks_status", "idx_tasks_task_type", "idx_tasks_user"]
    );
    assert_eq!(
        query(&path, "SELECT name FROM pragma_table_info('llm_calls')").join(" "),
        "uuid at phase provider model prompt_tokens completion_tokens cached_tokens estimated duration_ms error"
    );
    assert_eq!(query(&path, "PRAGMA user_version"), ["1"]);
    assert_eq!(query(&path, "PRAGMA journal_mode"), ["wal"]);
}

#[test]
fn a_row_from_beginning_to_end() {
    let (_dir, path) = place();
    let mut db = TaskDb::open(&path);
    let facts = metadata(1);
    let uuid = facts.message.uuid;
    assert_eq!(db.status(uuid), None);
    db.register(&facts);
    assert_eq!(db.status(uuid).as_deref(), Some("running"));
    let numbers = Statistics { total_messages: 9, total_tool_calls: 3, final_token_count: 70, ..Default::default() };
    db.finish(uuid, "paused", None, &numbers);
    assert_eq!(query(&path, "SELECT status, completed_at FROM tasks"), ["paused NULL"]);
    db.register(&Metadata { resumes: 1, ..facts.clone() });
    assert_eq!(query(&path, "SELECT status, created_at FROM tasks"), [format!("running {}", facts.created_at)]);
    db.finish(uuid, "failed", Some("no key"), &numbers);
    let row =
        "SELECT task_type, task_identifier, repository, user, total_messages, total_tool_calls, final_token_count,
               error_message FROM tasks";
    assert_eq!(query(&path, row), ["github_issue 7 o/r alice 9 3 70 no key"]);
    let json = query(&path, "SELECT json_extract(metadata, '$.resumes'), json_valid(metadata) FROM tasks");
    assert_eq!(json, ["1 1"]);
    let last = TaskDbView::open(&path).last_finished(5);
    assert_eq!((last.len(), last[0].status.as_str(), last[0].error_message.as_deref()), (1, "failed", Some("no key")));
    db.record_call(&LlmCall { error: Some("later".into()), ..llm_call(1) });
    assert_eq!(query(&path, "SELECT phase, prompt_tokens, estimated, error FROM llm_calls"), ["loop 1 0 later"]);
}

#[test]
fn an_empty_file_and_an_old_schema_are_migrated_and_a_later_one_is_used_as_it_is() {
    let (_dir, path) = place();
    std::fs::write(&path, "").unwrap();
    TaskDb::open(&path).register(&metadata(1));
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["1"]);
    // Opened again, nothing is made twice.
    TaskDb::open(&path).register(&metadata(2));
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["2"]);

    // A table made by the seed's own code, without a version: its rows stay.
    let (_dir, path) = place();
    let old = "CREATE TABLE tasks (uuid TEXT PRIMARY KEY, status TEXT NOT NULL, task_type TEXT NOT NULL,
        task_identifier TEXT, repository TEXT, user TEXT, created_at TEXT NOT NULL, updated_at TEXT, completed_at TEXT,
        metadata TEXT, total_messages INTEGER DEFAULT 0, total_summaries INTEGER DEFAULT 0,
        total_tool_calls INTEGER DEFAULT 0, final_token_count INTEGER, final_message_count INTEGER, error_message TEXT);
        INSERT INTO tasks (uuid, status, task_type, created_at) VALUES ('x', 'completed', 'github_issue', 'then');";
    Connection::open(&path).unwrap().execute_batch(old).unwrap();
    TaskDb::open(&path).register(&metadata(1));
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["2"]);
    assert_eq!(query(&path, "PRAGMA user_version"), ["1"]);

    let (_dir, path) = place();
    TaskDb::open(&path);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    TaskDb::open(&path).register(&metadata(1));
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["1"]);
    assert_eq!(query(&path, "PRAGMA user_version"), ["99"]);
}

#[test]
fn c48_many_first_starts_at_the_same_time() {
    for _ in 0..10 {
        let (_dir, path) = place();
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (barrier, path) = (&barrier, &path);
                scope.spawn(move || {
                    barrier.wait();
                    TaskDb::open(path).register(&metadata(number));
                });
            }
        });
        assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["8"]);
        assert_eq!(query(&path, "PRAGMA user_version"), ["1"]);
    }
}

/// Holds the write lock until told to let go; tells when it has it.
fn hold(path: &Path, begin: &str) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (has_it, wait) = mpsc::channel();
    let (release, told) = mpsc::channel::<()>();
    let (path, begin) = (path.to_path_buf(), begin.to_owned());
    let thread = std::thread::spawn(move || {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&begin).unwrap();
        has_it.send(()).unwrap();
        told.recv().unwrap();
        connection.execute_batch("COMMIT").unwrap();
    });
    wait.recv().unwrap();
    (release, thread)
}

#[test]
fn c48_a_write_waits_for_another_connection() {
    let (_dir, path) = place();
    let mut db = TaskDb::open(&path);
    let (release, holder) = hold(&path, "BEGIN IMMEDIATE");
    let (done, finished) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        db.register(&metadata(1));
        db.record_call(&llm_call(1));
        done.send(()).unwrap();
    });
    // Not done while the other one holds it; sqlite itself polls far more often than this.
    assert!(finished.recv_timeout(std::time::Duration::from_millis(50)).is_err());
    release.send(()).unwrap();
    finished.recv().unwrap();
    holder.join().unwrap();
    writer.join().unwrap();
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["1"]);
    assert_eq!(query(&path, "SELECT count(*) FROM llm_calls"), ["1"]);
}

#[test]
fn c48_a_first_start_waits_for_another_connection() {
    let (_dir, path) = place();
    Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    let (release, holder) = hold(&path, "BEGIN IMMEDIATE");
    let (done, finished) = mpsc::channel();
    let opening = path.clone();
    let writer = std::thread::spawn(move || {
        TaskDb::open(&opening).register(&metadata(1));
        done.send(()).unwrap();
    });
    assert!(finished.recv_timeout(std::time::Duration::from_millis(50)).is_err());
    release.send(()).unwrap();
    finished.recv().unwrap();
    holder.join().unwrap();
    writer.join().unwrap();
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["1"]);
}

#[test]
fn c48_a_reader_with_an_open_cursor_hinders_no_write() {
    let (_dir, path) = place();
    let mut db = TaskDb::open(&path);
    db.register(&metadata(1));
    let (release, holder) = hold(&path, "BEGIN; SELECT * FROM tasks");
    for number in 2..50 {
        db.register(&metadata(number));
    }
    release.send(()).unwrap();
    holder.join().unwrap();
    assert_eq!(query(&path, "SELECT count(*) FROM tasks"), ["49"]);
}

#[test]
fn what_cannot_be_a_database_stops_nothing() {
    let (dir, path) = place();
    std::fs::create_dir(&path).unwrap();
    let garbage = dir.path().join("garbage.db");
    std::fs::write(&garbage, "this is no database, whatever it is called; ".repeat(100)).unwrap();
    for path in [&path, &garbage, &dir.path().join("missing/tasks.db")] {
        let mut db = TaskDb::open(path);
        db.register(&metadata(1));
        db.record_call(&llm_call(1));
        db.finish(TaskId::from_u128(1), "completed", None, &Statistics::default());
        assert_eq!((db.status(TaskId::from_u128(1)), TaskDbView::open(path).last_finished(5)), (None, vec![]));
    }
    assert!(std::fs::read_to_string(&garbage).unwrap().starts_with("this is no database"), "left as it was");
}

#[test]
fn a_damaged_database_is_a_warning_and_the_task_is_done() {
    for is_dir in [true, false] {
        let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").finishes("x"));
        std::fs::create_dir(world.path("contexts")).unwrap();
        if is_dir {
            std::fs::create_dir(world.path("contexts/tasks.db")).unwrap();
        } else {
            world.write("contexts/tasks.db", &"garbage ".repeat(1000));
        }
        let ended = world.run(&[]).expect(0);
        assert!(ended.stderr.contains("warn: cannot open `contexts/tasks.db`"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "told once: {}", ended.stderr);
        world.assert_settled();
        assert_eq!(world.labels("fix"), ["coding agent done"]);
        assert!(world.run(&["status"]).expect(0).stdout.len() > 10);
    }
}

#[test]
fn the_database_is_private() {
    let (_dir, path) = place();
    let mut db = TaskDb::open(&path);
    db.register(&metadata(1));
    for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        let mode = std::fs::metadata(path.with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

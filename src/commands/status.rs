//! `status`: where every task stands, from files alone.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::config::Config;
use crate::context::{Contexts, TaskDb};
use crate::error::Result;
use crate::queue::{Entry, Spool, State};
use crate::sys::clock;
use crate::sys::file::Sync;
use crate::task::TaskMessage;
use crate::text::{printable_json, printable_line};

/// Finished tasks shown.
const LAST_FINISHED: u32 = 10;

/// The report, as text or as one JSON object.
pub fn status(config: &Config, as_json: bool) -> Result<String> {
    let spool = Spool::at(&config.queue.dir, config.queue.max_attempts);
    let contexts = Contexts::new(&config.context_storage.base_dir, Sync::Later, true);
    let mut report = json!({});
    for state in State::ALL {
        let entries: Vec<Value> = spool.entries(state)?.iter().map(|entry| entry_facts(state, entry)).collect();
        report[state.directory()] = entries.into();
    }
    let paused: Vec<Value> = contexts.paused_tasks()?.iter().map(task_facts).collect();
    report["paused"] = paused.into();
    let database = config.database.sqlite_path().unwrap_or_else(|| contexts.base_dir().join("tasks.db"));
    // Looking must not make one.
    let finished = if database.exists() { TaskDb::open(&database).last_finished(LAST_FINISHED) } else { Vec::new() };
    let finished: Vec<Value> = finished
        .iter()
        .map(|task| {
            json!({
                "uuid": task.uuid, "status": task.status, "task_type": task.task_type,
                "task_identifier": task.task_identifier, "repository": task.repository,
                "completed_at": task.completed_at, "error_message": task.error_message,
            })
        })
        .collect();
    report["last_finished"] = finished.into();
    Ok(if as_json { printable_json(&format!("{report:#}\n")).into_owned() } else { as_text(&report) })
}

fn task_facts(message: &TaskMessage) -> Value {
    json!({
        "uuid": message.uuid.to_string(),
        "task": message.key.canonical(),
        "user": message.user,
        "enqueued_at": message.enqueued_at,
    })
}

fn entry_facts(state: State, entry: &Entry) -> Value {
    let mut facts = entry.message.as_ref().map_or_else(|| json!({}), task_facts);
    facts["file"] = entry.file_name.clone().into();
    if let Some(name) = &entry.name {
        facts["attempt"] = name.attempt.into();
        if let Some(not_before_ms) = name.not_before_ms {
            facts["not_before"] = clock::rfc3339(not_before_ms).into();
        }
    }
    if state == State::Running {
        facts["worker_alive"] = entry.locked.into();
    }
    facts
}

fn as_text(report: &Value) -> String {
    let sections = [
        ("queue", "Waiting"),
        ("running", "Running"),
        ("deferred", "Put off"),
        ("paused", "Paused"),
        ("gave_up", "Given up"),
        ("corrupt", "Unreadable"),
        ("last_finished", "Ended last"),
    ];
    let mut text = String::new();
    for (key, title) in sections {
        let rows = report[key].as_array().map(Vec::as_slice).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{title}: {}", rows.len());
        for row in rows {
            let _ = writeln!(text, "  {}", printable_line(&row_text(key, row)));
        }
    }
    text
}

fn row_text(section: &str, row: &Value) -> String {
    let get = |name: &str| row[name].as_str().unwrap_or_default();
    match section {
        "last_finished" => {
            let why = row["error_message"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
            let (at, status, kind) = (get("completed_at"), get("status"), get("task_type"));
            format!("{at}  {status:<9}  {kind} {}  {}{why}", get("task_identifier"), get("uuid"))
        }
        "corrupt" => get("file").to_owned(),
        _ => {
            let mut line = format!("{}  {}  queued {}", get("task"), get("uuid"), get("enqueued_at"));
            if let Some(at) = row["not_before"].as_str() {
                line.push_str(&format!("  not before {at}"));
            }
            if row["worker_alive"] == Value::Bool(false) {
                line.push_str("  its worker is gone; the next run takes it up");
            }
            if let Some(attempt) = row["attempt"].as_u64().filter(|attempt| *attempt > 0) {
                line.push_str(&format!("  attempt {attempt}"));
            }
            line
        }
    }
}

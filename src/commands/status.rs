//! `status`: where every task stands and what it cost, from files and `tasks.db`, which are only read.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figures::{cost_json, cost_text, duration_text};
use crate::budget::{KnownWait, known_waits};
use crate::config::Config;
use crate::context::{Contexts, Cost, Group, TaskDbView, TaskRow, Total};
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
    let mut database = TaskDbView::open(&config.database_path());
    let mut report = json!({});
    for state in State::ALL {
        let entries: Vec<Value> = spool.entries(state)?.iter().map(|entry| entry_facts(state, entry)).collect();
        report[state.directory()] = entries.into();
    }
    let paused: Vec<Value> = contexts.paused_tasks()?.iter().map(task_facts).collect();
    report["paused"] = paused.into();
    let finished = database.last_finished(LAST_FINISHED);
    report["last_finished"] = finished.iter().map(finished_facts).collect::<Vec<_>>().into();
    for section in ["queue", "running", "deferred", "paused", "gave_up", "last_finished"] {
        for row in report[section].as_array_mut().into_iter().flatten() {
            let uuid = row["uuid"].as_str().unwrap_or_default();
            let cost = database.cost_by_phase(uuid).iter().fold(Cost::default(), |sum, phase| sum.plus(phase.cost));
            row["cost"] = if cost.calls > 0 { cost_json(&cost) } else { Value::Null };
            if as_json {
                continue;
            }
            row["cost_text"] = cost_text(&cost, true).into();
        }
    }
    if as_json {
        report["totals"] = json!({
            "all": totals(&mut database, Group::All, "all").into_iter().next(),
            "per_day": totals(&mut database, Group::Day, "day"),
            "per_user": totals(&mut database, Group::User, "user"),
            "per_repository": totals(&mut database, Group::Repository, "repository"),
        });
    }
    let waits = known_waits(&config.queue.dir);
    report["waits"] = waits.iter().map(wait_facts).collect::<Vec<_>>().into();
    if !as_json {
        report["wait_texts"] = waits.iter().map(ToString::to_string).collect::<Vec<_>>().into();
    }
    report["database_problem"] = database.problem().into();
    Ok(if as_json { printable_json(&format!("{report:#}\n")).into_owned() } else { as_text(&report) })
}

/// The queue entry of a task as it stands in the report, with its `state`; `None` where there is none
/// or the spool cannot be read.
pub fn queue_entry(config: &Config, uuid: &str) -> Option<Value> {
    let spool = Spool::at(&config.queue.dir, config.queue.max_attempts);
    State::ALL.into_iter().find_map(|state| {
        let entries = spool.entries(state).ok()?;
        let mut facts =
            entries.iter().map(|entry| entry_facts(state, entry)).find(|facts| facts["uuid"].as_str() == Some(uuid))?;
        facts["state"] = state.directory().into();
        Some(facts)
    })
}

fn totals(database: &mut TaskDbView, group: Group, name: &str) -> Vec<Value> {
    let row = |total: &Total| {
        let mut value = cost_json(&total.cost);
        value["tasks"] = total.tasks.into();
        if group != Group::All {
            value[name] = total.name.clone().into();
        }
        value
    };
    database.totals(group).iter().map(row).collect()
}

fn finished_facts(task: &TaskRow) -> Value {
    let ms = |at: Option<&String>| clock::parse_time_loosely(at?);
    let elapsed_ms = ms(task.completed_at.as_ref())
        .zip(ms(Some(&task.created_at)))
        .map(|(end_ms, begin_ms)| end_ms.saturating_sub(begin_ms));
    json!({
        "uuid": task.uuid, "status": task.status, "task_type": task.task_type,
        "task_identifier": task.task_identifier, "repository": task.repository,
        "completed_at": task.completed_at, "error_message": task.error_message,
        "elapsed_ms": elapsed_ms,
    })
}

fn wait_facts(wait: &KnownWait) -> Value {
    json!({
        "server": wait.server, "model": wait.model, "until": clock::rfc3339(wait.until_ms), "reason": wait.reason,
    })
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
            if let Some(cost) = row["cost_text"].as_str().filter(|_| !row["cost"].is_null()) {
                let elapsed = row["elapsed_ms"].as_u64().map(duration_text);
                let elapsed = elapsed.map(|elapsed| format!("; took {elapsed} in all")).unwrap_or_default();
                let _ = writeln!(text, "      {cost}{elapsed}");
            }
        }
    }
    for wait in report["wait_texts"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "{}", printable_line(&format!("Limit: {wait}")));
    }
    if let Some(problem) = report["database_problem"].as_str() {
        let _ = writeln!(
            text,
            "tasks.db cannot be read, so what ended and what it cost is missing: {}",
            printable_line(problem)
        );
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

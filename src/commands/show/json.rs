//! The transcript as one JSON object. Names and meanings of its fields stand in `ARCHITECTURE.md` and
//! are kept: people have scripts on them. Written entry by entry, so memory does not grow with it.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::facts::Facts;
use super::tally::{Source, Tally};
use crate::chat::Usage;
use crate::commands::figures::cost_json;
use crate::context::{CallRecord, Damage, Entry, Spoken, Transcript};
use crate::text::{Redactor, printable_json};

/// Raised when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// Writes it.
///
/// # Errors
/// What the output says.
pub fn write(out: &mut dyn Write, redactor: &Redactor, facts: &Facts, transcript: Transcript) -> io::Result<()> {
    let text = |value: Value| printable_json(&redactor.mask_json(value).to_string()).into_owned();
    let Value::Object(head) = head(facts) else { return Ok(()) };
    write!(out, "{{\n\"version\": {VERSION}")?;
    for (name, value) in head {
        write!(out, ",\n\"{name}\": {}", text(value))?;
    }
    write!(out, ",\n\"entries\": [")?;
    let mut tally = Tally::default();
    for (index, entry) in transcript.enumerate() {
        tally.count(&entry);
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}\n{}", text(entry_json(&entry)))?;
    }
    writeln!(out, "\n],\n\"cost\": {}\n}}", text(cost(facts, &tally)))
}

fn head(facts: &Facts) -> Value {
    let record = &facts.record;
    let ending = record.ending.as_ref();
    let models: Vec<Value> =
        facts.models().iter().map(|(provider, model)| json!({ "provider": provider, "model": model })).collect();
    json!({
        "uuid": record.uuid,
        "item": record.item,
        "task_type": record.task_type,
        "task_identifier": record.task_identifier,
        "repository": record.repository,
        "user": record.user,
        "state": facts.state(),
        "reason": facts.reason(),
        "began": facts.began(),
        "ended": facts.ended(),
        "resumes": record.resumes,
        "models": models,
        "directory": facts.dir.to_string_lossy(),
        "place": facts.place,
        "queue": facts.queue,
        "put_off": record.put_off.as_ref().map(|(since, count)| json!({ "since": since, "count": count })),
        "ending": ending.map(|ending| json!({
            "outcome": ending.outcome, "reason": ending.reason, "summary": ending.summary,
            "branch": ending.branch, "sha": ending.sha, "pr_url": ending.pr_url, "comment": ending.comment,
            "patch": ending.patch, "refusals": ending.refusals, "notes": ending.notes,
            "steps_done": ending.steps_done,
        })),
        "final_summary": record.final_summary,
        "other_files": record.other_files,
        "damage": facts.damage.iter().map(damage).collect::<Vec<_>>(),
    })
}

fn entry_json(entry: &Entry) -> Value {
    let (kind, mut value) = match entry {
        Entry::Message(message) => ("message", self::message(message)),
        Entry::Call(record) => ("call", call(record)),
        Entry::Summary(summary) => (
            "summary",
            json!({
                "id": summary.id, "text": summary.text, "from_seq": summary.from_seq,
                "through_seq": summary.through_seq, "messages": summary.messages,
                "tokens_saved": summary.tokens_saved, "usage": summary.usage.map(usage), "at": summary.at,
            }),
        ),
        Entry::Plan(plan) => {
            ("plan", json!({ "id": plan.id, "kind": plan.kind, "content": plan.content, "at": plan.at }))
        }
        Entry::Damage(bad) => ("damage", damage(bad)),
    };
    value["type"] = kind.into();
    value
}

fn message(message: &Spoken) -> Value {
    let calls: Vec<Value> =
        message.calls.iter().map(|call| json!({ "name": call.name, "arguments": call.arguments })).collect();
    json!({
        "seq": message.seq,
        "role": message.role,
        "content": message.content,
        "at": message.at,
        "tokens": message.tokens,
        "tool_name": message.tool_name,
        "calls": calls,
        "usage": message.usage.map(usage),
        "record": message.record.as_ref().map(|record| json!({
            "seq": record.seq,
            "is_error": record.error.is_some(),
            "exit_code": record.exit_code,
            "duration_ms": record.duration_ms,
            "at": record.at,
        })),
        "output_file": message.output_file,
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    })
}

fn call(record: &CallRecord) -> Value {
    json!({
        "seq": record.seq,
        "tool_name": record.tool_name,
        "arguments": record.arguments,
        "result": record.result,
        "error": record.error,
        "exit_code": record.exit_code,
        "duration_ms": record.duration_ms,
        "at": record.at,
    })
}

fn damage(damage: &Damage) -> Value {
    json!({
        "file": damage.file,
        "first_line": damage.lines.map(|(first, _)| first),
        "last_line": damage.lines.map(|(_, last)| last),
        "problem": damage.problem,
    })
}

fn cost(facts: &Facts, tally: &Tally) -> Value {
    let (source, sums) = tally.cost(facts);
    let mut cost = cost_json(&sums);
    cost["source"] = source.name().into();
    let has_times = source == Source::LlmCalls;
    if !has_times {
        cost["model_ms"] = Value::Null;
    }
    cost["tool_calls"] = tally.tool_calls.into();
    cost["tool_errors"] = tally.tool_errors.into();
    cost["tool_ms"] = tally.tool_ms.into();
    let phases = facts.phases.iter().filter(|_| has_times).map(|phase| {
        let mut value = cost_json(&phase.cost);
        value["phase"] = phase.phase.clone().into();
        value["provider"] = phase.provider.clone().into();
        value["model"] = phase.model.clone().into();
        value
    });
    cost["phases"] = phases.collect::<Vec<Value>>().into();
    cost
}

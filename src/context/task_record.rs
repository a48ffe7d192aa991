//! What the small files of a context directory say about its task, read as they are: for looking at
//! directories that may be damaged, or of this program's predecessor. The strict readers are
//! `metadata` and `outcome_file`.

use std::path::Path;

use serde_json::{Map, Value};

use super::loose_lines::{Damage, number_at, object_of_file, text_at, text_of_file, texts_at};
use crate::sys::{clock, file};
use crate::task::TaskMessage;

/// Names with a place of their own in what is shown.
const KNOWN_FILES: [&str; 10] = [
    "metadata.json",
    "messages.jsonl",
    "current.jsonl",
    "summaries.jsonl",
    "tools.jsonl",
    "planning.jsonl",
    "outcome.json",
    "parking.json",
    "final_summary.txt",
    "outputs",
];

/// One task, as its directory tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskRecord {
    /// UUID by `metadata.json`, else the directory's name.
    pub uuid: String,
    /// The item: `github/issue/owner/repo/7`; for the predecessor's tasks `github_issue 7`.
    pub item: Option<String>,
    /// Kind of item.
    pub task_type: Option<String>,
    /// Number or name of the item.
    pub task_identifier: Option<String>,
    /// Repository.
    pub repository: Option<String>,
    /// Who asked.
    pub user: Option<String>,
    /// When work began, as it stands there.
    pub created_at: Option<String>,
    /// How often work was taken up again.
    pub resumes: Option<u64>,
    /// The decision how it ends.
    pub ending: Option<Ending>,
    /// Since when (RFC 3339, UTC) and how often it was put off in a row.
    pub put_off: Option<(String, u64)>,
    /// `final_summary.txt`.
    pub final_summary: Option<String>,
    /// Other files in the directory, sorted.
    pub other_files: Vec<String>,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// What `outcome.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    /// The outcome's name.
    pub outcome: String,
    /// Why.
    pub reason: Option<String>,
    /// The model's words.
    pub summary: Option<String>,
    /// Branch of the work.
    pub branch: Option<String>,
    /// Commit of the work.
    pub sha: Option<String>,
    /// Pull request.
    pub pr_url: Option<String>,
    /// Id of the comment.
    pub comment: Option<String>,
    /// File that holds the work where it was not pushed.
    pub patch: Option<String>,
    /// What was refused for good.
    pub refusals: Vec<String>,
    /// Other facts.
    pub notes: Vec<String>,
    /// Steps of finishing that were done.
    pub steps_done: Vec<String>,
}

impl TaskRecord {
    /// Reads the small files of `dir`. What cannot be read is in `damage`.
    pub fn read(dir: &Path) -> Self {
        let mut damage = Vec::new();
        let mut object = |name: &str| object_of_file(dir, name).unwrap_or_else(|bad| keep(&mut damage, bad));
        let metadata = object("metadata.json");
        let ending = object("outcome.json").as_ref().map(Ending::of);
        let put_off = object("parking.json").and_then(|parking| {
            Some((clock::rfc3339(number_at(&parking, "since_ms")?), number_at(&parking, "count")?))
        });
        let final_summary = text_of_file(dir, "final_summary.txt").unwrap_or_else(|bad| keep(&mut damage, bad));
        let names = file::names(dir).unwrap_or_else(|error| {
            damage.push(Damage::of_file("the directory", error.sentence()));
            Vec::new()
        });
        for missing in ["metadata.json", "messages.jsonl"] {
            if !names.iter().any(|name| name == missing) {
                damage.push(Damage::of_file(missing, "it is not there"));
            }
        }
        let own_name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut record = metadata.as_ref().map(Self::of).unwrap_or_default();
        if record.uuid.is_empty() {
            record.uuid = own_name.unwrap_or_default();
        }
        let other_files = names.into_iter().filter(|name| !KNOWN_FILES.contains(&name.as_str())).collect();
        Self { ending, put_off, final_summary, other_files, damage, ..record }
    }

    fn of(metadata: &Map<String, Value>) -> Self {
        let text = |name| text_at(metadata, name).filter(|text| !text.is_empty());
        let (task_type, task_identifier) = (text("task_type"), text("task_identifier"));
        let queued = text("task").and_then(|task| TaskMessage::parse(task.as_bytes()).ok());
        let named = match (&task_type, &task_identifier) {
            (Some(kind), Some(identifier)) => Some(format!("{kind} {identifier}")),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        Self {
            uuid: text("uuid").unwrap_or_default(),
            item: queued.map(|message| message.key.canonical()).or(named),
            task_type,
            task_identifier,
            repository: text("repository"),
            user: text("user"),
            created_at: text("created_at"),
            resumes: number_at(metadata, "resumes"),
            ..Self::default()
        }
    }
}

fn keep<T>(damage: &mut Vec<Damage>, bad: Damage) -> Option<T> {
    damage.push(bad);
    None
}

impl Ending {
    fn of(object: &Map<String, Value>) -> Self {
        let text = |name| text_at(object, name).filter(|text| !text.is_empty());
        Self {
            outcome: text("outcome").unwrap_or_default(),
            reason: text("reason"),
            summary: text("summary"),
            branch: text("branch"),
            sha: text("sha"),
            pr_url: text("pr_url"),
            comment: text("comment"),
            patch: text("patch"),
            refusals: texts_at(object, "refusals"),
            notes: texts_at(object, "notes"),
            steps_done: texts_at(object, "steps_done"),
        }
    }
}

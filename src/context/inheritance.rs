//! What a task takes over from an earlier one of the same item: its last words and its plans, found
//! through the database, read from the directory. Whatever is missing or broken there is no reason to
//! fail: the next older task will do, or none.

use std::path::Path;

use serde::Deserialize;

use super::{Contexts, Metadata, TaskDb};
use crate::chat::{estimate_tokens, within_tokens};
use crate::sys::file;
use crate::task::TaskId;

/// An earlier task of the same item, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousContext {
    /// Its UUID.
    pub uuid: TaskId,
    /// `completed` or `failed`.
    pub status: String,
    /// When it ended (RFC 3339, UTC).
    pub completed_at: String,
}

/// What is taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritanceContext {
    /// The task it comes from.
    pub previous: PreviousContext,
    /// Its `final_summary.txt`, cut to the limit.
    pub final_summary: String,
    /// Its plans, oldest first, one paragraph each; empty where it made none.
    pub planning_summary: String,
}

/// A line of `planning.jsonl`, as far as it is there.
#[derive(Deserialize)]
struct Plan {
    #[serde(default)]
    plan_type: String,
    #[serde(default)]
    plan_content: serde_json::Value,
    #[serde(default)]
    created_at: String,
}

impl Contexts {
    /// What a task that begins now takes over, in at most `max_tokens` estimated tokens; `None` where no
    /// earlier task of the same kind, item, repository and user left anything.
    pub fn inheritance_context(&self, db: &TaskDb, metadata: &Metadata, max_tokens: u64) -> Option<InheritanceContext> {
        db.find_previous_contexts(metadata).into_iter().find_map(|previous| self.read_previous(previous, max_tokens))
    }

    fn read_previous(&self, previous: PreviousContext, max_tokens: u64) -> Option<InheritanceContext> {
        let dir = self.base_dir().join("completed").join(previous.uuid.to_string());
        let summary = text_of(&dir.join("final_summary.txt")).filter(|text| !text.trim().is_empty())?;
        // A quarter for the plans: what was reported in the end matters more than what was intended.
        let planning_summary = within_tokens(&planning_summary(&dir), max_tokens / 4, None);
        let left = max_tokens.saturating_sub(estimate_tokens(&planning_summary));
        Some(InheritanceContext {
            final_summary: within_tokens(summary.trim(), left, None),
            planning_summary,
            previous,
        })
    }
}

fn text_of(path: &Path) -> Option<String> {
    let read = file::read(path).inspect_err(|error| log::warn!("{error:#}; an older task will do")).ok()?;
    Some(String::from_utf8_lossy(&read?).into_owned())
}

fn planning_summary(dir: &Path) -> String {
    let text = text_of(&dir.join("planning.jsonl")).unwrap_or_default();
    // A line that cannot be read is no reason to forget the others.
    let plans = text.lines().filter_map(|line| serde_json::from_str::<Plan>(line).ok());
    let paragraphs = plans.filter_map(|plan| {
        let content = match plan.plan_content {
            serde_json::Value::String(text) => text,
            serde_json::Value::Null => return None,
            other => other.to_string(),
        };
        Some(format!("{} ({}):\n{}", plan.plan_type, plan.created_at, content.trim()))
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

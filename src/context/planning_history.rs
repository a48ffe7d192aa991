//! `planning.jsonl`: the plans of a task, as they changed.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jsonl::JsonlFile;
use crate::error::Result;
use crate::sys::clock;
use crate::sys::file::Sync;

/// The plans of one task. They are few, so they are kept in memory.
#[derive(Debug)]
pub struct PlanningHistory {
    file: JsonlFile,
    plans: Vec<Plan>,
    next_id: u64,
    sync: Sync,
}

/// A plan as it was made or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its number, from 1.
    pub id: u64,
    /// What kind of plan (`initial`, `revision`).
    pub plan_type: String,
    /// Its text.
    pub plan_content: String,
    /// When it was made (RFC 3339, UTC).
    pub created_at: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    id: u64,
    plan_type: String,
    /// Text; an object where another program wrote it.
    plan_content: Value,
    #[serde(default)]
    created_at: String,
}

impl PlanningHistory {
    /// Opens the file of `dir` in one pass.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be read.
    pub fn open(dir: &Path, sync: Sync) -> Result<Self> {
        let mut plans: Vec<Plan> = Vec::new();
        let file = JsonlFile::open(&dir.join("planning.jsonl"), |line: Line| {
            let plan_content = match line.plan_content {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let Line { id, plan_type, created_at, .. } = line;
            plans.push(Plan { id, plan_type, plan_content, created_at });
            Ok(())
        })?;
        let next_id = plans.iter().map(|plan| plan.id).max().unwrap_or(0) + 1;
        Ok(Self { file, plans, next_id, sync })
    }

    /// Adds a plan. Returns its number.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn add_plan(&mut self, plan_type: &str, plan_content: &str) -> Result<u64> {
        let plan = Plan {
            id: self.next_id,
            plan_type: plan_type.to_owned(),
            plan_content: plan_content.to_owned(),
            created_at: clock::now_rfc3339(),
        };
        let line = Line {
            id: plan.id,
            plan_type: plan.plan_type.clone(),
            plan_content: Value::from(plan_content),
            created_at: plan.created_at.clone(),
        };
        self.file.append(&line, self.sync)?;
        self.next_id += 1;
        self.plans.push(plan);
        Ok(line.id)
    }

    /// The plan in force.
    pub fn latest_plan(&self) -> Option<&Plan> {
        self.plans.last()
    }

    /// How many there are.
    pub fn count_plans(&self) -> usize {
        self.plans.len()
    }

    /// All of them, oldest first.
    pub fn all_plans(&self) -> &[Plan] {
        &self.plans
    }
}

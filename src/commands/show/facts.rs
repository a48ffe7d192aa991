//! What is known of a task beside its transcript: the small files, its row, its calls, its queue entry.

use std::path::PathBuf;

use serde_json::Value;

use super::find::Found;
use crate::commands::status;
use crate::config::Config;
use crate::context::{Damage, PhaseCost, TaskDbView, TaskRecord, TaskRow};

/// All of it.
#[derive(Debug)]
pub struct Facts {
    /// The context directory.
    pub dir: PathBuf,
    /// `running`, `paused` or `completed`, where it is in one of them.
    pub place: Option<&'static str>,
    /// What the small files say.
    pub record: TaskRecord,
    /// The row in `tasks`.
    pub row: Option<TaskRow>,
    /// The sums of `llm_calls`.
    pub phases: Vec<PhaseCost>,
    /// The queue entry as `status --json` shows it, with `state`; null where there is none.
    pub queue: Value,
    /// What could not be read, the transcript left out.
    pub damage: Vec<Damage>,
}

impl Facts {
    /// Reads all of it; what cannot be read is in `damage`.
    pub fn gather(config: &Config, found: Found) -> Self {
        let mut record = TaskRecord::read(&found.dir);
        let mut damage = std::mem::take(&mut record.damage);
        let mut database = TaskDbView::open(&found.database);
        let row = database.task(&record.uuid);
        let phases = database.cost_by_phase(&record.uuid);
        damage.extend(database.problem().map(|problem| Damage::of_file("tasks.db", problem)));
        let queue = match found.place {
            Some("running" | "paused") => status::queue_entry(config, &record.uuid).unwrap_or_default(),
            _ => Value::Null,
        };
        Self { dir: found.dir, place: found.place, record, row, phases, queue, damage }
    }

    /// Where the task stands, in one word: that of its outcome once it left `running`, else that of
    /// its directory, else that of its row.
    pub fn state(&self) -> &str {
        let outcome = self.record.ending.as_ref().map(|ending| ending.outcome.as_str()).filter(|word| !word.is_empty());
        let row = self.row.as_ref().map(|row| row.status.as_str()).filter(|word| !word.is_empty());
        match self.place {
            Some(place @ ("running" | "paused")) => place,
            place => outcome.or(row).or(place).unwrap_or("unknown"),
        }
    }

    /// Why it ended so.
    pub fn reason(&self) -> Option<&str> {
        let decided = self.record.ending.as_ref().and_then(|ending| ending.reason.as_deref());
        decided.or_else(|| self.row.as_ref()?.error_message.as_deref())
    }

    /// When it began.
    pub fn began(&self) -> Option<&str> {
        let row = || self.row.as_ref().map(|row| row.created_at.as_str()).filter(|at| !at.is_empty());
        self.record.created_at.as_deref().or_else(row)
    }

    /// When it ended.
    pub fn ended(&self) -> Option<&str> {
        self.row.as_ref()?.completed_at.as_deref()
    }

    /// Providers and models, each once.
    pub fn models(&self) -> Vec<(&str, &str)> {
        let mut models = Vec::new();
        for phase in &self.phases {
            let model = (phase.provider.as_str(), phase.model.as_str());
            if !models.contains(&model) {
                models.push(model);
            }
        }
        models
    }
}

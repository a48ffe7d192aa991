//! `metadata.json`: which task a context directory belongs to.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Context, Kind, Result};
use crate::sys::{clock, file};
use crate::task::{TaskId, TaskMessage};

const FILE_NAME: &str = "metadata.json";

/// Facts of a task that do not change, or hardly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The queue's message, from which a task can be queued again.
    pub message: TaskMessage,
    /// When the directory was made (RFC 3339, UTC).
    pub created_at: String,
    /// Repository for people.
    pub repository: String,
    /// The bot was assigned when work began, so losing the assignment means "stop".
    pub bot_assigned: bool,
    /// How often work was taken up again.
    pub resumes: u32,
    /// The earlier task whose last words this one was given.
    pub inherited_from: Option<TaskId>,
    /// That was told to people.
    pub inheritance_told: bool,
    /// Random mark around quoted text of people in this task's messages.
    pub fence: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    uuid: String,
    created_at: String,
    task_type: String,
    task_identifier: String,
    repository: String,
    user: Option<String>,
    #[serde(default)]
    bot_assigned: bool,
    #[serde(default)]
    resumes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inherited_from: Option<TaskId>,
    #[serde(default)]
    inheritance_told: bool,
    #[serde(default = "random_mark")]
    fence: String,
    #[serde(default)]
    task: Option<Box<RawValue>>,
}

fn random_mark() -> String {
    TaskId::new_v4().simple().to_string().split_off(16)
}

impl Metadata {
    /// Facts of a task that begins now.
    pub fn new(message: TaskMessage, repository: String, bot_assigned: bool) -> Self {
        Self {
            message,
            created_at: clock::now_rfc3339(),
            repository,
            bot_assigned,
            resumes: 0,
            inherited_from: None,
            inheritance_told: false,
            fence: random_mark(),
        }
    }

    /// Reads the file of a context directory; `None` when there is none, or none that says which task it is.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be read.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        let Some(bytes) = file::read(&dir.join(FILE_NAME))? else { return Ok(None) };
        let Ok(wire) = serde_json::from_slice::<Wire>(&bytes) else { return Ok(None) };
        let Some(message) = wire.task.and_then(|task| TaskMessage::parse(task.get().as_bytes()).ok()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            message,
            created_at: wire.created_at,
            repository: wire.repository,
            bot_assigned: wire.bot_assigned,
            resumes: wire.resumes,
            inherited_from: wire.inherited_from,
            inheritance_told: wire.inheritance_told,
            fence: wire.fence,
        }))
    }

    /// Writes the file of a context directory.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let task = String::from_utf8_lossy(&self.message.to_bytes()).trim_end().to_owned();
        let wire = Wire {
            uuid: self.message.uuid.to_string(),
            created_at: self.created_at.clone(),
            task_type: self.message.key.task_type().into(),
            task_identifier: self.message.key.identifier(),
            repository: self.repository.clone(),
            user: self.message.user.clone(),
            bot_assigned: self.bot_assigned,
            resumes: self.resumes,
            inherited_from: self.inherited_from,
            inheritance_told: self.inheritance_told,
            fence: self.fence.clone(),
            task: RawValue::from_string(task).ok(),
        };
        let bytes = serde_json::to_vec_pretty(&wire).context(Kind::Bug, || "cannot write metadata".into())?;
        file::replace(&dir.join(FILE_NAME), &bytes)
    }
}

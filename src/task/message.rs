//! The content of a queue entry: what a producer tells a consumer about a task. The wire twin is
//! private; an unknown version or kind is refused here, so nothing inside has to ask.

use serde::{Deserialize, Serialize};

use super::{TaskId, TaskKey};
use crate::error::{Context, Error, Kind, Result};

/// A queue entry's content. Immutable once published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMessage {
    /// Which item.
    pub key: TaskKey,
    /// The task's UUID.
    pub uuid: TaskId,
    /// Who asked, if known.
    pub user: Option<String>,
    /// When it was queued (RFC 3339, UTC).
    pub enqueued_at: String,
    /// The paused context directory this entry resumes.
    pub paused_context_path: Option<String>,
}

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Wire {
    version: u32,
    #[serde(flatten)]
    key: WireKey,
    uuid: TaskId,
    user: Option<String>,
    enqueued_at: String,
    #[serde(default)]
    paused_context_path: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "task_type", rename_all = "snake_case")]
enum WireKey {
    GithubIssue { owner: String, repo: String, number: u64 },
    GithubPullRequest { owner: String, repo: String, number: u64 },
    GitlabIssue { project_id: u64, project_path: String, issue_iid: u64 },
    GitlabMergeRequest { project_id: u64, project_path: String, mr_iid: u64 },
    LocalIssue { name: String },
}

impl TaskMessage {
    /// Reads an entry's bytes.
    ///
    /// # Errors
    /// `Kind::Task` when it does not parse, or is of an unknown version or kind.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        // The version first: a later one may differ in everything else.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_slice(bytes)
            .context(Kind::Task, || "cannot read a queue entry: it is no JSON object with a version".into())?;
        if head.version != VERSION {
            return Err(Error::task(format!(
                "cannot read a queue entry of version {}; this program knows version {VERSION}",
                head.version
            )));
        }
        let wire: Wire = serde_json::from_slice(bytes)
            .context(Kind::Task, || "cannot read a queue entry: a field is missing or of the wrong kind".into())?;
        Ok(Self {
            key: wire.key.try_into()?,
            uuid: wire.uuid,
            user: wire.user,
            enqueued_at: wire.enqueued_at,
            paused_context_path: wire.paused_context_path,
        })
    }

    /// The entry's bytes: one JSON object and a line break.
    pub fn to_bytes(&self) -> Vec<u8> {
        let wire = Wire {
            version: VERSION,
            key: (&self.key).into(),
            uuid: self.uuid,
            user: self.user.clone(),
            enqueued_at: self.enqueued_at.clone(),
            paused_context_path: self.paused_context_path.clone(),
        };
        // Strings, numbers and a UUID always serialise.
        let mut bytes = serde_json::to_vec(&wire).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

impl TryFrom<WireKey> for TaskKey {
    type Error = Error;

    fn try_from(wire: WireKey) -> Result<Self> {
        let named = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        let segment = |text: &str| named(text) && !text.contains('/');
        let checked = |good: bool, key: Self| {
            if good { Ok(key) } else { Err(Error::task("cannot read a queue entry: an empty or impossible name")) }
        };
        match wire {
            WireKey::GithubIssue { owner, repo, number } => {
                checked(segment(&owner) && segment(&repo), Self::GithubIssue { owner, repo, number })
            }
            WireKey::GithubPullRequest { owner, repo, number } => {
                checked(segment(&owner) && segment(&repo), Self::GithubPullRequest { owner, repo, number })
            }
            WireKey::GitlabIssue { project_id, project_path, issue_iid } => {
                checked(named(&project_path), Self::GitlabIssue { project_id, project_path, issue_iid })
            }
            WireKey::GitlabMergeRequest { project_id, project_path, mr_iid } => {
                checked(named(&project_path), Self::GitlabMergeRequest { project_id, project_path, mr_iid })
            }
            WireKey::LocalIssue { name } => Self::local(name),
        }
    }
}

impl From<&TaskKey> for WireKey {
    fn from(key: &TaskKey) -> Self {
        match key.clone() {
            TaskKey::GithubIssue { owner, repo, number } => Self::GithubIssue { owner, repo, number },
            TaskKey::GithubPullRequest { owner, repo, number } => Self::GithubPullRequest { owner, repo, number },
            TaskKey::GitlabIssue { project_id, project_path, issue_iid } => {
                Self::GitlabIssue { project_id, project_path, issue_iid }
            }
            TaskKey::GitlabMergeRequest { project_id, project_path, mr_iid } => {
                Self::GitlabMergeRequest { project_id, project_path, mr_iid }
            }
            TaskKey::LocalIssue { name } => Self::LocalIssue { name },
        }
    }
}

//! Shapes of GitLab's REST API (docs.gitlab.com/api, version 4), as far as we read them. Unknown
//! fields are ignored, missing optional ones tolerated, a null author is `ghost`.

use serde::Deserialize;
use serde_json::Value;

use crate::ports::{Change, GHOST, Item, ItemState, PullRequest};
use crate::sys::clock;
use crate::task::TaskKey;

/// Developer: the least role that may push (docs: "Roles and permissions").
pub const DEVELOPER: u64 = 30;

/// An account.
#[derive(Debug, Deserialize)]
pub struct User {
    pub id: u64,
    pub username: String,
}

/// Name of an account that may be gone.
pub fn username(user: Option<&User>) -> String {
    user.map_or_else(|| GHOST.to_owned(), |user| user.username.clone())
}

fn usernames(users: Option<Vec<Option<User>>>) -> Vec<String> {
    users.into_iter().flatten().flatten().map(|user| user.username).collect()
}

/// Somebody's place in a project.
#[derive(Debug, Deserialize)]
pub struct Member {
    #[serde(default)]
    pub access_level: u64,
    /// `active`, `awaiting`, `blocked` …
    #[serde(default)]
    pub state: Option<String>,
}

impl Member {
    /// Whether he may push now.
    pub fn may_write(&self) -> bool {
        self.access_level >= DEVELOPER && self.state.as_deref().is_none_or(|state| state == "active")
    }
}

/// An issue or a merge request, in lists and alone.
#[derive(Debug, Deserialize)]
pub struct Issuable {
    pub iid: u64,
    pub project_id: u64,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub author: Option<User>,
    pub state: String,
    /// For members of the project only.
    #[serde(default)]
    pub confidential: bool,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    pub assignees: Option<Vec<Option<User>>>,
    #[serde(default)]
    pub web_url: String,
    #[serde(default)]
    pub references: Option<References>,
    /// What only merge requests have.
    #[serde(default)]
    pub source_branch: String,
    #[serde(default)]
    pub target_branch: String,
    /// Null when the fork was deleted.
    #[serde(default)]
    pub source_project_id: Option<u64>,
    /// Whether those who may merge may push to the fork.
    #[serde(default)]
    pub allow_collaboration: Option<bool>,
    /// The older name of the same.
    #[serde(default)]
    pub allow_maintainer_to_push: Option<bool>,
    #[serde(default)]
    pub reviewers: Option<Vec<Option<User>>>,
}

/// How people refer to it.
#[derive(Debug, Deserialize)]
pub struct References {
    /// `group/project#7`, `group/project!7`.
    #[serde(default)]
    pub full: String,
}

impl Issuable {
    /// Path of its project, where the answer says it.
    pub fn project_path(&self) -> Option<&str> {
        let full = &self.references.as_ref()?.full;
        let (path, _) = full.rsplit_once(['#', '!'])?;
        (!path.is_empty()).then_some(path)
    }

    /// Whether the fork it comes from takes commits of those who may merge it.
    pub fn lets_us_in(&self) -> bool {
        self.allow_collaboration.or(self.allow_maintainer_to_push).unwrap_or(false)
    }

    /// Whether it is assigned to `login`.
    pub fn is_assigned_to(&self, login: &str) -> bool {
        let assignees = self.assignees.iter().flatten().flatten();
        assignees.into_iter().any(|user| user.username.eq_ignore_ascii_case(login))
    }

    /// `locked` is what a merge request is for a moment while it is being merged.
    fn item_state(&self) -> ItemState {
        match self.state.as_str() {
            "opened" | "locked" => ItemState::Open,
            "merged" => ItemState::Merged,
            _ => ItemState::Closed,
        }
    }

    /// As the rest of the program sees it.
    pub fn into_item(self, key: TaskKey) -> Item {
        let change = key.is_change();
        Item {
            repository: key.repository(),
            state: self.item_state(),
            key,
            title: self.title,
            body: self.description.unwrap_or_default(),
            author: username(self.author.as_ref()),
            labels: self.labels,
            assignees: usernames(self.assignees),
            location: self.web_url,
            change: change.then(|| Change {
                head_branch: self.source_branch,
                base_branch: self.target_branch,
                reviewers: usernames(self.reviewers),
            }),
        }
    }
}

impl From<Issuable> for PullRequest {
    fn from(request: Issuable) -> Self {
        Self {
            number: request.iid,
            state: request.item_state(),
            url: request.web_url,
            reviewers: usernames(request.reviewers),
        }
    }
}

/// A thread of a merge request; a single note is a thread of one.
#[derive(Debug, Deserialize)]
pub struct Discussion {
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// A note: what people call a comment.
#[derive(Debug, Deserialize)]
pub struct Note {
    pub id: u64,
    #[serde(default)]
    pub author: Option<User>,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub created_at: String,
    /// Written by GitLab about what somebody did.
    #[serde(default)]
    pub system: bool,
    /// For members only. `confidential` is the older name.
    #[serde(default)]
    pub internal: Option<bool>,
    #[serde(default)]
    pub confidential: Option<bool>,
    #[serde(default)]
    pub position: Option<Position>,
}

impl Note {
    /// When it was written, in milliseconds since the epoch. Servers write it in their own time zone.
    pub fn created_ms(&self) -> u64 {
        clock::parse_rfc3339(&self.created_at).unwrap_or(0)
    }

    /// Whether a person wrote it for everybody who sees the item.
    pub fn is_public_speech(&self) -> bool {
        !self.system && !self.internal.or(self.confidential).unwrap_or(false)
    }
}

/// Where in a difference a note stands.
#[derive(Debug, Deserialize)]
pub struct Position {
    #[serde(default)]
    pub new_path: Option<String>,
    #[serde(default)]
    pub old_path: Option<String>,
    /// Null on a removed line.
    #[serde(default)]
    pub new_line: Option<u64>,
}

/// A project.
#[derive(Debug, Deserialize)]
pub struct Project {
    pub id: u64,
    pub path_with_namespace: String,
    #[serde(default)]
    pub http_url_to_repo: String,
    #[serde(default)]
    pub archived: bool,
    /// `disabled`, `private` or `enabled`.
    #[serde(default)]
    pub issues_access_level: Option<String>,
    #[serde(default)]
    pub permissions: Option<Permissions>,
}

/// The token itself (docs: "Personal access tokens API", `self`).
#[derive(Debug, Deserialize)]
pub struct Token {
    #[serde(default)]
    pub scopes: Vec<String>,
    /// A day: `2025-06-30`.
    #[serde(default)]
    pub expires_at: Option<String>,
}

impl Project {
    /// Whether the answer says that we may push; silence is no "no": roles that come by way of other
    /// groups are not in it.
    pub fn says_we_may_push(&self) -> bool {
        self.permissions.as_ref().is_some_and(|permissions| {
            let roles = [&permissions.project_access, &permissions.group_access];
            roles.into_iter().flatten().any(|role| role.access_level >= DEVELOPER)
        })
    }
}

/// Our roles in a project.
#[derive(Debug, Deserialize)]
pub struct Permissions {
    #[serde(default)]
    pub project_access: Option<Role>,
    #[serde(default)]
    pub group_access: Option<Role>,
}

/// One of them.
#[derive(Debug, Deserialize)]
pub struct Role {
    #[serde(default)]
    pub access_level: u64,
}

/// The body of an error: `message` is a text, a list, or lists by field; of OAuth it is `error`.
#[derive(Debug, Default, Deserialize)]
pub struct ErrorBody {
    #[serde(default)]
    message: Value,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    error_description: Value,
}

impl ErrorBody {
    /// What the server says, in one line.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        for value in [&self.message, &self.error, &self.error_description] {
            say(value, "", &mut parts);
        }
        let line = parts.join("; ").replace(['\n', '\r'], " ");
        crate::text::head(line.trim(), 300).to_owned()
    }

    /// Whether it says so somewhere.
    pub fn says(&self, words: &str) -> bool {
        self.sentence().to_lowercase().contains(&words.to_lowercase())
    }
}

fn say(value: &Value, field: &str, parts: &mut Vec<String>) {
    match value {
        // `base` is no field, but the thing itself.
        Value::String(text) if field.is_empty() || field == "base" => parts.push(text.clone()),
        Value::String(text) => parts.push(format!("{field} {text}")),
        Value::Array(values) => values.iter().for_each(|value| say(value, field, parts)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| say(value, name, parts)),
        _ => {}
    }
}

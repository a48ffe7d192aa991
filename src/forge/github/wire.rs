//! Shapes of GitHub's REST API (docs.github.com/rest, version 2022-11-28), as far as we read them.
//! Unknown fields are ignored, missing optional ones tolerated, a null user is `ghost`.

use serde::Deserialize;

use crate::ports::{Change, GHOST, Item, ItemState, PullRequest};
use crate::task::TaskKey;

/// An account; null for a deleted one.
#[derive(Debug, Deserialize)]
pub struct User {
    pub login: String,
}

/// Login of an account that may be gone.
pub fn login(user: Option<&User>) -> String {
    user.map_or_else(|| GHOST.to_owned(), |user| user.login.clone())
}

/// Logins of the accounts that are still there.
fn logins(users: Option<Vec<Option<User>>>) -> Vec<String> {
    users.into_iter().flatten().flatten().map(|user| user.login).collect()
}

/// An issue, as in lists, searches and alone. Pull requests appear here too.
#[derive(Debug, Deserialize)]
pub struct Issue {
    pub number: u64,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub user: Option<User>,
    pub state: String,
    #[serde(default)]
    pub labels: Vec<Label>,
    #[serde(default)]
    pub assignees: Option<Vec<Option<User>>>,
    #[serde(default)]
    pub html_url: String,
    pub repository_url: String,
    #[serde(default)]
    pub author_association: Option<String>,
    #[serde(default)]
    pub pull_request: Option<serde_json::Value>,
}

/// A label: an object, in old answers a bare name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Label {
    Object { name: Option<String> },
    Name(String),
}

impl Label {
    fn into_name(self) -> Option<String> {
        match self {
            Self::Object { name } => name,
            Self::Name(name) => Some(name),
        }
    }
}

impl Issue {
    /// Owner and name of its repository as the API writes them: the last two parts of its address.
    pub fn repository(&self) -> Option<(String, String)> {
        let mut parts = self.repository_url.trim_end_matches('/').rsplit('/');
        let (repo, owner) = (parts.next()?, parts.next()?);
        (!repo.is_empty() && !owner.is_empty()).then(|| (owner.to_owned(), repo.to_owned()))
    }

    /// Its key; `None` when its address is strange.
    pub fn key(&self) -> Option<TaskKey> {
        let (owner, repo) = self.repository()?;
        Some(item_key(owner, repo, self.number, self.pull_request.is_some()))
    }

    /// As the rest of the program sees it.
    pub fn into_item(self, key: TaskKey) -> Item {
        Item {
            repository: key.repository(),
            key,
            title: self.title,
            body: self.body.unwrap_or_default(),
            author: login(self.user.as_ref()),
            state: if self.state == "open" { ItemState::Open } else { ItemState::Closed },
            labels: self.labels.into_iter().filter_map(Label::into_name).collect(),
            assignees: logins(self.assignees),
            location: self.html_url,
            change: None,
        }
    }
}

/// The key of an issue or pull request.
pub fn item_key(owner: String, repo: String, number: u64, is_pull: bool) -> TaskKey {
    if is_pull {
        TaskKey::GithubPullRequest { owner, repo, number }
    } else {
        TaskKey::GithubIssue { owner, repo, number }
    }
}

/// A page of a search.
#[derive(Debug, Deserialize)]
pub struct SearchPage {
    #[serde(default)]
    pub incomplete_results: bool,
    pub items: Vec<Issue>,
}

/// A comment on an issue.
#[derive(Debug, Deserialize)]
pub struct IssueComment {
    pub id: u64,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub created_at: String,
    #[serde(default)]
    pub author_association: Option<String>,
}

/// A repository.
#[derive(Debug, Deserialize)]
pub struct Repository {
    pub full_name: String,
    pub clone_url: String,
    #[serde(default)]
    pub archived: bool,
    /// Whether issues are switched on; older servers do not say.
    #[serde(default)]
    pub has_issues: Option<bool>,
    #[serde(default)]
    pub permissions: Option<Permissions>,
}

impl Repository {
    /// Whether our token may push; where the API does not say, the push itself will.
    pub fn may_push(&self) -> bool {
        self.permissions.as_ref().is_none_or(|permissions| permissions.push)
    }
}

/// What our token may do in a repository.
#[derive(Debug, Deserialize)]
pub struct Permissions {
    #[serde(default)]
    pub push: bool,
}

/// What somebody may do in a repository.
#[derive(Debug, Deserialize)]
pub struct Permission {
    pub permission: String,
}

/// A pull request.
#[derive(Debug, Deserialize)]
pub struct Pull {
    pub number: u64,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub user: Option<User>,
    pub html_url: String,
    pub state: String,
    #[serde(default)]
    pub merged_at: Option<String>,
    #[serde(default)]
    pub labels: Vec<Label>,
    #[serde(default)]
    pub assignees: Option<Vec<Option<User>>>,
    #[serde(default)]
    pub requested_reviewers: Option<Vec<Option<User>>>,
    #[serde(default)]
    pub author_association: Option<String>,
    #[serde(default)]
    pub maintainer_can_modify: bool,
    pub head: PullBranch,
    pub base: PullBranch,
}

/// One side of a pull request.
#[derive(Debug, Deserialize)]
pub struct PullBranch {
    /// The branch, without `refs/heads/`.
    #[serde(rename = "ref")]
    pub branch: String,
    /// Null when the fork was deleted.
    #[serde(default)]
    pub repo: Option<Repository>,
}

impl Pull {
    fn item_state(&self) -> ItemState {
        match (self.state.as_str(), &self.merged_at) {
            (_, Some(_)) => ItemState::Merged,
            ("open", None) => ItemState::Open,
            _ => ItemState::Closed,
        }
    }

    /// Its key now, which another name of the repository may have changed; `None` when it does not say.
    pub fn key(&self) -> Option<TaskKey> {
        let (owner, repo) = self.base.repo.as_ref()?.full_name.split_once('/')?;
        Some(TaskKey::GithubPullRequest { owner: owner.to_owned(), repo: repo.to_owned(), number: self.number })
    }

    /// As the rest of the program sees it.
    pub fn into_item(self, key: TaskKey) -> Item {
        Item {
            repository: key.repository(),
            key,
            state: self.item_state(),
            title: self.title,
            body: self.body.unwrap_or_default(),
            author: login(self.user.as_ref()),
            labels: self.labels.into_iter().filter_map(Label::into_name).collect(),
            assignees: logins(self.assignees),
            location: self.html_url,
            change: Some(Change {
                head_branch: self.head.branch,
                base_branch: self.base.branch,
                reviewers: logins(self.requested_reviewers),
            }),
        }
    }
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        Self {
            number: pull.number,
            state: pull.item_state(),
            url: pull.html_url,
            reviewers: logins(pull.requested_reviewers),
        }
    }
}

/// A review of a pull request.
#[derive(Debug, Deserialize)]
pub struct Review {
    pub id: u64,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub body: Option<String>,
    /// `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`, `DISMISSED`, `PENDING`.
    #[serde(default)]
    pub state: String,
    /// Missing while it is pending.
    #[serde(default)]
    pub submitted_at: Option<String>,
    #[serde(default)]
    pub author_association: Option<String>,
}

/// A comment on a line of a pull request; belongs to a review.
#[derive(Debug, Deserialize)]
pub struct ReviewComment {
    pub id: u64,
    #[serde(default)]
    pub pull_request_review_id: Option<u64>,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub path: String,
    /// Null when the line is gone by now.
    #[serde(default)]
    pub line: Option<u64>,
    #[serde(default)]
    pub diff_hunk: String,
    #[serde(default)]
    pub created_at: String,
    #[serde(default)]
    pub author_association: Option<String>,
}

/// The body of an error.
#[derive(Debug, Default, Deserialize)]
pub struct ErrorBody {
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub errors: Vec<ErrorDetail>,
}

/// One detail of an error: an object, sometimes a bare text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum ErrorDetail {
    Object {
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        field: Option<String>,
        #[serde(default)]
        message: Option<String>,
    },
    Text(String),
}

impl ErrorBody {
    /// What the server says, in one line.
    pub fn sentence(&self) -> String {
        let details = self.errors.iter().map(|detail| match detail {
            ErrorDetail::Text(text) => text.clone(),
            ErrorDetail::Object { message: Some(message), .. } => message.clone(),
            ErrorDetail::Object { code, field, .. } => {
                format!("{} {}", field.as_deref().unwrap_or("?"), code.as_deref().unwrap_or("?"))
            }
        });
        let parts: Vec<String> = std::iter::once(self.message.clone()).chain(details).collect();
        let line = parts.join("; ").replace(['\n', '\r'], " ");
        crate::text::head(line.trim(), 300).to_owned()
    }

    /// Whether one of the details says so.
    pub fn says(&self, words: &str) -> bool {
        let words = words.to_lowercase();
        self.sentence().to_lowercase().contains(&words)
    }
}

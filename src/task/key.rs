//! The task key: which item of which forge. One active task per key.

use crate::error::{Error, Result};

/// Identifies one issue, pull request or merge request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TaskKey {
    /// An issue on GitHub.
    GithubIssue {
        /// Owner of the repository, as the API returns it.
        owner: String,
        /// Name of the repository, as the API returns it.
        repo: String,
        /// Issue number.
        number: u64,
    },
    /// A pull request on GitHub.
    GithubPullRequest {
        /// Owner of the repository, as the API returns it.
        owner: String,
        /// Name of the repository, as the API returns it.
        repo: String,
        /// Pull request number.
        number: u64,
    },
    /// An issue on GitLab.
    GitlabIssue {
        /// Numeric project id.
        project_id: u64,
        /// Full project path with its groups.
        project_path: String,
        /// Issue number within the project.
        issue_iid: u64,
    },
    /// A merge request on GitLab.
    GitlabMergeRequest {
        /// Numeric project id.
        project_id: u64,
        /// Full project path with its groups.
        project_path: String,
        /// Merge request number within the project.
        mr_iid: u64,
    },
    /// An issue file of the local forge.
    LocalIssue {
        /// Stem of the file name.
        name: String,
    },
}

impl TaskKey {
    /// A local issue's key; `name` must be a plain file stem.
    ///
    /// # Errors
    /// `Kind::Task` when the name could leave the directory or is empty.
    pub fn local(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let plain = !name.is_empty()
            && !name.starts_with('.')
            && name.len() <= 200
            && !name.contains('/')
            && !name.chars().any(char::is_control);
        if plain {
            Ok(Self::LocalIssue { name })
        } else {
            Err(Error::task(format!("`{}` is no name of an issue file", name.escape_debug())))
        }
    }

    /// The value of `task_type` in files and database (`github_issue`, …).
    pub fn task_type(&self) -> &'static str {
        match self {
            Self::GithubIssue { .. } => "github_issue",
            Self::GithubPullRequest { .. } => "github_pull_request",
            Self::GitlabIssue { .. } => "gitlab_issue",
            Self::GitlabMergeRequest { .. } => "gitlab_merge_request",
            Self::LocalIssue { .. } => "local_issue",
        }
    }

    /// The task source it belongs to: `github`, `gitlab` or `local`.
    pub fn source(&self) -> &'static str {
        match self {
            Self::GithubIssue { .. } | Self::GithubPullRequest { .. } => "github",
            Self::GitlabIssue { .. } | Self::GitlabMergeRequest { .. } => "gitlab",
            Self::LocalIssue { .. } => "local",
        }
    }

    /// Whether it is a pull or merge request, whose own branch the work goes to.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::GithubPullRequest { .. } | Self::GitlabMergeRequest { .. })
    }

    /// What people there call a request to take in a branch.
    pub fn change_word(&self) -> &'static str {
        if self.source() == "gitlab" { "merge request" } else { "pull request" }
    }

    /// The item's number or name: `task_identifier` of the first seed.
    pub fn identifier(&self) -> String {
        match self {
            Self::GithubIssue { number, .. } | Self::GithubPullRequest { number, .. } => number.to_string(),
            Self::GitlabIssue { issue_iid, .. } => issue_iid.to_string(),
            Self::GitlabMergeRequest { mr_iid, .. } => mr_iid.to_string(),
            Self::LocalIssue { name } => name.clone(),
        }
    }

    /// `owner/repo`, the project path, or nothing for a local issue (its file names the repository).
    pub fn repository(&self) -> String {
        match self {
            Self::GithubIssue { owner, repo, .. } | Self::GithubPullRequest { owner, repo, .. } => {
                format!("{owner}/{repo}")
            }
            Self::GitlabIssue { project_path, .. } | Self::GitlabMergeRequest { project_path, .. } => {
                project_path.clone()
            }
            Self::LocalIssue { .. } => String::new(),
        }
    }

    /// The canonical text, lower case: `github/issue/owner/repo/7`.
    pub fn canonical(&self) -> String {
        let text = match self {
            Self::GithubIssue { owner, repo, number } => format!("github/issue/{owner}/{repo}/{number}"),
            Self::GithubPullRequest { owner, repo, number } => {
                format!("github/pull_request/{owner}/{repo}/{number}")
            }
            // The numeric id outlives a rename of the project; its path does not.
            Self::GitlabIssue { project_id, issue_iid, .. } => format!("gitlab/issue/{project_id}/{issue_iid}"),
            Self::GitlabMergeRequest { project_id, mr_iid, .. } => {
                format!("gitlab/merge_request/{project_id}/{mr_iid}")
            }
            Self::LocalIssue { name } => format!("local/issue/{name}"),
        };
        text.to_lowercase()
    }

    /// FNV-1a-64 of the canonical text in 16 hex digits: the key's place in a spool name.
    pub fn hash16(&self) -> String {
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let hash =
            self.canonical().bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        format!("{hash:016x}")
    }
}

impl std::fmt::Display for TaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.canonical())
    }
}

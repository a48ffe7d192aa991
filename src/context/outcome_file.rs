//! `outcome.json`: the decision how a task ends and the steps of finishing that were done. It is on
//! the disk before the first outward step; found at a claim, only finishing goes on. That is how a
//! finished task is told from one in mid-loop, and nothing is paid or posted twice.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Kind, Result};
use crate::sys::file;
use crate::task::{Outcome, OutcomeKind};
use crate::text::printable_json;

const FILE_NAME: &str = "outcome.json";

/// A step of finishing, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Left-overs in the tree committed and the commit chosen.
    Commit,
    /// Branch pushed, or the work kept as a patch.
    Push,
    /// Pull request opened or found.
    PullRequest,
    /// `final_summary.txt` written.
    Summary,
    /// Final comment posted.
    Comment,
    /// Labels set.
    Labels,
}

impl Step {
    /// The word in `steps_done`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Push => "push",
            Self::PullRequest => "pull_request",
            Self::Summary => "summary",
            Self::Comment => "comment",
            Self::Labels => "labels",
        }
    }
}

/// What `outcome.json` holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeFile {
    /// The decision.
    pub outcome: Outcome,
    /// Branch the work was pushed to.
    pub branch: Option<String>,
    /// Commit with the work; on the remote once the push step is done.
    pub sha: Option<String>,
    /// Pull request as the API reported it.
    pub pr_url: Option<String>,
    /// Id of the comment.
    pub comment: Option<String>,
    /// Name in the comment's hidden marker; `None` where the outcome has no comment. Fixed with the
    /// decision, so that a repeated step looks for the same comment.
    pub comment_name: Option<String>,
    /// File in the context directory that holds the work as a patch.
    pub patch: Option<String>,
    /// What was refused for good, in sentences.
    pub refusals: Vec<String>,
    /// Other facts for the final comment, in sentences.
    pub notes: Vec<String>,
    /// Names of the steps done.
    pub steps_done: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    outcome: String,
    reason: String,
    summary: String,
    branch: Option<String>,
    sha: Option<String>,
    pr_url: Option<String>,
    comment: Option<String>,
    #[serde(default)]
    comment_name: Option<String>,
    #[serde(default)]
    patch: Option<String>,
    #[serde(default)]
    refusals: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    steps_done: Vec<String>,
}

impl OutcomeFile {
    /// A fresh decision, told in the comment of that name.
    pub fn new(outcome: Outcome, comment_name: Option<String>) -> Self {
        Self {
            outcome,
            comment_name,
            branch: None,
            sha: None,
            pr_url: None,
            comment: None,
            patch: None,
            refusals: Vec::new(),
            notes: Vec::new(),
            steps_done: Vec::new(),
        }
    }

    /// The decision of a context directory; `None` when none was made.
    ///
    /// # Errors
    /// `Kind::Host` when the file cannot be read or understood.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE_NAME);
        let Some(bytes) = file::read(&path)? else { return Ok(None) };
        let wire: Wire =
            serde_json::from_slice(&bytes).context(Kind::Host, || format!("cannot read `{}`", path.display()))?;
        let kind = OutcomeKind::parse(&wire.outcome).ok_or_else(|| {
            Error::host(format!("cannot read `{}`: `{}` is no outcome", path.display(), wire.outcome))
        })?;
        Ok(Some(Self {
            outcome: Outcome { kind, reason: wire.reason, summary: wire.summary },
            branch: wire.branch,
            sha: wire.sha,
            pr_url: wire.pr_url,
            comment: wire.comment,
            comment_name: wire.comment_name,
            patch: wire.patch,
            refusals: wire.refusals,
            notes: wire.notes,
            steps_done: wire.steps_done,
        }))
    }

    /// Writes it; on the disk when this returns.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be written; then the earlier state stands.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let wire = Wire {
            outcome: self.outcome.kind.name().into(),
            reason: self.outcome.reason.clone(),
            summary: self.outcome.summary.clone(),
            branch: self.branch.clone(),
            sha: self.sha.clone(),
            pr_url: self.pr_url.clone(),
            comment: self.comment.clone(),
            comment_name: self.comment_name.clone(),
            patch: self.patch.clone(),
            refusals: self.refusals.clone(),
            notes: self.notes.clone(),
            steps_done: self.steps_done.clone(),
        };
        let json = serde_json::to_string_pretty(&wire).context(Kind::Bug, || "cannot write an outcome".into())?;
        file::replace(&dir.join(FILE_NAME), format!("{}\n", printable_json(&json)).as_bytes())
    }

    /// Forgets the decision of a paused task, which is about to be resumed.
    ///
    /// # Errors
    /// `Kind::Host` when the system refuses.
    pub fn forget(dir: &Path) -> Result<()> {
        file::remove(&dir.join(FILE_NAME))
    }

    /// Whether `step` was done.
    pub fn is_done(&self, step: Step) -> bool {
        self.steps_done.iter().any(|name| name == step.name())
    }
}

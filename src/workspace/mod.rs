//! A task's two repositories: `repo.git`, ours, bare, the only place that talks to the remote; and
//! `tree`, a clone of it that belongs to the model. Nothing of ours with a credential runs in `tree`.

mod branch;
mod clone;
mod commit;
mod git;
mod push;
mod submodules;
mod suspicious;
mod tracked;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Kind, Result};
use crate::ports::RepositorySource;
use crate::sys::bubblewrap::Bubblewrap;
use crate::sys::{fault, file};
use crate::task::TaskId;

pub use branch::ref_segment;
pub use commit::{Committed, WorkState};
pub use git::{Git, check_installed};
pub use push::Pushed;

/// What every workspace needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Directory of all workspaces.
    pub root: PathBuf,
    /// History to clone; `None` = all of it.
    pub depth: Option<u32>,
    /// Author of our commits.
    pub author_name: String,
    /// Author of our commits; a branch whose commits all have it is ours.
    pub author_email: String,
    /// Whether submodules of the repository's own owner are checked out.
    pub own_submodules: bool,
    /// What the environment of git calls may hold (PATH, HOME, proxies).
    pub env: Vec<(String, OsString)>,
    /// What keeps git calls in the tree inside: a model can make git start programs there.
    pub sandbox: Option<Bubblewrap>,
}

/// One task's repositories.
#[derive(Debug)]
pub struct Workspace {
    dir: PathBuf,
    settings: Settings,
    remote: RepositorySource,
    file: WorkspaceFile,
}

/// `workspace.json`: written when both repositories stand, so its presence means "ready".
#[derive(Debug, Clone, Serialize, Deserialize)]
struct WorkspaceFile {
    url: String,
    /// Branch the work goes to.
    branch: String,
    /// Branch a pull request goes into: the remote's default branch, `None` when its HEAD is detached.
    base_branch: Option<String>,
    /// Tip of the base branch where the work goes to the head branch of a pull request, and no other.
    #[serde(default)]
    base_sha: Option<String>,
    /// Where the work begins: tip of the base, or of the branch that is continued.
    start_sha: String,
    /// Whether the branch was there before.
    continued: bool,
}

/// A workspace ready for work.
#[derive(Debug)]
pub struct Prepared {
    /// The repositories.
    pub workspace: Workspace,
    /// The tree was damaged and had to be made again; the model has to know.
    pub made_again: bool,
}

const FILE_NAME: &str = "workspace.json";
/// What the base of a pull request is called in the tree, as people call the repository they forked.
const BASE_REMOTE: &str = "upstream";

impl Workspace {
    /// The directory a task's workspace has.
    pub fn directory(root: &Path, uuid: TaskId) -> PathBuf {
        // Absolute: git and commands run in other working directories.
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
        root.join(uuid.to_string())
    }

    /// The workspace of a task, if it stands. Without `remote` it can be pushed only where nothing is
    /// needed to open it.
    ///
    /// # Errors
    /// `Kind::Host` when its file cannot be read.
    pub fn find(settings: &Settings, uuid: TaskId, remote: Option<&RepositorySource>) -> Result<Option<Self>> {
        let dir = Self::directory(&settings.root, uuid);
        let Some(bytes) = file::read(&dir.join(FILE_NAME))? else { return Ok(None) };
        let file: WorkspaceFile = serde_json::from_slice(&bytes)
            .context(Kind::Host, || format!("cannot read `{}`", dir.join(FILE_NAME).display()))?;
        let as_before = || RepositorySource { url: file.url.clone(), credential: None, change: None };
        let remote = remote.cloned().unwrap_or_else(as_before);
        Ok(Some(Self { dir, settings: settings.clone(), remote, file }))
    }

    /// Makes the workspace, or takes up the one that stands. `wish` is the branch the work should
    /// go to, unless `remote` names one; `is_over` says whether a branch's pull request was merged or
    /// closed.
    ///
    /// # Errors
    /// `Kind::Task` when this repository cannot be worked on, `Kind::Later` when it cannot be
    /// reached, `Kind::Host` when the disk is the trouble.
    pub fn prepare(
        settings: &Settings,
        uuid: TaskId,
        remote: &RepositorySource,
        wish: &str,
        is_over: &dyn Fn(&str) -> Result<bool>,
    ) -> Result<Prepared> {
        if let Some(workspace) = Self::find(settings, uuid, Some(remote))? {
            let made_again = workspace.mend()? || workspace.was_made_again();
            return Ok(Prepared { workspace, made_again });
        }
        let workspace = Self::make(settings, uuid, remote, wish, is_over)?;
        Ok(Prepared { workspace, made_again: false })
    }

    /// The work tree, where the model works.
    pub fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// Directory beside the tree for HOME and TMPDIR of commands.
    pub fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    /// Directory beside the tree for what the text editor needs to take edits back.
    pub fn edits(&self) -> PathBuf {
        self.dir.join("edits")
    }

    /// Branch the work goes to.
    pub fn branch(&self) -> &str {
        &self.file.branch
    }

    /// Branch a pull request should go into.
    pub fn base_branch(&self) -> Option<&str> {
        self.file.base_branch.as_deref()
    }

    /// Whether the work goes to the head branch of a pull request that is there already.
    pub fn is_change(&self) -> bool {
        self.file.base_sha.is_some()
    }

    /// What the pull request changes so far, as git lists it for people; empty where it is none.
    ///
    /// # Errors
    /// `Kind::Host` when git cannot be started.
    pub fn changes_so_far(&self) -> Result<String> {
        let Some(base) = &self.file.base_sha else { return Ok(String::new()) };
        // With a cut history there may be no common commit.
        for range in [format!("{base}...{}", self.file.start_sha), format!("{base}..{}", self.file.start_sha)] {
            let listed = self.bare().finish(["diff", "--stat=120", "--no-ext-diff", "--no-textconv", &range])?;
            if listed.succeeded() {
                return Ok(listed.stdout.to_text());
            }
        }
        Ok(String::new())
    }

    /// Name of the base branch in the tree.
    pub fn base_in_tree(&self) -> Option<String> {
        let base = self.file.base_sha.as_ref().and(self.file.base_branch.as_ref());
        base.map(|branch| format!("{BASE_REMOTE}/{branch}"))
    }

    /// The commit the work began at.
    pub fn start_sha(&self) -> &str {
        &self.file.start_sha
    }

    /// Whether the branch had work of ours before this task.
    pub fn is_continued(&self) -> bool {
        self.file.continued
    }

    /// Removes everything, once the work is safe elsewhere.
    ///
    /// # Errors
    /// `Kind::Host` when the system refuses.
    pub fn remove(self) -> Result<()> {
        // The file first: half a directory without it is made anew, with it it would look ready.
        file::remove(&self.dir.join(FILE_NAME))?;
        fault::point("workspace.unmarked");
        file::remove_dir(&self.dir)
    }

    /// Removes what is left of a workspace that never was ready, or whose removal was interrupted.
    ///
    /// # Errors
    /// `Kind::Host` when the system refuses.
    pub fn sweep(settings: &Settings, uuid: TaskId) -> Result<()> {
        let dir = Self::directory(&settings.root, uuid);
        if dir.join(FILE_NAME).exists() { Ok(()) } else { file::remove_dir(&dir) }
    }

    fn bare(&self) -> Git {
        Git::bare(&self.dir.join("repo.git"), &self.settings)
    }

    /// `repo.git` with what opens the remote: for calls that talk to it, and no others.
    fn toward_remote(&self) -> Git {
        self.bare().toward(&self.remote)
    }

    /// `repo.git` for looking at commits that are in it.
    fn commits(&self) -> Git {
        Git::bare_alone(&self.dir.join("repo.git"), &self.settings)
    }

    fn in_tree(&self) -> Git {
        Git::in_tree(&self.tree(), &self.settings)
    }
}

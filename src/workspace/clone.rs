//! Making the two repositories, and mending them after a crash.

use std::path::Path;

use super::branch::{self, Choice};
use super::{FILE_NAME, Git, Settings, Workspace, WorkspaceFile, submodules};
use crate::error::{Context, Error, Kind, Result};
use crate::ports::{ChangeSource, RepositorySource};
use crate::sys::{fault, file};
use crate::task::TaskId;

/// Where `repo.git` keeps the base of a pull request.
const BASE_REF: &str = "refs/coding-agent/base";

/// There while the model, and whoever takes its work, has to be told that the tree was made again.
const MADE_AGAIN: &str = "tree.made_again";

impl Workspace {
    pub(super) fn make(
        settings: &Settings,
        uuid: TaskId,
        remote: &RepositorySource,
        wish: &str,
        is_over: &dyn Fn(&str) -> Result<bool>,
    ) -> Result<Self> {
        let url = remote.url.as_str();
        let dir = Self::directory(&settings.root, uuid);
        // Without its file nothing here was ever used: a killed clone, to be made again.
        file::remove_dir(&dir)?;
        file::create_dir(&dir)?;
        let bare = clone_bare(&dir, settings, remote)?;
        let base_sha = remote.change.as_ref().map(|change| fetch_base(&bare, remote, change)).transpose()?;
        let start_of_base = bare.finish(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        if !start_of_base.succeeded() {
            return Err(Error::task(format!("the repository `{url}` has no commits yet"))
                .hint("push a first commit, then set the label again"));
        }
        let (base_branch, Choice { branch, tip }) = match &remote.change {
            Some(change) => {
                let choice = Choice { branch: change.head_branch.clone(), tip: None };
                (Some(change.base_branch.clone()), choice)
            }
            None => {
                let symbolic = bare.finish(["symbolic-ref", "--quiet", "--short", "HEAD"])?;
                let base_branch = symbolic.succeeded().then(|| symbolic.stdout.to_text().trim().to_owned());
                (base_branch, branch::choose(&bare, settings, remote, wish, is_over)?)
            }
        };
        let workspace = Self {
            settings: settings.clone(),
            remote: remote.clone(),
            file: WorkspaceFile {
                url: url.to_owned(),
                continued: tip.is_some(),
                start_sha: tip.unwrap_or_else(|| start_of_base.stdout.to_text().trim().to_owned()),
                branch,
                base_branch,
                base_sha,
            },
            dir,
        };
        workspace.make_tree(&workspace.file.start_sha)?;
        let bytes = serde_json::to_vec_pretty(&workspace.file)
            .context(Kind::Bug, || "cannot write the workspace file".into())?;
        file::replace(&workspace.dir.join(FILE_NAME), &bytes)?;
        Ok(workspace)
    }

    /// Clones the tree from `repo.git` and checks `sha` out on the work branch.
    fn make_tree(&self, sha: &str) -> Result<()> {
        let what = "cannot make the work tree";
        let part = self.dir.join("tree.part");
        file::remove_dir(&part)?;
        // Not hard-linked: what the model does to its objects must not reach ours. No template: the
        // hooks of a person are not for it.
        let args = ["clone", "--quiet", "--no-hardlinks", "--no-checkout", "--template=", "repo.git", "tree.part"];
        Git::without_configuration(&self.dir, &self.settings).run(what, args)?;
        let tree = Git::in_fresh_tree(&part, &self.settings);
        submodules::identify(&tree, &self.settings, what)?;
        if let (Some(base), Some(base_sha)) = (self.base_in_tree(), &self.file.base_sha) {
            tree.run(what, ["fetch", "--quiet", "--no-tags", "../repo.git", BASE_REF])?;
            tree.run(what, ["update-ref", &format!("refs/remotes/{base}"), base_sha])?;
        }
        tree.run(what, ["checkout", "--quiet", "-B", &self.file.branch, sha])?;
        self.check_out_submodules("tree.part", sha)?;
        fault::point("workspace.tree.part");
        file::rename(&part, &self.tree())
    }

    /// Whether the tree was made again and nobody was told.
    pub(super) fn was_made_again(&self) -> bool {
        self.dir.join(MADE_AGAIN).exists()
    }

    /// Notes that the model knows of its new tree.
    ///
    /// # Errors
    /// `Kind::Host` when the system refuses.
    pub fn told_made_again(&self) -> Result<()> {
        file::remove(&self.dir.join(MADE_AGAIN))
    }

    /// Mends a workspace that an earlier process left; `true` when the tree had to be made again.
    pub(super) fn mend(&self) -> Result<bool> {
        // What the model made of its own directory must not stop other tasks.
        if let Err(error) = remove_stale_locks(&self.tree().join(".git")) {
            log::warn!("{error:#}");
        }
        remove_stale_locks(&self.dir.join("repo.git"))?;
        let tree = self.in_tree();
        // A broken submodule is the model's affair; this is about the repository itself.
        let look = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"];
        if self.tree().join(".git").exists() && tree.says_yes(look)? {
            return Ok(false);
        }
        log::warn!("the work tree `{}` is damaged; it is set aside and made again", self.tree().display());
        // Before anything is moved: whoever comes after a kill must know as well.
        file::replace(&self.dir.join(MADE_AGAIN), b"")?;
        let broken = self.dir.join("tree.broken");
        // Only for another one: what is there may be the only copy of the work.
        if self.tree().exists() {
            file::remove_dir(&broken)?;
            file::rename(&self.tree(), &broken)?;
        }
        let bare = self.toward_remote();
        // On the branch of a pull request there may be a person's commits by now, which are not our work.
        let pushed = match self.is_change() {
            true => None,
            false => branch::remote_branches(&bare, &self.remote.url, &self.file.branch)?.remove(&self.file.branch),
        };
        if pushed.is_some() {
            let what = format!("cannot fetch the branch `{}`", self.file.branch);
            let refspec = format!("+refs/heads/{0}:refs/heads/{0}", self.file.branch);
            bare.run(&what, ["fetch", "--quiet", "--no-tags", &self.remote.url, &refspec])?;
        }
        self.make_tree(pushed.as_deref().unwrap_or(&self.file.start_sha))?;
        Ok(true)
    }
}

/// The base of a pull request, so that the model can see what the change is.
fn fetch_base(bare: &Git, remote: &RepositorySource, change: &ChangeSource) -> Result<String> {
    let url = change.base_url.as_str();
    let base = RepositorySource { url: url.to_owned(), credential: remote.credential.clone(), change: None };
    let what = format!("cannot fetch the branch `{}` of `{url}`", change.base_branch);
    let refspec = format!("+refs/heads/{}:{BASE_REF}", change.base_branch);
    bare.clone().toward(&base).run(&what, ["fetch", "--quiet", "--no-tags", url, &refspec])?;
    bare.run(&what, ["rev-parse", "--verify", &format!("{BASE_REF}^{{commit}}")])
}

fn clone_bare(dir: &Path, settings: &Settings, remote: &RepositorySource) -> Result<Git> {
    let url = remote.url.as_str();
    let mut args = vec!["clone", "--quiet", "--bare", "--single-branch", "--no-tags", "--template="];
    let depth = settings.depth.map(|depth| format!("--depth={depth}"));
    args.extend(depth.as_deref());
    let branch = remote.change.as_ref().map(|change| format!("--branch={}", change.head_branch));
    args.extend(branch.as_deref());
    args.extend(["--", url, "repo.git.part"]);
    Git::outside(dir, settings).toward(remote).run(&format!("cannot clone `{url}`"), args)?;
    fault::point("workspace.repo.part");
    file::rename(&dir.join("repo.git.part"), &dir.join("repo.git"))?;
    Ok(Git::bare(&dir.join("repo.git"), settings))
}

/// Removes the lock files that killed git processes left. The caller has seen to it that no process
/// of the task lives.
pub(super) fn remove_stale_locks(git_dir: &Path) -> Result<()> {
    // A model can put links in their places, which lead out of the tree.
    let mut dirs = vec![git_dir.to_path_buf(), git_dir.join("refs")];
    if dirs.iter().any(|dir| dir.is_symlink()) {
        return Ok(());
    }
    while let Some(dir) = dirs.pop() {
        for name in file::names(&dir).unwrap_or_default() {
            let path = dir.join(&name);
            if name.ends_with(".lock") {
                log::info!("removing `{}`, left by a killed git", path.display());
                let is_dir = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
                if is_dir { file::remove_dir(&path)? } else { file::remove(&path)? }
            } else if dir != git_dir && !path.is_symlink() && path.is_dir() {
                dirs.push(path);
            }
        }
    }
    Ok(())
}

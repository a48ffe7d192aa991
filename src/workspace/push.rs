//! Pushing: the commit goes from the tree into `repo.git` and from there to the remote, by its SHA
//! and never by force. "Pushed" is what the remote says afterwards.

use std::ffi::OsString;

use super::{Git, Workspace, branch, clone, git};
use crate::error::{Error, Kind, Result};
use crate::sys::bubblewrap::Inside;
use crate::sys::fault;
use crate::text::head;

/// The tree is ours whoever its files belong to now: a command may have changed that.
const UPLOAD_PACK: [&str; 4] = ["git", "-c", "safe.directory=*", "upload-pack"];
/// Most of what the remote says that is quoted.
const QUOTE_BYTES: usize = 400;

/// How a push ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The remote has the commit under this branch.
    At(String),
    /// The remote refuses for good; the reason in its words.
    Refused(String),
}

/// Reasons in a rejected push that pass by themselves.
const PASSING: [&str; 4] = ["Internal Server Error", "cannot lock ref", "unpacker error", "failed to report status"];

impl Workspace {
    /// What the remote has under `branch`.
    ///
    /// # Errors
    /// `Kind::Later` when it cannot be reached.
    pub fn remote_sha(&self, branch: &str) -> Result<Option<String>> {
        Ok(branch::remote_branches(&self.toward_remote(), &self.remote.url, branch)?.remove(branch))
    }

    /// Brings `sha` from the tree into `repo.git`, where git trusts nothing that a model wrote: it
    /// makes every object anew and checks its name.
    pub(super) fn take_in(&self, sha: &str) -> Result<()> {
        let repository = self.dir.join("repo.git");
        clone::remove_stale_locks(&repository)?;
        let tree = self.tree();
        let upload_pack = match &self.settings.sandbox {
            // The one program here that runs in the model's tree.
            Some(sandbox) => sandbox.shell_line(&UPLOAD_PACK, Inside { writable: &[&tree], ..Inside::default() }),
            None => UPLOAD_PACK.join(" ").into(),
        };
        let mut option = OsString::from("--upload-pack=");
        option.push(upload_pack);
        let refspec = format!("+{sha}:refs/coding-agent/work");
        let args = ["fetch".into(), "--quiet".into(), "--no-tags".into(), option, tree.into(), refspec.into()];
        // Without credentials and without an environment that could hold some.
        Git::bare_alone(&repository, &self.settings).run("cannot fetch the work from the work tree", args).map(drop)
    }

    /// Pushes `sha` to `branch`. Where the branch moved on meanwhile: to the next free name, unless it
    /// is that of a pull request.
    ///
    /// # Errors
    /// `Kind::Later` when the remote cannot be reached.
    pub fn push(&self, sha: &str, branch: &str) -> Result<Pushed> {
        self.take_in(sha)?;
        for number in 1..20 {
            let branch = branch::numbered(branch, number);
            if number > 1 && self.remote_sha(&branch)?.is_some_and(|there| there != sha) {
                continue;
            }
            let refspec = format!("{sha}:refs/heads/{branch}");
            let args = ["push", "--porcelain", "--no-verify", &self.remote.url, &refspec];
            let finished = self.toward_remote().finish(args)?;
            fault::point("workspace.pushed");
            // Whatever git says: a push whose answer was lost has taken effect all the same.
            let there = || self.remote_sha(&branch).ok().flatten();
            if !finished.succeeded() && there().is_some_and(|there| there == sha) {
                return Ok(Pushed::At(branch));
            }
            let said = finished.stdout.to_text();
            let refused = said
                .lines()
                .find_map(|line| line.strip_prefix("!\t"))
                .map(|line| line.split_once('\t').map_or(line, |(_, reason)| reason).to_owned());
            match refused {
                Some(reason) if is_moved_on(&reason) && self.is_change() => {
                    return Ok(Pushed::Refused(format!("the branch `{branch}` has got other commits meanwhile")));
                }
                Some(reason) if is_moved_on(&reason) => {
                    log::info!("`{branch}` has commits that are not ours; trying the next name");
                }
                // The server's own trouble, not its answer.
                Some(reason) if PASSING.iter().any(|words| reason.contains(words)) => {
                    return Err(Error::later(format!("cannot push to `{}` now: {reason}", self.remote.url)));
                }
                Some(reason) => return Ok(Pushed::Refused(reason + &words_of_remote(&finished.stderr.to_text()))),
                None if !finished.succeeded() => {
                    let error = git::failure(&format!("cannot push to `{}`", self.remote.url), &finished);
                    let for_good = error.kind() == Kind::Task;
                    return if for_good { Ok(Pushed::Refused(error.to_string())) } else { Err(error) };
                }
                None => {
                    return match self.remote_sha(&branch)? {
                        Some(there) if there == sha => Ok(Pushed::At(branch)),
                        _ => Err(Error::later(format!("the remote took `{branch}` but does not show the commit"))),
                    };
                }
            }
        }
        Ok(Pushed::Refused(format!("no free branch name beginning with `{branch}`")))
    }
}

fn is_moved_on(reason: &str) -> bool {
    reason.contains("fetch first") || reason.contains("non-fast-forward")
}

/// What a hook or the server says about a refusal, on one line.
fn words_of_remote(stderr: &str) -> String {
    let lines = stderr.lines().filter_map(|line| line.strip_prefix("remote:")).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let words: String = lines.join(" / ").chars().filter(|character| !character.is_control()).collect();
    if words.is_empty() { words } else { format!(": {}", head(&words, QUOTE_BYTES)) }
}

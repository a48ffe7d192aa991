//! From what lies in the tree to the one commit that is meant: left-overs are committed, what does
//! not belong is left out and told, and a tree in the middle of something is reported, not guessed at.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::BufRead as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::tracked::NotMeant;
use super::{Workspace, suspicious};
use crate::error::{Error, Kind, Result};
use crate::sys::file;
use crate::text::{Redactor, inline_code};

const HOLDS_SECRET: &str = "holds a secret of the agent";
const OWN_REPOSITORY: &str = "a repository of its own";
const CHANGED_SUBMODULE: &str = "a submodule; its change counts only where it was staged";
const FILES_IN_SUBMODULE: &str = "files in a submodule that is not checked out";

/// The commit with the work.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    /// What state the work is in.
    pub state: WorkState,
    /// Files that were left out, each with the reason, for the comment.
    pub left_out: Vec<String>,
}

/// What can be done with the work.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkState {
    /// No file differs from where the work began.
    Unchanged,
    /// This commit holds the work.
    At(String),
    /// This commit holds work that must not be pushed as it is, and why.
    Held(String, String),
}

impl Workspace {
    /// Commits what lies in the tree with `message` and finds the commit that holds the work.
    ///
    /// Where git refuses in the tree the work is held: it must not pass for no work at all.
    ///
    /// # Errors
    /// `Kind::Host` when the disk is the trouble, `Kind::Later` when a damaged tree cannot be made again.
    pub fn commit(&self, message: &str, redactor: &Redactor) -> Result<Committed> {
        match self.find_work(message, redactor) {
            Err(error) if error.kind() == Kind::Task => {
                log::warn!("{error:#}");
                let sha = self.rev_parse("HEAD")?.unwrap_or_else(|| self.file.start_sha.clone());
                Ok(Committed { state: WorkState::Held(sha, error.sentence().to_owned()), left_out: Vec::new() })
            }
            other => other,
        }
    }

    fn find_work(&self, message: &str, redactor: &Redactor) -> Result<Committed> {
        if self.mend()? || self.was_made_again() {
            let reason = "the git repository of the work tree is damaged; the files are kept in `tree.broken`";
            let state = WorkState::Held(self.file.start_sha.clone(), reason.to_owned());
            return Ok(Committed { state, left_out: Vec::new() });
        }
        let unfinished = self.unfinished()?;
        let left_out = if unfinished.is_none() { self.commit_left_overs(message, redactor)? } else { Vec::new() };
        let sha = self.rev_parse("HEAD")?.ok_or_else(|| Error::task("the work tree has no commit at HEAD"))?;
        let held = match unfinished {
            Some(reason) => Some(reason),
            None => self.split_work(&sha)?,
        };
        let state = if let Some(reason) = held {
            WorkState::Held(sha, reason)
        } else {
            let sha = self.intended(sha)?;
            self.take_in(&sha)?;
            if self.commits().says_yes(["diff", "--quiet", "--no-ext-diff", &self.file.start_sha, &sha])? {
                WorkState::Unchanged
            } else if let Some(reason) = self.audit(&sha, redactor)? {
                WorkState::Held(sha, reason)
            } else {
                WorkState::At(sha)
            }
        };
        Ok(Committed { state, left_out })
    }

    /// Writes the work up to `sha` as a patch to `path`.
    ///
    /// # Errors
    /// `Kind::Task` when git refuses.
    pub fn write_patch(&self, sha: &str, path: &Path) -> Result<()> {
        let path = std::path::absolute(path).map_err(|source| file::error("write", path, source))?;
        let output = format!("--output={}", path.display());
        let args = ["diff", "--binary", "--no-ext-diff", "--no-textconv", &output, &self.file.start_sha, sha];
        self.take_in(sha)?;
        self.commits().run("cannot keep the work as a patch", args).map(drop)
    }

    /// A rebase or merge that was begun and not ended, or its conflicts (case C51).
    fn unfinished(&self) -> Result<Option<String>> {
        let git_dir = self.tree().join(".git");
        let operation = [
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("MERGE_HEAD", "merge"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
            ("sequencer", "cherry-pick or revert"),
        ]
        .into_iter()
        .find_map(|(name, operation)| git_dir.join(name).exists().then_some(operation));
        if let Some(operation) = operation {
            return Ok(Some(format!("the work tree is in the middle of a {operation}")));
        }
        // A stash that did not apply leaves nothing but these.
        let unmerged = self.in_tree().run_bytes("cannot look for conflicts", ["ls-files", "--unmerged"])?;
        Ok((!unmerged.is_empty()).then(|| "the work tree has unresolved conflicts".to_owned()))
    }

    fn commit_left_overs(&self, message: &str, redactor: &Redactor) -> Result<Vec<String>> {
        let what = "cannot commit what is in the work tree";
        let git = self.in_tree();
        let status =
            git.run_bytes(what, ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"])?;
        let mut fresh = Vec::new();
        let mut staged = Vec::new();
        let mut changed = Vec::new();
        for entry in status.split(|byte| *byte == 0) {
            match entry {
                [b'?', b'?', b' ', path @ ..] => fresh.push(path),
                [b'A', _, b' ', path @ ..] => staged.push(path),
                [_, in_tree, b' ', path @ ..] => changed.push((path, *in_tree != b' ')),
                _ => {}
            }
        }
        let gitlinks = self.gitlinks()?;
        let not_meant = self.not_meant(&changed, &gitlinks)?;
        let mut sorted = self.sort_out(&fresh, &staged, redactor);
        sorted.leave_out(&not_meant);
        git.run(what, ["add", "--update", "--", "."])?;
        self.keep_gitlinks(what, &not_meant.gitlinks)?;
        self.on_paths(what, &["reset", "--quiet"], &sorted.unstage)?;
        self.on_paths(what, &["add"], &sorted.add)?;
        if !git.says_yes(["diff", "--cached", "--quiet", "--no-ext-diff"])? {
            git.run(what, ["commit", "--quiet", "--no-verify", "--message", message])?;
        }
        Ok(sorted.told)
    }

    fn sort_out<'a>(&self, fresh: &[&'a [u8]], staged: &[&'a [u8]], redactor: &Redactor) -> Sorted<'a> {
        let mut per_directory: HashMap<String, usize> = HashMap::new();
        for path in fresh {
            if let Some(top) = suspicious::top_directory(&String::from_utf8_lossy(path)) {
                *per_directory.entry(top.to_owned()).or_default() += 1;
            }
        }
        let mut sorted = Sorted { add: Vec::new(), unstage: Vec::new(), told: Vec::new() };
        // Files of one directory left out for one reason are told as one.
        let mut groups: Vec<(String, &'static str, usize)> = Vec::new();
        for (path, is_staged) in fresh.iter().map(|p| (*p, false)).chain(staged.iter().map(|p| (*p, true))) {
            let text = String::from_utf8_lossy(path);
            let crowded = suspicious::top_directory(&text).filter(|top| {
                per_directory.get(*top).is_some_and(|count| *count > suspicious::MOST_FILES_OF_DIRECTORY)
            });
            let reason = match crowded {
                Some(_) => Some("too many new files"),
                None => self.reason_against(path, redactor),
            };
            let Some(reason) = reason else {
                if !is_staged {
                    sorted.add.push(path);
                }
                continue;
            };
            if is_staged {
                sorted.unstage.push(path);
            }
            let alone = [suspicious::LOOKS_SECRET, HOLDS_SECRET, OWN_REPOSITORY].contains(&reason);
            let top = suspicious::top_directory(&text).filter(|_| !alone);
            let place = top.map_or_else(|| text.to_string(), |top| format!("{top}/"));
            match groups.iter_mut().find(|(known, why, _)| *known == place && *why == reason) {
                Some((_, _, count)) => *count += 1,
                None => groups.push((place, reason, 1)),
            }
        }
        sorted.told = groups
            .into_iter()
            .map(|(place, reason, count)| match count {
                1 => format!("{} ({reason})", inline_code(&place)),
                _ => format!("{} ({count} files: {reason})", inline_code(&place)),
            })
            .collect();
        sorted
    }

    fn reason_against(&self, path: &[u8], redactor: &Redactor) -> Option<&'static str> {
        let full = self.tree().join(OsStr::from_bytes(path));
        let metadata = std::fs::symlink_metadata(&full).ok()?;
        suspicious::reason(&String::from_utf8_lossy(path), metadata.len()).or_else(|| {
            if metadata.is_dir() {
                // Only a repository is told as a directory. Git would commit a pointer to a commit
                // that nobody else has, or refuse everything when it has none.
                return Some(OWN_REPOSITORY);
            }
            let bytes = metadata.is_file().then(|| std::fs::read(&full).ok()).flatten()?;
            redactor.finds_in(&String::from_utf8_lossy(&bytes)).then_some(HOLDS_SECRET)
        })
    }

    /// Runs git on a list of paths, which may be longer than a command line.
    fn on_paths(&self, what: &str, command: &[&str], paths: &[&[u8]]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let list = self.dir.join("paths");
        file::replace(&list, &paths.join(&0))?;
        let from_file = format!("--pathspec-from-file={}", list.display());
        let args = command.iter().copied().chain([from_file.as_str(), "--pathspec-file-nul"]);
        self.in_tree().reading(&list).run(what, args).map(drop)
    }

    fn rev_parse(&self, name: &str) -> Result<Option<String>> {
        let finished = self.in_tree().finish(["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])?;
        Ok(finished.succeeded().then(|| finished.stdout.to_text().trim().to_owned()))
    }

    /// Why HEAD and the work branch cannot both be meant: each has commits the other lacks.
    fn split_work(&self, head: &str) -> Result<Option<String>> {
        let Some(tip) = self.branch_tip()? else { return Ok(None) };
        let git = self.in_tree();
        let contains = |older: &str, newer: &str| git.says_yes(["merge-base", "--is-ancestor", older, newer]);
        if contains(&tip, head)? || contains(head, &tip)? {
            return Ok(None);
        }
        let branch = self.branch();
        Ok(Some(format!("the work is split: HEAD and the branch `{branch}` each have commits the other lacks")))
    }

    /// HEAD, or the work branch where it is ahead of HEAD (case C51).
    fn intended(&self, head: String) -> Result<String> {
        match self.branch_tip()? {
            Some(tip) if self.in_tree().says_yes(["merge-base", "--is-ancestor", &head, &tip])? => Ok(tip),
            _ => Ok(head),
        }
    }

    fn branch_tip(&self) -> Result<Option<String>> {
        self.rev_parse(&format!("refs/heads/{}", self.file.branch))
    }

    /// What the commits of the model hold that must not leave this machine.
    fn audit(&self, sha: &str, redactor: &Redactor) -> Result<Option<String>> {
        let what = "cannot look through the commits";
        let git = self.commits();
        let range = format!("{}..{sha}", self.file.start_sha);
        // Every commit, not only the last state: a secret that was removed again is pushed all the same.
        // `-c`, and `-m` below: what a merge itself brought in, which `log` leaves out otherwise.
        let log =
            git.run(what, ["log", "--format=", "--name-only", "-z", "--no-renames", "--diff-filter=A", "-c", &range])?;
        let mut added: Vec<&str> = log.split('\0').filter(|path| !path.is_empty()).collect();
        added.sort_unstable();
        added.dedup();
        let sizes = git.run(what, ["ls-tree", "-r", "-l", "-z", sha])?;
        let sizes: HashMap<&str, u64> = sizes
            .split('\0')
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(facts, path)| Some((path, facts.split_whitespace().last()?.parse().ok()?)))
            .collect();
        for path in added {
            if let Some(reason) = suspicious::reason(path, sizes.get(path).copied().unwrap_or(0)) {
                return Ok(Some(format!("the model committed `{path}`: {reason}")));
            }
        }
        let patches = self.dir.join("patches");
        let output = format!("--output={}", patches.display());
        // As text, whatever an attribute says: a secret in a binary file is a secret.
        let args = ["log", "--patch", "--text", "-m", "--no-ext-diff", "--no-textconv", "--format=%an %ae%n%B"];
        git.run(what, args.into_iter().chain([output.as_str(), range.as_str()]))?;
        let found = finds_secret(&patches, redactor)?;
        file::remove(&patches)?;
        Ok(found.then(|| "the commits hold a secret of the agent".to_owned()))
    }
}

struct Sorted<'a> {
    add: Vec<&'a [u8]>,
    unstage: Vec<&'a [u8]>,
    told: Vec<String>,
}

impl<'a> Sorted<'a> {
    /// Adds the changes of tracked files that are left out.
    fn leave_out(&mut self, not_meant: &NotMeant<'a>) {
        self.unstage.extend(not_meant.files.iter().map(|(path, _)| *path));
        let submodules = not_meant.gitlinks.iter().map(|(path, _)| (*path, CHANGED_SUBMODULE));
        // Git would drop the submodule for it: the two cannot be in one commit.
        let is_above = |path: &[u8]| {
            let below = |link: &[u8]| link.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"));
            not_meant.gitlinks.iter().any(|(link, _)| below(link))
        };
        self.add.retain(|path| !is_above(path));
        let unseen = not_meant.unseen.iter().map(|path| (*path, FILES_IN_SUBMODULE));
        for (path, reason) in not_meant.files.iter().copied().chain(submodules).chain(unseen) {
            self.told.push(format!("`{}` ({reason})", String::from_utf8_lossy(path)));
        }
    }
}

fn finds_secret(path: &Path, redactor: &Redactor) -> Result<bool> {
    let failed = |source| file::error("read", path, source);
    let mut reader = std::io::BufReader::new(std::fs::File::open(path).map_err(failed)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(false);
        }
        if redactor.finds_in(&String::from_utf8_lossy(&line)) {
            return Ok(true);
        }
    }
}

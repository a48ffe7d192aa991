//! The local forge: a directory with one Markdown file per issue, for trying the tool without an
//! account and for tests. Issue files belong to people: only their labels are ever rewritten, and
//! everything else in them stays byte for byte. Every write happens under `<tasks_dir>/.lock`.

mod comments_file;
mod examine;
mod issue_file;
mod label_lines;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comments_file::NotReplaced;
use issue_file::IssueFile;

use crate::error::{Context as _, Error, Kind, Result};
use crate::ports::{
    Candidates, Comment, Finding, Forge, Item, ItemState, NewPullRequest, PullRequest, RepositorySource,
};
use crate::sys::{clock, file, lock};
use crate::task::{Labels, TaskKey};

const ISSUE_ENDING: &str = ".md";
const COMMENTS_ENDING: &str = ".comments.md";
const LOCK_FILE: &str = ".lock";
/// As on GitHub, so that what is tried here works there.
const BODY_LIMIT_CHARS: usize = 65_536;

/// Issues in a directory.
#[derive(Debug, Clone)]
pub struct Local {
    tasks_dir: PathBuf,
    bot_login: String,
    labels: Labels,
}

impl Local {
    /// The forge in `tasks_dir` (`local.tasks_dir`), where we sign as `bot_login`.
    pub fn new(tasks_dir: PathBuf, bot_login: String, labels: Labels) -> Self {
        // A heading holds the login on one line.
        Self { tasks_dir, bot_login: issue_file::one_line(&bot_login), labels }
    }

    fn lock(&self) -> Result<File> {
        self.probe()?;
        let held = lock::hold(&self.tasks_dir.join(LOCK_FILE))?;
        // We alone write here now, so what is half-written was left by a killed process.
        for name in file::names(&self.tasks_dir)?.iter().filter(|name| is_temporary(name)) {
            file::remove(&self.tasks_dir.join(name))?;
        }
        Ok(held)
    }

    /// Text of an issue file; `None` when there is none.
    fn text(&self, path: &Path) -> Result<Option<String>> {
        let Some(bytes) = read_regular(path)? else {
            // A directory that went away must not look like one without issues.
            return self.probe().map(|()| None);
        };
        String::from_utf8(bytes)
            .map(Some)
            .context(Kind::Task, || format!("cannot read the issue file `{}`: it is not UTF-8", path.display()))
    }

    fn issue(&self, name: &str) -> Result<Option<IssueFile>> {
        let path = self.issue_path(name);
        self.text(&path)?.map(|text| issue_file::parse(&path, &text)).transpose()
    }

    fn issue_path(&self, name: &str) -> PathBuf {
        self.tasks_dir.join(format!("{name}{ISSUE_ENDING}"))
    }

    /// Path of the comments file of an issue that exists, readable or not.
    fn comments_path(&self, key: &TaskKey) -> Result<PathBuf> {
        let name = name_of(key)?;
        if fs::symlink_metadata(self.issue_path(name)).is_err() {
            self.probe()?;
            return Err(self.gone(name));
        }
        Ok(self.tasks_dir.join(format!("{name}{COMMENTS_ENDING}")))
    }

    fn gone(&self, name: &str) -> Error {
        Error::task(format!("there is no issue file `{}`", self.issue_path(name).display()))
    }

    fn change_labels(&self, key: &TaskKey, change: impl FnOnce(&Path, &str) -> Result<Option<String>>) -> Result<()> {
        let name = name_of(key)?;
        let path = self.issue_path(name);
        let held = self.lock()?;
        let text = self.text(&path)?.ok_or_else(|| self.gone(name))?;
        if let Some(changed) = change(&path, &text)? {
            replace(&path, changed.as_bytes())?;
        }
        drop(held);
        Ok(())
    }

    /// Open issues that carry `label`.
    fn labelled(&self, label: &str) -> Result<Candidates> {
        self.probe()?;
        let listed = file::names(&self.tasks_dir)?;
        let mut names: Vec<&str> = listed.iter().filter_map(|name| stem(name)).collect();
        names.sort_unstable();
        let mut keys = Vec::new();
        for name in names {
            match TaskKey::local(name).and_then(|key| Ok((key, self.issue(name)?))) {
                Ok((key, Some(issue))) => {
                    let item = item(key, name, &self.issue_path(name), issue);
                    if item.state == ItemState::Open && item.has_label(label) {
                        keys.push(item.key);
                    }
                }
                // Removed since we listed it.
                Ok((_, None)) => {}
                Err(error) if error.kind() == Kind::Task => log::warn!("leaving an issue file alone: {error:#}"),
                Err(error) => return Err(error),
            }
        }
        Ok(Candidates { keys, faults: Vec::new() })
    }
}

impl Forge for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn bot_login(&self) -> &str {
        &self.bot_login
    }

    fn item_max_age(&self) -> Duration {
        Duration::ZERO
    }

    fn body_limit_chars(&self) -> usize {
        BODY_LIMIT_CHARS
    }

    fn probe(&self) -> Result<()> {
        fs::read_dir(&self.tasks_dir).map(drop).map_err(|source| {
            file::error("list the issue files in", &self.tasks_dir, source)
                .hint("`local.tasks_dir` must be a directory with issue files that we may read")
        })
    }

    fn candidates(&self) -> Result<Candidates> {
        self.labelled(&self.labels.bot)
    }

    fn in_work(&self) -> Result<Candidates> {
        self.labelled(&self.labels.processing)
    }

    fn examine(&self) -> Vec<Finding> {
        vec![self.finding()]
    }

    fn item(&self, key: &TaskKey) -> Result<Option<Item>> {
        let name = name_of(key)?;
        Ok(self.issue(name)?.map(|issue| item(key.clone(), name, &self.issue_path(name), issue)))
    }

    fn comments(&self, key: &TaskKey) -> Result<Vec<Comment>> {
        let path = self.comments_path(key)?;
        Ok(comments_file::parse(&read_regular(&path)?.unwrap_or_default()))
    }

    fn post_comment(&self, key: &TaskKey, body: &str) -> Result<String> {
        let held = self.lock()?;
        let path = self.comments_path(key)?;
        let before = read_regular(&path)?;
        let bytes = before.as_deref().unwrap_or_default();
        let id = comments_file::next_id(bytes);
        let addition = comments_file::addition(bytes, &self.bot_login, &clock::now_rfc3339(), &id, body);
        let mut opened = file::open_append(&path)?;
        file::append(&mut opened, &path, addition.as_bytes(), file::Sync::Now)?;
        if before.is_none() {
            file::sync_dir(&self.tasks_dir)?;
        }
        drop(held);
        Ok(id)
    }

    fn update_comment(&self, key: &TaskKey, id: &str, body: &str) -> Result<()> {
        let held = self.lock()?;
        let path = self.comments_path(key)?;
        let bytes = read_regular(&path)?.unwrap_or_default();
        let changed = comments_file::replaced(&bytes, &self.bot_login, id, body).map_err(|why| {
            let found = match why {
                NotReplaced::Unknown => "there is none of ours",
                NotReplaced::Ambiguous => "several have this id",
            };
            Error::task(format!("cannot change comment `{}` in `{}`: {found}", id.escape_debug(), path.display()))
        })?;
        if changed != bytes {
            replace(&path, &changed)?;
        }
        drop(held);
        Ok(())
    }

    fn add_label(&self, key: &TaskKey, label: &str) -> Result<()> {
        self.change_labels(key, |path, text| issue_file::with_label(path, text, label))
    }

    fn remove_label(&self, key: &TaskKey, label: &str) -> Result<()> {
        self.change_labels(key, |path, text| issue_file::without_label(path, text, label))
    }

    fn may_write(&self, _key: &TaskKey, _user: &str) -> Result<bool> {
        // Who can write in the directory could write anything in anybody's name.
        Ok(true)
    }

    fn repository(&self, key: &TaskKey) -> Result<RepositorySource> {
        let name = name_of(key)?;
        let issue = self.issue(name)?.ok_or_else(|| self.gone(name))?;
        let said = issue.repository.ok_or_else(|| {
            Error::task(format!("the issue file `{}` names no repository", self.issue_path(name).display()))
                .hint("add a line `repository:` with a path (relative to the file) or URL to its front matter")
        })?;
        if holds_password(&said) {
            // It would be in messages, in git's arguments and in the prompt.
            return Err(Error::task("the repository's address holds a password")
                .hint("take it out of the issue file and use a credential helper of git"));
        }
        if is_url(&said) {
            return Ok(RepositorySource { url: said, credential: None, change: None });
        }
        let path = self.tasks_dir.join(&said);
        // Without `..` where we can: the path goes into git's configuration and into messages.
        let path = fs::canonicalize(&path)
            .or_else(|_| std::path::absolute(&path))
            .map_err(|source| file::error("find the repository", &path, source))?;
        let url = path.into_os_string().into_string();
        url.map(|url| RepositorySource { url, credential: None, change: None })
            .map_err(|path| Error::task(format!("the repository's path `{}` is not UTF-8", path.display())))
    }

    fn find_pull_request(&self, _key: &TaskKey, _branch: &str) -> Result<Option<PullRequest>> {
        Ok(None)
    }

    fn open_pull_request(&self, _key: &TaskKey, _request: &NewPullRequest) -> Result<Option<PullRequest>> {
        Ok(None)
    }

    fn request_review(&self, key: &TaskKey, _pull: &PullRequest, _login: &str) -> Result<()> {
        Err(Error::task(format!("cannot ask for a review of {key}: the local forge has no pull requests")))
    }
}

/// Whether a URL names a password before its host.
fn holds_password(url: &str) -> bool {
    without_password(url) != url
}

/// A URL without the password before its host.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("{scheme}://{host}{path}"),
        _ => url.to_owned(),
    }
}

/// The issue's name when `file_name` is one of an issue file.
fn stem(file_name: &str) -> Option<&str> {
    let is_issue = !file_name.starts_with('.') && !file_name.ends_with(COMMENTS_ENDING);
    file_name.strip_suffix(ISSUE_ENDING).filter(|name| is_issue && !name.is_empty())
}

/// Whether `sys::file` would give this name to the half-written form of one of our files.
fn is_temporary(file_name: &str) -> bool {
    let parts = file_name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")?.rsplit_once(".md."));
    parts.is_some_and(|(_, process)| !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit()))
}

fn name_of(key: &TaskKey) -> Result<&str> {
    let TaskKey::LocalIssue { name } = key else {
        return Err(Error::bug(format!("`{key}` was given to the local forge")));
    };
    // Its field is open to everybody: a name from elsewhere must not leave the directory.
    TaskKey::local(name.as_str())?;
    match stem(&format!("{name}{ISSUE_ENDING}")) {
        Some(_) => Ok(name),
        None => Err(Error::task(format!("`{name}` is the name of a comments file, not of an issue"))),
    }
}

fn item(key: TaskKey, name: &str, path: &Path, issue: IssueFile) -> Item {
    Item {
        key,
        title: issue.title.unwrap_or_else(|| name.to_owned()),
        body: issue.body,
        author: issue.author,
        state: issue.state,
        labels: issue.labels,
        assignees: issue.assignees,
        location: path.display().to_string(),
        repository: issue.repository.map(|said| without_password(&said)).unwrap_or_default(),
        change: None,
    }
}

/// Reads a regular file or what a link leads to; `None` when nothing stands there. Every other
/// trouble is one of this file only, so it is `Kind::Task`.
fn read_regular(path: &Path) -> Result<Option<Vec<u8>>> {
    let no_good = |why: &str| Error::task(format!("cannot read `{}`: {why}", path.display()));
    if fs::symlink_metadata(path).is_err_and(|source| source.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    // Opening a pipe would wait for ever.
    match fs::metadata(path) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Err(no_good("it is a link to nothing")),
        Ok(metadata) if !metadata.is_file() => Err(no_good("it is no regular file")),
        _ => file::read(path).map_err(|error| Error::task(error.sentence()).caused_by(error)),
    }
}

/// Replaces a file of a person: durable, with its mode, and through a link rather than in its place.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = fs::canonicalize(path).map_err(|source| file::error("write", path, source))?;
    file::replace_synced_keeping_mode(&target, bytes)
}

/// Whether git would take `said` for a URL (or `host:path`) rather than for a path.
fn is_url(said: &str) -> bool {
    let host = said.split(['/', ':']).next().unwrap_or_default();
    let is_host_and_path = said.get(host.len()..).is_some_and(|rest| rest.starts_with(':'));
    said.contains("://") || (is_host_and_path && !host.is_empty() && !host.starts_with('-'))
}

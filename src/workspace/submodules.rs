//! Submodules of a repository: which are checked out, from where and with whose rights (case C53).
//! `.gitmodules` is written by whoever may write to the repository, so only submodules of the same
//! owner are taken: nothing is asked of another host, and no credential goes to one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Git, Settings, Workspace};
use crate::error::{Kind, Result};
use crate::ports::RepositorySource;
use crate::sys::beneath::{Beneath, Entry};
use crate::sys::file;

/// Submodules of submodules of …
const DEEPEST: usize = 4;
/// Checked out for one task; a person does not have more of his own.
const MOST: usize = 50;

/// Mode of a submodule in git's lists.
const MODE: &str = "160000";
const PART: &str = "module.part";

/// A checked-out repository whose submodules are looked at.
struct Superproject {
    /// Relative to the directory of the workspace.
    dir: String,
    url: String,
    sha: String,
    depth: usize,
}

impl Workspace {
    /// Checks out the submodules of `sha` in the fresh tree `dir`, as far as the configuration lets
    /// us. One that cannot be had stays an empty directory, which the model is told.
    ///
    /// # Errors
    /// `Kind::Host` when the disk is the trouble.
    pub(super) fn check_out_submodules(&self, dir: &str, sha: &str) -> Result<()> {
        if !self.settings.own_submodules {
            return Ok(());
        }
        let top = Superproject { dir: dir.into(), url: self.remote.url.clone(), sha: sha.into(), depth: 0 };
        let mut ahead = vec![top];
        let mut count = 0;
        while let Some(superproject) = ahead.pop() {
            for (path, url, sha) in self.submodules_of(&superproject)? {
                count += 1;
                if count > MOST {
                    log::warn!("more than {MOST} submodules; the rest is not checked out");
                    return Ok(());
                }
                let Some(url) = resolve(&superproject.url, &url).filter(|url| owner(url) == owner(&self.remote.url))
                else {
                    log::info!("the submodule `{path}` is not checked out: `{url}` belongs to somebody else");
                    continue;
                };
                let dir = format!("{}/{path}", superproject.dir);
                match self.check_out(&superproject.dir, &path, &url, &sha) {
                    Ok(()) if superproject.depth < DEEPEST => {
                        ahead.push(Superproject { dir, url, sha, depth: superproject.depth + 1 });
                    }
                    Ok(()) => {}
                    Err(error) if error.kind() == Kind::Host => return Err(error),
                    Err(error) => {
                        log::warn!("the submodule `{path}` is not checked out: {error:#}");
                        // Half of one would look like a submodule with changes.
                        file::remove_dir(&self.dir.join(&dir))?;
                        file::create_dir(&self.dir.join(&dir))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Path, URL as written and commit of each submodule.
    fn submodules_of(&self, superproject: &Superproject) -> Result<Vec<(String, String, String)>> {
        let git = Git::in_fresh_tree(&self.dir.join(&superproject.dir), &self.settings);
        let blob = format!("{}:.gitmodules", superproject.sha);
        let pattern = r"^submodule\..*\.(path|url)$";
        let written = git.finish(["config", "--blob", &blob, "--null", "--get-regexp", pattern])?;
        if !written.succeeded() {
            return Ok(Vec::new()); // no such file, or none that can be read
        }
        let mut named: HashMap<&str, (&str, &str)> = HashMap::new();
        let text = written.stdout.to_text();
        for (key, value) in text.split('\0').filter_map(|line| line.split_once('\n')) {
            match key.rsplit_once('.') {
                Some((name, "path")) => named.entry(name).or_default().0 = value,
                Some((name, _)) => named.entry(name).or_default().1 = value,
                None => {}
            }
        }
        let commits = gitlinks(&git.run_bytes("cannot list the files", ["ls-tree", "-r", "-z", &superproject.sha])?);
        let mut found: Vec<(String, String, String)> = named
            .into_values()
            .filter_map(|(path, url)| Some((path.to_owned(), url.to_owned(), commits.get(path.as_bytes())?.clone())))
            .collect();
        found.sort();
        Ok(found)
    }

    /// As with the tree: a bare clone of ours talks to the remote, the tree gets a copy of it.
    fn check_out(&self, superproject: &str, path: &str, url: &str, sha: &str) -> Result<()> {
        let what = format!("cannot check out the submodule `{path}`");
        let failed = |source| file::error("look at", Path::new(path), source);
        // Git made an empty directory; anything else, such as a link on the way, is a trap.
        let beneath = Beneath::open(&self.dir.join(superproject)).map_err(failed)?;
        if beneath.look(Path::new(path)).map_err(failed)? != Some(Entry::Directory) {
            return Err(crate::error::Error::task(format!("{what}: there is no directory for it")));
        }
        let part = self.dir.join(PART);
        file::remove_dir(&part)?;
        let remote = RepositorySource { url: url.to_owned(), credential: self.remote.credential.clone(), change: None };
        Git::outside(&self.dir, &self.settings)
            .toward(&remote)
            .run(&what, ["clone", "--quiet", "--bare", "--template=", "--", url, PART])?;
        let dir = format!("{superproject}/{path}");
        let args = ["clone", "--quiet", "--no-hardlinks", "--no-checkout", "--template=", PART, &dir];
        Git::without_configuration(&self.dir, &self.settings).run(&what, args)?;
        file::remove_dir(&part)?;
        let module = Git::in_fresh_tree(&self.dir.join(&dir), &self.settings);
        identify(&module, &self.settings, &what)?;
        module.run(&what, ["checkout", "--quiet", "--detach", sha]).map(drop)
    }
}

/// So that the model can commit too (case C52); it has nowhere to push to.
pub(super) fn identify(git: &Git, settings: &Settings, what: &str) -> Result<()> {
    git.run(what, ["config", "user.name", &settings.author_name])?;
    git.run(what, ["config", "user.email", &settings.author_email])?;
    git.run(what, ["remote", "remove", "origin"]).map(drop)
}

/// Path and commit of each submodule in the output of `ls-tree -z` or `ls-files --stage -z`.
pub(super) fn gitlinks(listed: &[u8]) -> HashMap<Vec<u8>, String> {
    let mut found = HashMap::new();
    for line in listed.split(|byte| *byte == 0).filter(|line| line.starts_with(MODE.as_bytes())) {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
        let facts = String::from_utf8_lossy(&line[..tab]);
        // `ls-tree` says `commit` before the name of the commit, `ls-files` the stage behind it.
        if let Some(sha) = facts.split(' ').skip(1).find(|word| word.len() >= 40) {
            found.insert(line[tab + 1..].to_vec(), sha.to_owned());
        }
    }
    found
}

impl Workspace {
    /// Puts back what the index said of these submodules before everything was added.
    pub(super) fn keep_gitlinks(&self, what: &str, kept: &[(&[u8], &str)]) -> Result<()> {
        kept.iter().try_for_each(|(path, sha)| {
            let mut entry = std::ffi::OsString::from(format!("{MODE},{sha},"));
            entry.push(OsStr::from_bytes(path));
            let args = [OsStr::new("update-index"), OsStr::new("--add"), OsStr::new("--cacheinfo"), &entry];
            self.in_tree().run(what, args).map(drop)
        })
    }
}

/// The URL of a submodule, where it is relative to `base`.
fn resolve(base: &str, url: &str) -> Option<String> {
    if !url.starts_with("./") && !url.starts_with("../") {
        return Some(url.to_owned());
    }
    let mut base = base.trim_end_matches('/');
    let mut rest = url;
    loop {
        if let Some(behind) = rest.strip_prefix("./") {
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("../") {
            base = base.rsplit_once('/')?.0;
            rest = behind;
        } else {
            return Some(format!("{base}/{rest}"));
        }
    }
}

/// To whom a repository belongs: scheme, host and first part of the path, or the directory it lies
/// in. `None` where that cannot be told for sure.
fn owner(url: &str) -> Option<String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/:._-~+".contains(character);
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    if !rest.chars().all(is_plain) || rest.split('/').any(|part| part == "." || part == "..") {
        return None;
    }
    if scheme == "file" {
        let above = Path::new(rest.trim_end_matches('/')).parent()?;
        return rest.starts_with('/').then(|| format!("{}", above.display()));
    }
    let mut parts = rest.split('/');
    let (host, first) = (parts.next()?, parts.next()?);
    let is_whole = !host.is_empty() && !first.is_empty() && parts.next().is_some_and(|name| !name.is_empty());
    is_whole.then(|| format!("{scheme}://{host}/{first}").to_lowercase())
}

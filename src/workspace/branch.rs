//! Which branch the work goes to: a new one, or one that holds only our commits and whose pull
//! request is open. Never one that a person has touched.

use std::collections::HashMap;

use super::{Git, Settings};
use crate::error::{Error, Result};
use crate::ports::RepositorySource;

/// A person who has so many leftover branches has another problem.
const MOST_SUFFIXES: u32 = 100;

/// Where the work goes and begins.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The branch.
    pub branch: String,
    /// Its tip, when it is continued.
    pub tip: Option<String>,
}

/// A ref name from anything: letters, digits, `.`, `_`, `-`; `fallback` where nothing is left.
pub fn ref_segment(text: &str, fallback: &str) -> String {
    let mut segment = String::new();
    for character in text.chars().take(60) {
        let fits = character.is_ascii_alphanumeric() || "._-".contains(character);
        let next = if fits { character } else { '-' };
        // `..` and runs of `-` mean something to git or look bad.
        if !(".-".contains(next) && segment.ends_with(next)) {
            segment.push(next);
        }
    }
    let mut segment = segment.trim_matches(['.', '-']);
    while let Some(shorter) = segment.strip_suffix(".lock") {
        segment = shorter.trim_end_matches(['.', '-']);
    }
    if segment.is_empty() { fallback.to_owned() } else { segment.to_owned() }
}

/// `wish`, `wish-2`, `wish-3` …
pub fn numbered(wish: &str, number: u32) -> String {
    if number < 2 { wish.to_owned() } else { format!("{wish}-{number}") }
}

/// Branches of the remote that begin like `wish`, with their tips.
pub fn remote_branches(git: &Git, url: &str, wish: &str) -> Result<HashMap<String, String>> {
    let listed = git.run(
        &format!("cannot list the branches of `{url}`"),
        ["ls-remote", "--heads", url, &format!("refs/heads/{wish}*")],
    )?;
    let pairs = listed.lines().filter_map(|line| line.split_once("\trefs/heads/"));
    Ok(pairs.map(|(sha, name)| (name.to_owned(), sha.to_owned())).collect())
}

/// Chooses the branch. Fetches the one that is continued into `git`'s repository.
///
/// # Errors
/// As the remote and `is_over` say; `Kind::Task` when no name is left.
pub fn choose(
    git: &Git,
    settings: &Settings,
    remote: &RepositorySource,
    wish: &str,
    is_over: &dyn Fn(&str) -> Result<bool>,
) -> Result<Choice> {
    let url = remote.url.as_str();
    let toward = git.clone().toward(remote);
    let there = remote_branches(&toward, url, wish)?;
    for number in 1..=MOST_SUFFIXES {
        let branch = numbered(wish, number);
        let Some(tip) = there.get(&branch) else { return Ok(Choice { branch, tip: None }) };
        let what = format!("cannot fetch the branch `{branch}` of `{url}`");
        toward
            .run(&what, ["fetch", "--quiet", "--no-tags", url, &format!("+refs/heads/{branch}:refs/heads/{branch}")])?;
        let authors = git.run(&what, ["log", "--format=%ae%n%ce", &format!("HEAD..refs/heads/{branch}")])?;
        let only_ours = authors.lines().all(|email| email == settings.author_email);
        // No commit beyond the base: it was merged, or nothing was ever on it.
        if only_ours && !authors.is_empty() && !is_over(&branch)? {
            return Ok(Choice { branch, tip: Some(tip.clone()) });
        }
    }
    Err(Error::task(format!("cannot find a free branch name: `{wish}` to `{wish}-{MOST_SUFFIXES}` are taken"))
        .hint("remove branches of finished tasks"))
}

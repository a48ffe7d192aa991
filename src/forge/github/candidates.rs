//! Which issues and pull requests ask for work: looked for repository by repository, in those that are configured or
//! that the token may push to. Never in all of GitHub: strangers use the same label.

use serde::{Deserialize, Serialize};

use super::super::lists::Reduced;
use super::super::settings::ForgeSettings;
use super::api::Api;
use super::wire::{Issue, Repository, SearchPage, item_key};
use crate::error::{Error, Kind, Result};
use crate::ports::Candidates;
use crate::task::TaskKey;
use crate::text::percent_encoded;

/// What is kept of an issue or pull request in a list.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    owner: String,
    repo: String,
    number: u64,
    is_pull: bool,
}

/// What is kept of a repository in a list.
#[derive(Debug, Serialize, Deserialize)]
struct Name {
    full_name: String,
}

impl Found {
    fn new(issue: &Issue) -> Option<Self> {
        let Some((owner, repo)) = issue.repository() else {
            log::warn!("an issue without a usable address is left out: `{}`", issue.repository_url);
            return None;
        };
        Some(Self { owner, repo, number: issue.number, is_pull: issue.pull_request.is_some() })
    }

    fn key(self) -> TaskKey {
        item_key(self.owner, self.repo, self.number, self.is_pull)
    }
}

/// Open issues and pull requests with the bot label. Collected whole before anything is done about them: labels that
/// change while pages are read would shift the rest.
pub fn candidates(api: &Api, settings: &ForgeSettings) -> Result<Candidates> {
    let mut found = Candidates::default();
    for repository in repositories(api, settings)? {
        let issues = if settings.query.trim().is_empty() {
            listed(api, settings, &repository)
        } else {
            searched(api, settings, &repository)
        };
        match issues {
            // One wrong name must not keep the others from being worked on.
            Err(error) if error.kind() == Kind::Task => found.faults.push(
                Error::host(error.sentence()).hint("check github.repositories, github.query and the token's rights"),
            ),
            issues => issues?.into_iter().for_each(|issue| keep(&mut found, issue)),
        }
    }
    Ok(found)
}

fn keep(found: &mut Candidates, issue: Found) {
    let key = issue.key();
    if !found.keys.contains(&key) {
        found.keys.push(key);
    }
}

/// The names to look at: as configured, where `owner/*` and an empty list mean what the token may push to.
pub fn repositories(api: &Api, settings: &ForgeSettings) -> Result<Vec<String>> {
    let owners: Vec<&str> = settings.repositories.iter().filter_map(|name| name.strip_suffix("/*")).collect();
    let mut names: Vec<String> = settings.repositories.iter().filter(|name| !name.ends_with("/*")).cloned().collect();
    if owners.is_empty() && !names.is_empty() {
        return Ok(names);
    }
    let ours = api.list("cannot list the repositories of the token", "/user/repos?per_page=100", pushable);
    let ours: Vec<Name> = ours.map_err(|error| {
        let error = if error.kind() == Kind::Task { Error::host(error.sentence()) } else { error };
        error.hint("tokens of Apps may not list them; name each repository in github.repositories")
    })?;
    for Name { full_name } in ours {
        let owner = full_name.split('/').next().unwrap_or_default();
        let wanted = settings.repositories.is_empty() || owners.iter().any(|name| name.eq_ignore_ascii_case(owner));
        if wanted && !names.iter().any(|name| name.eq_ignore_ascii_case(&full_name)) {
            names.push(full_name);
        }
    }
    Ok(names)
}

fn pushable(page: Vec<Repository>) -> Reduced<Name> {
    let count = page.len();
    let ours = page.into_iter().filter(|repository| repository.may_push() && !repository.archived);
    let items = ours.map(|repository| Name { full_name: repository.full_name }).collect();
    Reduced { items, count, is_complete: true }
}

fn reduced(issues: &[Issue], is_complete: bool) -> Reduced<Found> {
    Reduced { items: issues.iter().filter_map(Found::new).collect(), count: issues.len(), is_complete }
}

/// GitHub lists pull requests among the issues (docs: "List repository issues"), also where issues
/// are switched off.
fn listed(api: &Api, settings: &ForgeSettings, repository: &str) -> Result<Vec<Found>> {
    let path: Vec<String> = repository.split('/').map(percent_encoded).collect();
    let mut query =
        format!("labels={}&state=open&sort=updated&direction=asc&per_page=100", percent_encoded(&settings.labels.bot));
    if let Some(assignee) = &settings.assignee {
        query.push_str(&format!("&assignee={}", percent_encoded(assignee)));
    }
    let what = format!("cannot list the issues of `{repository}`");
    let path = format!("/repos/{}/issues?{query}", path.join("/"));
    api.list(&what, &path, |page: Vec<Issue>| reduced(&page, true))
}

/// One search per repository and kind: GitHub reads several `repo:` terms as "in all of them at once",
/// and wants one kind named.
fn searched(api: &Api, settings: &ForgeSettings, repository: &str) -> Result<Vec<Found>> {
    let mut issues = Vec::new();
    for kind in ["issue", "pr"] {
        issues.extend(searched_kind(api, settings, repository, kind)?);
    }
    Ok(issues)
}

fn searched_kind(api: &Api, settings: &ForgeSettings, repository: &str, kind: &str) -> Result<Vec<Found>> {
    let label = settings.labels.bot.replace('\\', "\\\\").replace('"', "\\\"");
    let mut terms = vec![format!("repo:{repository}"), format!("label:\"{label}\"")];
    terms.extend(["state:open".to_owned(), format!("type:{kind}")]);
    terms.extend(settings.assignee.as_ref().map(|assignee| format!("assignee:{assignee}")));
    terms.push(settings.query.trim().to_owned());
    let path = format!("/search/issues?q={}&sort=updated&order=asc&per_page=100", percent_encoded(&terms.join(" ")));
    api.list(&format!("cannot search the issues of `{repository}`"), &path, |page: SearchPage| {
        if page.incomplete_results {
            log::warn!("GitHub's search ran out of time; what it left out is found by a later pass");
        }
        reduced(&page.items, !page.incomplete_results)
    })
}

//! Which issues and pull requests ask for work: looked for repository by repository, in those that are configured or
//! that the token may push to. Never in all of GitHub: strangers use the same label.

use super::GithubSettings;
use super::api::Api;
use super::wire::{Issue, Repository, SearchPage};
use crate::error::{Error, Kind, Result};
use crate::ports::Candidates;
use crate::text::percent_encoded;

/// Open issues and pull requests with the bot label. Collected whole before anything is done about them: labels that
/// change while pages are read would shift the rest.
pub fn candidates(api: &Api, settings: &GithubSettings) -> Result<Candidates> {
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
            issues => issues?.into_iter().for_each(|issue| keep(&mut found, &issue)),
        }
    }
    Ok(found)
}

fn keep(found: &mut Candidates, issue: &Issue) {
    let Some(key) = issue.key() else {
        log::warn!("an issue without a usable address is left out: `{}`", issue.repository_url);
        return;
    };
    if !found.keys.contains(&key) {
        found.keys.push(key);
    }
}

/// The names to look at: as configured, where `owner/*` and an empty list mean what the token may push to.
pub fn repositories(api: &Api, settings: &GithubSettings) -> Result<Vec<String>> {
    let owners: Vec<&str> = settings.repositories.iter().filter_map(|name| name.strip_suffix("/*")).collect();
    let mut names: Vec<String> = settings.repositories.iter().filter(|name| !name.ends_with("/*")).cloned().collect();
    if owners.is_empty() && !names.is_empty() {
        return Ok(names);
    }
    let pages: Vec<Vec<Repository>> =
        api.get_all("cannot list the repositories of the token", "/user/repos?per_page=100").map_err(|error| {
            let error = if error.kind() == Kind::Task { Error::host(error.sentence()) } else { error };
            error.hint("tokens of Apps may not list them; name each repository in github.repositories")
        })?;
    for repository in pages.into_iter().flatten() {
        let owner = repository.full_name.split('/').next().unwrap_or_default();
        let wanted = settings.repositories.is_empty() || owners.iter().any(|name| name.eq_ignore_ascii_case(owner));
        let known = names.iter().any(|name| name.eq_ignore_ascii_case(&repository.full_name));
        if wanted && repository.may_push() && !repository.archived && !known {
            names.push(repository.full_name);
        }
    }
    Ok(names)
}

/// GitHub lists pull requests among the issues (docs: "List repository issues"), also where issues
/// are switched off.
fn listed(api: &Api, settings: &GithubSettings, repository: &str) -> Result<Vec<Issue>> {
    let path: Vec<String> = repository.split('/').map(percent_encoded).collect();
    let mut query =
        format!("labels={}&state=open&sort=updated&direction=asc&per_page=100", percent_encoded(&settings.labels.bot));
    if let Some(assignee) = &settings.assignee {
        query.push_str(&format!("&assignee={}", percent_encoded(assignee)));
    }
    let what = format!("cannot list the issues of `{repository}`");
    let pages: Vec<Vec<Issue>> = api.get_all(&what, &format!("/repos/{}/issues?{query}", path.join("/")))?;
    Ok(pages.into_iter().flatten().collect())
}

/// One search per repository and kind: GitHub reads several `repo:` terms as "in all of them at once",
/// and wants one kind named.
fn searched(api: &Api, settings: &GithubSettings, repository: &str) -> Result<Vec<Issue>> {
    let mut issues = Vec::new();
    for kind in ["issue", "pr"] {
        issues.extend(searched_kind(api, settings, repository, kind)?);
    }
    Ok(issues)
}

fn searched_kind(api: &Api, settings: &GithubSettings, repository: &str, kind: &str) -> Result<Vec<Issue>> {
    let label = settings.labels.bot.replace('\\', "\\\\").replace('"', "\\\"");
    let mut terms = vec![format!("repo:{repository}"), format!("label:\"{label}\"")];
    terms.extend(["state:open".to_owned(), format!("type:{kind}")]);
    terms.extend(settings.assignee.as_ref().map(|assignee| format!("assignee:{assignee}")));
    terms.push(settings.query.trim().to_owned());
    let path = format!("/search/issues?q={}&sort=updated&order=asc&per_page=100", percent_encoded(&terms.join(" ")));
    let pages: Vec<SearchPage> = api.get_all(&format!("cannot search the issues of `{repository}`"), &path)?;
    if pages.iter().any(|page| page.incomplete_results) {
        log::warn!("GitHub's search ran out of time; what it left out is found by a later pass");
    }
    Ok(pages.into_iter().flat_map(|page| page.items).collect())
}

//! Which issues ask for work: repository by repository where they are named, else by search.

use super::GithubSettings;
use super::api::Api;
use super::wire::{Issue, SearchPage};
use crate::error::{Error, Kind, Result};
use crate::task::TaskKey;
use crate::text::percent_encoded;

/// Open issues with the bot label. Collected whole before anything is done about them: labels that
/// change while pages are read would shift the rest.
pub fn candidates(api: &Api, settings: &GithubSettings) -> Result<Vec<TaskKey>> {
    let mut issues = Vec::new();
    let by_name = settings.query.trim().is_empty() && settings.repositories.iter().all(|name| !name.ends_with("/*"));
    if by_name && !settings.repositories.is_empty() {
        for repository in &settings.repositories {
            match of_repository(api, settings, repository) {
                // One wrong name must not keep the others from being worked on.
                Err(error) if error.kind() == Kind::Task => log::error!("{error:#}"),
                found => issues.extend(found?),
            }
        }
    } else {
        issues = search(api, settings)?;
    }
    let mut keys: Vec<TaskKey> = Vec::new();
    for issue in issues {
        let Some(key) = issue.key() else {
            log::warn!("an issue without a usable address is left out: `{}`", issue.repository_url);
            continue;
        };
        if issue.is_pull_request() {
            log::info!("{key} is a pull request; this version works on issues only");
        } else if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

fn of_repository(api: &Api, settings: &GithubSettings, repository: &str) -> Result<Vec<Issue>> {
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

fn search(api: &Api, settings: &GithubSettings) -> Result<Vec<Issue>> {
    let mut terms = vec![
        format!("label:\"{}\"", settings.labels.bot.replace('\\', "\\\\").replace('"', "\\\"")),
        "state:open".into(),
        "type:issue".into(),
    ];
    for repository in &settings.repositories {
        terms.push(match repository.strip_suffix("/*") {
            Some(owner) => format!("user:{owner}"),
            None => format!("repo:{repository}"),
        });
    }
    terms.extend(settings.assignee.as_ref().map(|assignee| format!("assignee:{assignee}")));
    terms.extend((!settings.query.trim().is_empty()).then(|| settings.query.trim().to_owned()));
    let query = percent_encoded(&terms.join(" "));
    let path = format!("/search/issues?q={query}&sort=updated&order=asc&per_page=100");
    let pages: Vec<SearchPage> = api.get_all("cannot search for labelled issues", &path).map_err(|error| {
        // A search that is refused is wrong for every item: it is made of the configuration.
        if error.kind() == Kind::Task {
            Error::host(error.sentence()).hint("check github.query and github.repositories")
        } else {
            error
        }
    })?;
    if pages.iter().any(|page| page.incomplete_results) {
        log::warn!("GitHub's search ran out of time; what it left out is found by a later pass");
    }
    Ok(pages.into_iter().flat_map(|page| page.items).collect())
}

//! Which issues and merge requests ask for work: those of the projects and groups that are configured, or of
//! everything the account may push to. Never those of strangers, who use the same label.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::super::settings::ForgeSettings;
use super::api::Api;
use super::wire::{DEVELOPER, Issuable, Project};
use crate::error::{Error, Kind, Result};
use crate::ports::Candidates;
use crate::task::TaskKey;
use crate::text::percent_encoded;

/// How long the answer to "what is at this path" holds; a list that is not there ends it.
const PLACE_GOOD_FOR_MS: u64 = 3_600_000;

/// Paths of the projects the account may push to, by id.
pub type OurProjects = HashMap<u64, String>;

/// What is kept of an issue or merge request in a list.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    project_id: u64,
    iid: u64,
    /// Where the answer says it.
    project_path: Option<String>,
    confidential: bool,
    web_url: String,
}

/// What a configured path leads to.
#[derive(Debug, Serialize, Deserialize)]
enum At {
    Group,
    Project { id: u64, path: String },
}

/// Open items with the bot label, listed whole at each pass: not by time of change, since a label that is set
/// does not change it reliably, and clocks differ (case C35). A list that is empty costs one request, and so
/// would any question for changes. Collected whole before anything is done about them: labels that change while
/// pages are read would shift the rest.
pub fn candidates(api: &Api, settings: &ForgeSettings) -> Result<Candidates> {
    let mut search = Search { api, settings, ours: OurProjects::new(), found: Candidates::default() };
    if settings.repositories.is_empty() {
        search.ours = our_projects(api)?;
        search.list("")?;
        return Ok(search.found);
    }
    for name in &settings.repositories {
        let path = plain_path(name);
        match search.configured(&path) {
            // One wrong name must not keep the others from being worked on.
            Err(error) if error.kind() == Kind::Task => {
                // Perhaps it is another place by now.
                api.account().forget_fact(&path);
                let fault = Error::host(error.sentence());
                search.found.faults.push(fault.hint("check gitlab.repositories and the rights of the account"));
            }
            done => done?,
        }
    }
    Ok(search.found)
}

/// A path as people write it, also when they have encoded its slashes already (case C26).
pub fn plain_path(name: &str) -> String {
    name.replace("%2F", "/").replace("%2f", "/")
}

/// What the token may push to; `min_access_level` counts roles from groups and shares too.
pub fn our_projects(api: &Api) -> Result<OurProjects> {
    let query = format!("membership=true&min_access_level={DEVELOPER}&archived=false&simple=true");
    let pair = |project: &Project| Some((project.id, project.path_with_namespace.clone()));
    let projects: Vec<(u64, String)> = api.list("cannot list the projects of the token", "/projects", &query, pair)?;
    Ok(projects.into_iter().collect())
}

struct Search<'a> {
    api: &'a Api,
    settings: &'a ForgeSettings,
    /// Whose items count.
    ours: OurProjects,
    found: Candidates,
}

impl Search<'_> {
    /// A project by its path, a group by `group/*`; a bare path can be either.
    fn configured(&mut self, path: &str) -> Result<()> {
        if let Some(group) = path.strip_suffix("/*") {
            return self.group(group);
        }
        let known = self.api.account().fact(path, PLACE_GOOD_FOR_MS);
        let at = match known {
            Some(at) => at,
            None => {
                let at = self.look_up(path)?;
                self.api.account().keep_fact(path, &at);
                at
            }
        };
        match at {
            At::Group => self.group(path),
            At::Project { id, path } => self.list_in(OurProjects::from([(id, path)]), &format!("/projects/{id}")),
        }
    }

    fn look_up(&self, path: &str) -> Result<At> {
        let answer = self.api.get(&format!("/projects/{}", percent_encoded(path)))?;
        if answer.status == 404 && self.api.get(&format!("/groups/{}", percent_encoded(path)))?.is_good() {
            return Ok(At::Group);
        }
        let project: Project = answer.good_json(|| format!("cannot read the project `{path}`"))?;
        Ok(At::Project { id: project.id, path: project.path_with_namespace })
    }

    fn group(&mut self, group: &str) -> Result<()> {
        let ours = our_projects(self.api)?;
        self.list_in(ours, &format!("/groups/{}", percent_encoded(group)))
    }

    fn list_in(&mut self, ours: OurProjects, place: &str) -> Result<()> {
        self.ours = ours;
        self.list(place)
    }

    fn list(&mut self, place: &str) -> Result<()> {
        let mut query = format!(
            "scope=all&state=opened&labels={}&order_by=updated_at&sort=asc",
            percent_encoded(&self.settings.labels.bot)
        );
        if let Some(assignee) = &self.settings.assignee {
            query.push_str(&format!("&assignee_username={}", percent_encoded(assignee)));
        }
        let words = self.settings.query.trim();
        if !words.is_empty() {
            query.push_str(&format!("&search={}", percent_encoded(words)));
        }
        let (is_project, mut refused) = (place.starts_with("/projects/"), None);
        for list in ["issues", "merge_requests"] {
            let what = format!("cannot list the {} of `{}`", list.replace('_', " "), shown(place));
            let reduce = |item: &Issuable| self.reduced(item);
            let items = match self.api.list(&what, &format!("{place}/{list}"), &query, reduce) {
                // A project can have one of them switched off.
                Err(error) if error.kind() == Kind::Task && is_project && refused.is_none() => {
                    log::info!("{error:#}");
                    refused = Some(error);
                    continue;
                }
                items => items?,
            };
            items.into_iter().for_each(|item| self.keep(item, list == "merge_requests"));
        }
        Ok(())
    }

    /// What is kept of an item; the list's address holds the assignee.
    fn reduced(&self, item: &Issuable) -> Option<Found> {
        let assignee = self.settings.assignee.as_ref();
        assignee.is_none_or(|login| item.is_assigned_to(login)).then(|| Found {
            project_id: item.project_id,
            iid: item.iid,
            project_path: item.project_path().map(str::to_owned),
            confidential: item.confidential,
            web_url: item.web_url.clone(),
        })
    }

    fn keep(&mut self, item: Found, is_change: bool) {
        let Some(known) = self.ours.get(&item.project_id) else {
            log::debug!("`{}` is left alone: the account may not push there", item.web_url);
            return;
        };
        if item.confidential {
            // A branch and a merge request show what it is about to everybody who sees the project.
            log::warn!("`{}` is left alone: it is confidential, and work on it would not be", item.web_url);
            return;
        }
        let path = item.project_path.unwrap_or_else(|| known.clone());
        let key = key(item.project_id, item.iid, path, is_change);
        if !self.found.keys.contains(&key) {
            self.found.keys.push(key);
        }
    }
}

/// The key of an item in the project at `project_path`.
pub fn key(project_id: u64, iid: u64, project_path: String, is_change: bool) -> TaskKey {
    if is_change {
        TaskKey::GitlabMergeRequest { project_id, project_path, mr_iid: iid }
    } else {
        TaskKey::GitlabIssue { project_id, project_path, issue_iid: iid }
    }
}

fn shown(place: &str) -> &str {
    if place.is_empty() { "all projects" } else { place.trim_start_matches('/') }
}

//! Whether the token and the projects are fit for work. Reads only.

use super::super::rest::{MOST_EXAMINED, expiry, left_out, rate_limit};
use super::Gitlab;
use super::candidates::{our_projects, plain_path};
use super::wire::{Project, Token};
use crate::error::{Error, Result};
use crate::ports::{Finding, FindingState};
use crate::sys::clock;
use crate::text::percent_encoded;

const TOKEN: &str = "GitLab token";
const LIMIT: &str = "GitLab rate limit";
const HERE: &str = "mend that there, or take it out of gitlab.repositories";
const NEW_TOKEN: &str = "make a new one with the scope `api` and put it into GITLAB_PERSONAL_ACCESS_TOKEN";

impl Gitlab {
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut found =
            self.token().unwrap_or_else(|error| vec![Finding::of(TOKEN, FindingState::Bad, &error, Finding::LATER)]);
        let mut names: Vec<Result<String>> = Vec::new();
        let configured = &self.settings.repositories;
        if configured.is_empty() {
            names.extend(self.ours_in(None));
        }
        for name in configured {
            let path = plain_path(name);
            match path.strip_suffix("/*") {
                Some(group) => names.extend(self.ours_in(Some(group))),
                None => names.push(Ok(path)),
            }
        }
        if names.is_empty() {
            let finding = format!("`{}` may push to none", self.bot_login);
            let remedy = "give the account the role Developer in a project, or name others in gitlab.repositories";
            found.push(Finding::bad("projects", finding, remedy));
        }
        let count = names.len();
        for name in names.into_iter().take(MOST_EXAMINED) {
            match name {
                Ok(path) => found.extend(self.place_findings(&path)),
                Err(error) => found.push(Finding::of("projects", FindingState::Bad, &error, Finding::LATER)),
            }
        }
        found.extend(left_out(count));
        found
    }

    /// The token and, where the server counts them (gitlab.com does), the requests that are left.
    fn token(&self) -> Result<Vec<Finding>> {
        let whose = format!("belongs to `{}`", self.bot_login);
        let answer = self.api.get("/personal_access_tokens/self")?;
        let mut found: Vec<Finding> =
            rate_limit(LIMIT, |what| answer.header(&format!("ratelimit-{what}"))).into_iter().collect();
        if answer.status == 404 {
            // Before version 15.5, or a token of another kind.
            found.insert(0, Finding::good(TOKEN, format!("{whose}; GitLab does not say what it may do")));
            return Ok(found);
        }
        let token: Token = answer.good_json(|| "cannot ask what the token may do".to_owned())?;
        let about = format!("{whose}; its scopes: {}", token.scopes.join(", "));
        let until_ms = token.expires_at.and_then(|day| clock::parse_time_loosely(&format!("{day}T00:00:00")));
        let finding = if token.scopes.iter().any(|scope| scope == "api") {
            expiry(TOKEN, about, until_ms, NEW_TOKEN)
        } else {
            Finding::bad(TOKEN, format!("{about}; without `api` nothing can be written"), NEW_TOKEN)
        };
        found.insert(0, finding);
        Ok(found)
    }

    /// Paths of the projects we may push to, in a group or all.
    fn ours_in(&self, group: Option<&str>) -> Vec<Result<String>> {
        let ours = match our_projects(&self.api) {
            Ok(ours) => ours,
            Err(error) => return vec![Err(error)],
        };
        let is_in = |path: &String| {
            group.is_none_or(|group| {
                path.to_lowercase().strip_prefix(&group.to_lowercase()).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let mut paths: Vec<String> = ours.into_values().filter(is_in).collect();
        paths.sort_unstable();
        if let (true, Some(group)) = (paths.is_empty(), group) {
            let none = Error::task(format!("the account may push to no project in the group `{group}`"));
            return vec![Err(none.hint("give it the role Developer there, or check gitlab.repositories"))];
        }
        paths.into_iter().map(Ok).collect()
    }

    /// A bare path can be a group's.
    fn place_findings(&self, path: &str) -> Vec<Finding> {
        let called = format!("project {path}");
        let answer = self.api.get(&format!("/projects/{}", percent_encoded(path)));
        let is_group = || {
            let group = self.api.get(&format!("/groups/{}", percent_encoded(path)));
            group.is_ok_and(|answer| answer.is_good())
        };
        let looked = match answer {
            Ok(answer) if answer.status == 404 && is_group() => {
                let in_it = self.ours_in(Some(path)).into_iter().take(MOST_EXAMINED);
                return in_it
                    .flat_map(|name| match name {
                        Ok(path) => self.place_findings(&path),
                        Err(error) => vec![Finding::of(called.clone(), FindingState::Bad, &error, Finding::LATER)],
                    })
                    .collect();
            }
            Ok(answer) => answer.good_json(|| format!("cannot read the project `{path}`")),
            Err(error) => Err(error),
        };
        let looked = looked.and_then(|project| self.project_looked_at(&project, &called));
        vec![looked.unwrap_or_else(|error| Finding::of(called.clone(), FindingState::Bad, &error, HERE))]
    }

    fn project_looked_at(&self, project: &Project, called: &str) -> Result<Finding> {
        if project.archived {
            let finding = "it is archived, nothing can be pushed to it";
            return Ok(Finding::bad(
                called,
                finding,
                "take it out of gitlab.repositories, or take it out of the archive",
            ));
        }
        self.need_push(project)?;
        let label = &self.settings.labels.bot;
        let answer = self.api.get(&format!("/projects/{}/labels/{}", project.id, percent_encoded(label)))?;
        if answer.status == 404 {
            let finding = format!("it has no label `{label}`, so nobody can ask for work");
            return Ok(Finding::warning(called, finding, "make that label there or in its group; capitals count"));
        }
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot look for the label `{label}`")));
        }
        if project.issues_access_level.as_deref() == Some("disabled") {
            let finding = "issues are switched off there; only merge requests can ask for work";
            return Ok(Finding::warning(called, finding, "switch them on in its settings, if that is not meant"));
        }
        Ok(Finding::good(called, format!("can be read and pushed to; the label `{label}` is there")))
    }
}

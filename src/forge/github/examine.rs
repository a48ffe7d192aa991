//! Whether the token and the repositories are fit for work. Reads only.

use super::super::rest::{MOST_EXAMINED, expiry, left_out, rate_limit};
use super::api::Answer;
use super::wire::Repository;
use super::{Github, candidates};
use crate::error::Result;
use crate::ports::{Finding, FindingState};
use crate::sys::clock;
use crate::text::percent_encoded;

const TOKEN: &str = "GitHub token";
const LIMIT: &str = "GitHub rate limit";
/// Where the variable with the token is named.
const NEW_TOKEN: &str = "make a new one and put it into GITHUB_PERSONAL_ACCESS_TOKEN";

impl Github {
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        match self.api.get("/user") {
            // Also where a token may not ask who it is: the headers tell.
            Ok(answer) => {
                found.push(self.token(&answer));
                found.extend(rate_limit(LIMIT, |what| answer.header(&format!("x-ratelimit-{what}"))));
            }
            Err(error) => found.push(Finding::of(TOKEN, FindingState::Bad, &error, Finding::LATER)),
        }
        match candidates::repositories(&self.api, &self.settings) {
            Err(error) => found.push(Finding::of("repositories", FindingState::Bad, &error, Finding::LATER)),
            Ok(names) if names.is_empty() => found.push(Finding::bad(
                "repositories",
                format!("`{}` may push to none", self.bot_login),
                "give the account write access to a repository, or name others in github.repositories",
            )),
            Ok(names) => {
                found.extend(names.iter().take(MOST_EXAMINED).map(|name| self.repository_finding(name)));
                found.extend(left_out(names.len()));
            }
        }
        found
    }

    /// Classic tokens have scopes; fine-grained ones and those of Apps have rights in each repository
    /// (docs: "Scopes for OAuth apps", "Authenticating to the REST API").
    fn token(&self, answer: &Answer) -> Finding {
        let whose = format!("belongs to `{}`", self.bot_login);
        let until_ms = answer.header("github-authentication-token-expiration").and_then(day_ms);
        // Tokens of Apps may come with an empty list, which says nothing of their rights.
        let is_classic = self.settings.token.expose().starts_with("ghp_");
        let scopes = answer.header("x-oauth-scopes").filter(|scopes| is_classic || !scopes.trim().is_empty());
        let about = match scopes {
            None => format!("{whose}; its rights show at each repository"),
            Some(scopes) => {
                let scopes: Vec<&str> = scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty()).collect();
                let listed = if scopes.is_empty() { "none".to_owned() } else { scopes.join(", ") };
                let about = format!("{whose}; its scopes: {listed}");
                if !scopes.contains(&"repo") {
                    let remedy = format!("{NEW_TOKEN}: classic with the scope `repo`, or fine-grained");
                    // Public repositories are open to it all the same.
                    return if scopes.contains(&"public_repo") {
                        Finding::warning(TOKEN, format!("{about}; private repositories are closed to it"), remedy)
                    } else {
                        Finding::bad(TOKEN, format!("{about}; it may change no repository"), remedy)
                    };
                }
                if scopes.contains(&"workflow") {
                    about
                } else {
                    format!("{about}; without `workflow`, changes of .github/workflows cannot be pushed")
                }
            }
        };
        expiry(TOKEN, about, until_ms, NEW_TOKEN)
    }

    fn repository_finding(&self, name: &str) -> Finding {
        let called = format!("repository {name}");
        self.repository_looked_at(name, &called).unwrap_or_else(|error| {
            Finding::of(called, FindingState::Bad, &error, "mend that there, or take it out of github.repositories")
        })
    }

    fn repository_looked_at(&self, name: &str, called: &str) -> Result<Finding> {
        // Refuses what is archived.
        let repository: Repository = self.read_repository(name)?;
        if !repository.may_push() {
            return Err(self.may_not_push(name));
        }
        let label = &self.settings.labels.bot;
        let parts: Vec<String> = name.split('/').map(percent_encoded).collect();
        let answer = self.api.get(&format!("/repos/{}/labels/{}", parts.join("/"), percent_encoded(label)))?;
        if answer.status == 404 {
            let finding = format!("it has no label `{label}`, so nobody can ask for work");
            return Ok(Finding::warning(called, finding, "make that label there"));
        }
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot look for the label `{label}`")));
        }
        if repository.has_issues == Some(false) {
            let finding = "issues are switched off there; only pull requests can ask for work";
            return Ok(Finding::warning(called, finding, "switch them on in its settings, if that is not meant"));
        }
        Ok(Finding::good(called, format!("can be read and pushed to; the label `{label}` is there")))
    }
}

/// `2024-12-31 10:00:00 UTC`, or with `+0900` for the zone, which makes no difference here.
fn day_ms(text: &str) -> Option<u64> {
    clock::parse_time_loosely(text.get(..19)?)
}

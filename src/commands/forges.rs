//! Which forge is worked for, and how it is reached.

use super::models::http_client;
use super::setup::Setup;
use crate::budget::Account;
use crate::config::{Secret, TaskSource};
use crate::error::{Error, Result};
use crate::forge::{ForgeSettings, Github, Gitlab, Local};
use crate::ports::Forge;

/// What our own account is called on the local forge.
const LOCAL_BOT: &str = "coding-agent";

impl Setup {
    /// The account at the forge; `None` where there is no server, or no token yet.
    pub fn forge_account(&self) -> Option<Account> {
        let config = &self.config;
        let (address, token) = match config.task_source {
            TaskSource::Local => return None,
            TaskSource::Github => (&config.github.api_url, config.github.personal_access_token.as_ref()?),
            TaskSource::Gitlab => (&config.gitlab.api_url, config.gitlab.personal_access_token.as_ref()?),
        };
        Some(self.account(address, token))
    }

    fn account(&self, address: &str, token: &Secret) -> Account {
        self.budget().account(address, None, Some(token))
    }

    pub(super) fn connect_forge(&self) -> Result<Box<dyn Forge>> {
        match self.config.task_source {
            TaskSource::Local => {
                let tasks_dir = self.config.local.tasks_dir.clone();
                Ok(Box::new(Local::new(tasks_dir, LOCAL_BOT.into(), self.labels())))
            }
            TaskSource::Github => {
                let github = self.config.github.clone();
                let token = github.personal_access_token.ok_or_else(|| {
                    Error::host("no token for GitHub is set").hint("put one into GITHUB_PERSONAL_ACCESS_TOKEN")
                })?;
                let client = http_client(&self.config, &github.api_url, self.forge_timeout_seconds)?;
                let account = self.account(&github.api_url, &token);
                let settings = ForgeSettings {
                    api_url: github.api_url,
                    token,
                    bot_name: github.bot_name,
                    labels: self.labels(),
                    repositories: github.repositories,
                    assignee: github.assignee,
                    query: github.query,
                };
                Ok(Box::new(Github::connect(settings, client, account)?))
            }
            TaskSource::Gitlab => {
                let gitlab = self.config.gitlab.clone();
                let token = gitlab.personal_access_token.ok_or_else(|| {
                    Error::host("no token for GitLab is set").hint("put one into GITLAB_PERSONAL_ACCESS_TOKEN")
                })?;
                let client = http_client(&self.config, &gitlab.api_url, self.forge_timeout_seconds)?;
                let account = self.account(&gitlab.api_url, &token);
                let settings = ForgeSettings {
                    api_url: gitlab.api_url,
                    token,
                    bot_name: gitlab.bot_name,
                    labels: self.labels(),
                    repositories: gitlab.repositories,
                    assignee: gitlab.assignee,
                    query: gitlab.query,
                };
                Ok(Box::new(Gitlab::connect(settings, client, account)?))
            }
        }
    }
}

//! What an adapter of a forge with a server is told.

use crate::config::Secret;
use crate::task::Labels;

/// Choices of the operator.
#[derive(Debug, Clone)]
pub struct ForgeSettings {
    /// Root of the REST API, no slash at the end.
    pub api_url: String,
    /// The token.
    pub token: Secret,
    /// Login to act as; `None` = whose token it is.
    pub bot_name: Option<String>,
    /// The six labels.
    pub labels: Labels,
    /// Where to work: `owner/repo` and `owner/*`, on GitLab paths of projects and groups; empty = all that the
    /// account may push to.
    pub repositories: Vec<String>,
    /// Only items assigned to this login.
    pub assignee: Option<String>,
    /// On GitHub further terms of a search, on GitLab words that title or description must hold.
    pub query: String,
}

impl ForgeSettings {
    /// The same for items that somebody works on, whatever else is asked of those that wait.
    pub(super) fn for_items_in_work(&self) -> Self {
        let labels = Labels { bot: self.labels.processing.clone(), ..self.labels.clone() };
        Self { labels, assignee: None, query: String::new(), ..self.clone() }
    }
}

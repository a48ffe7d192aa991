//! The fake behind `forge_conformance::Fixture`, with the GitLab adapter in front of it.

use coding_agent::budget::Account;
use coding_agent::config::Secret;
use coding_agent::forge::{ForgeSettings, Gitlab};
use coding_agent::ports::Forge;
use coding_agent::sys::http::{HttpClient, HttpSettings};
use coding_agent::task::{Labels, TaskKey};

use super::{FakeGitlab, Issue, Place, issue};
use crate::forge_conformance::Fixture;

pub const PROJECT: &str = "acme/tools/widgets.v2";

/// One project in a group of a group, its people, and an adapter that sees all it may.
pub struct GitlabFixture {
    // Closed before the fake: its connections are the fake's.
    forge: Gitlab,
    pub fake: FakeGitlab,
    id: u64,
    repositories: Vec<String>,
}

/// The adapter on a fake, as the configuration makes it.
pub fn adapter(fake: &FakeGitlab, repositories: &[String]) -> Gitlab {
    adapter_of(fake, repositories, Account::kept_nowhere())
}

/// The same with what is known of the account.
pub fn adapter_of(fake: &FakeGitlab, repositories: &[String], account: Account) -> Gitlab {
    let settings = ForgeSettings {
        api_url: fake.api_url(),
        token: Secret::new(fake.token()),
        bot_name: None,
        labels: Labels::default(),
        repositories: repositories.to_vec(),
        assignee: None,
        query: String::new(),
    };
    let client = HttpClient::new(HttpSettings { ca_file: None, timeout: None }, false).unwrap();
    Gitlab::connect(settings, client, account).unwrap()
}

impl GitlabFixture {
    /// Finds its candidates in everything the token may push to (no names), by project or by group.
    pub fn looking_in(repositories: &[&str]) -> Self {
        let fake = FakeGitlab::start();
        let id = fake.add_project(PROJECT);
        // The suite posts notes without text, which GitLab refuses.
        fake.allow_blank_notes();
        let repositories: Vec<String> = repositories.iter().map(|name| (*name).to_owned()).collect();
        Self { forge: adapter(&fake, &repositories), fake, id, repositories }
    }

    fn place(&self, key: &TaskKey) -> Place<'static> {
        match key {
            TaskKey::GitlabIssue { issue_iid, .. } => issue(PROJECT, *issue_iid),
            other => panic!("{other} is no issue on GitLab"),
        }
    }
}

impl Fixture for GitlabFixture {
    fn forge(&self) -> &dyn Forge {
        &self.forge
    }

    fn another(&self) -> Box<dyn Forge + Send> {
        Box::new(adapter(&self.fake, &self.repositories))
    }

    fn labels(&self) -> Labels {
        Labels::default()
    }

    fn add_item(&mut self, title: &str, body: &str, labels: &[&str], author: &str) -> TaskKey {
        let issue_iid = self.fake.add_issue(PROJECT, &Issue { title, body: Some(body), labels, author });
        TaskKey::GitlabIssue { project_id: self.id, project_path: PROJECT.to_owned(), issue_iid }
    }

    fn person_comments(&self, key: &TaskKey, author: &str, body: &str) {
        self.fake.note(self.place(key), author, body);
    }

    fn close(&self, key: &TaskKey) {
        self.fake.set_state(self.place(key), "closed");
    }

    fn set_assignees(&self, key: &TaskKey, assignees: &[&str]) {
        self.fake.set_assignees(self.place(key), assignees);
    }

    fn missing_key(&self) -> TaskKey {
        TaskKey::GitlabIssue { project_id: 99_999, project_path: "acme/nothing".to_owned(), issue_iid: 1 }
    }

    fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)> {
        self.fake.raw_snapshot()
    }

    fn labels_take_commas(&self) -> bool {
        false
    }

    fn lists_tell_case(&self) -> bool {
        true
    }
}

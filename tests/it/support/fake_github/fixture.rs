//! The fake behind `forge_conformance::Fixture`, with the GitHub adapter in front of it.

use coding_agent::budget::Account;
use coding_agent::config::Secret;
use coding_agent::forge::{ForgeSettings, Github};
use coding_agent::ports::Forge;
use coding_agent::sys::http::{HttpClient, HttpSettings};
use coding_agent::task::{Labels, TaskKey};

use super::{FakeGithub, Issue};
use crate::forge_conformance::Fixture;

pub const REPO: &str = "acme/widgets";

/// One repository, its people, and an adapter that sees all it may.
pub struct GithubFixture {
    // Closed before the fake: its connections are the fake's.
    forge: Github,
    pub fake: FakeGithub,
    repositories: Vec<String>,
}

/// The adapter on a fake, as the configuration makes it.
pub fn adapter(fake: &FakeGithub, repositories: &[String]) -> Github {
    adapter_of(fake, repositories, Account::kept_nowhere())
}

/// The same with what is known of the account.
pub fn adapter_of(fake: &FakeGithub, repositories: &[String], account: Account) -> Github {
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
    Github::connect(settings, client, account).unwrap()
}

/// The key of an issue of `REPO`.
pub fn issue(number: u64) -> TaskKey {
    let (owner, repo) = REPO.split_once('/').expect("owner/name");
    TaskKey::GithubIssue { owner: owner.to_owned(), repo: repo.to_owned(), number }
}

fn number(key: &TaskKey) -> u64 {
    match key {
        TaskKey::GithubIssue { number, .. } | TaskKey::GithubPullRequest { number, .. } => *number,
        other => panic!("{other} is not on GitHub"),
    }
}

impl GithubFixture {
    /// Finds its candidates by search.
    pub fn searching() -> Self {
        Self::with(&[])
    }

    /// Finds its candidates in the list of the repository.
    pub fn listing() -> Self {
        Self::with(&[REPO.to_owned()])
    }

    fn with(repositories: &[String]) -> Self {
        let fake = FakeGithub::start();
        fake.add_org("acme");
        fake.add_repo(REPO);
        // The suite posts comments without text, which GitHub refuses.
        fake.allow_blank_comments();
        Self { forge: adapter(&fake, repositories), fake, repositories: repositories.to_vec() }
    }
}

impl Fixture for GithubFixture {
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
        issue(self.fake.add_issue(REPO, &Issue { title, body: Some(body), labels, author }))
    }

    fn person_comments(&self, key: &TaskKey, author: &str, body: &str) {
        self.fake.comment(REPO, number(key), author, body);
    }

    fn close(&self, key: &TaskKey) {
        self.fake.close(REPO, number(key), "alice");
    }

    fn set_assignees(&self, key: &TaskKey, assignees: &[&str]) {
        self.fake.set_assignees(REPO, number(key), assignees, "alice");
    }

    fn missing_key(&self) -> TaskKey {
        TaskKey::GithubIssue { owner: "acme".to_owned(), repo: "nothing".to_owned(), number: 1 }
    }

    fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)> {
        self.fake.raw_snapshot()
    }
}

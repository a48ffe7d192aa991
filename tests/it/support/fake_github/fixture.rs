//! What `forge_conformance::Fixture` needs, ready for an adapter: one repository and its people.
//! Wiring an adapter is one line per method of the trait.

use super::{FakeGithub, Gone, Issue};

pub const REPO: &str = "acme/widgets";

pub struct GithubFixture {
    pub fake: FakeGithub,
}

impl GithubFixture {
    pub fn new() -> Self {
        let fake = FakeGithub::start();
        fake.add_org("acme");
        fake.add_repo(REPO);
        // The suite posts comments without text, which GitHub refuses.
        fake.allow_blank_comments();
        Self { fake }
    }

    /// Number of the new issue.
    pub fn add_item(&self, title: &str, body: &str, labels: &[&str], author: &str) -> u64 {
        self.fake.add_issue(REPO, &Issue { title, body: Some(body), labels, author })
    }

    pub fn person_comments(&self, number: u64, author: &str, body: &str) {
        self.fake.comment(REPO, number, author, body);
    }

    pub fn close(&self, number: u64) {
        self.fake.close(REPO, number, "alice");
    }

    pub fn set_assignees(&self, number: u64, assignees: &[&str]) {
        self.fake.set_assignees(REPO, number, assignees, "alice");
    }

    pub fn missing_number(&self) -> u64 {
        999_999
    }

    pub fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)> {
        self.fake.raw_snapshot()
    }

    pub fn author_leaves(&self, login: &str) {
        self.fake.delete_user(login, Gone::Null);
    }
}

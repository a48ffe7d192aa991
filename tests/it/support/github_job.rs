//! The main job on the fake GitHub: one installation, one issue, and what must hold in the end.

use coding_agent::sys::clock;

use super::fake_github::{FakeGithub, Issue};
use super::{Cassette, World, check_strictly};

pub const REPO: &str = "acme/widgets";
pub const BRANCH: &str = "coding-agent/issue-1";

/// An installation that works for the fake.
pub struct Job {
    // Dropped before the fake: its processes are over then.
    pub world: World,
    pub fake: FakeGithub,
    pub issue: u64,
}

impl Job {
    /// One labelled issue, and a model that fixes it.
    pub fn new() -> Self {
        Self::with(&fixing())
    }

    /// One labelled issue, and these replies.
    pub fn with(cassette: &Cassette) -> Self {
        let fake = FakeGithub::start();
        fake.add_org("acme");
        fake.add_repo(REPO);
        let issue = fake.add_issue(REPO, &Issue { labels: &["coding agent"], ..Issue::default() });
        let mut world = World::new();
        world.replies(cassette);
        world.write(
            "config.yaml",
            &format!(
                "task_source: github\ngithub: {{api_url: \"{}\", repositories: [{REPO}]}}\n\
                 llm: {{provider: replay, replay: {{file: replies.jsonl}}}}\n\
                 command_executor: {{backend: host}}\nqueue: {{max_consumers: 8}}\n",
                fake.api_url()
            ),
        );
        world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", fake.token());
        world.set_env("NO_PROXY", "127.0.0.1");
        Self { world, fake, issue }
    }

    pub fn labels(&self) -> Vec<String> {
        self.fake.labels(REPO, self.issue)
    }

    /// Final comments of the bot.
    pub fn final_comments(&self) -> Vec<String> {
        let comments = self.fake.comments(REPO, self.issue);
        comments.into_iter().map(|(_, body)| body).filter(|body| body.contains(":final -->")).collect()
    }

    /// Makes what is put off due, and runs until nothing is left to do.
    pub fn run_until_settled(&self) -> Vec<Option<i32>> {
        let mut codes = Vec::new();
        for _ in 0..6 {
            self.world.pass_time();
            codes.push(self.world.run(&[]).code);
            if self.world.entries().is_empty() && !self.labels().contains(&"coding agent".to_owned()) {
                break;
            }
        }
        codes
    }

    /// Branch, pull request, comment, labels, record: once each, and true.
    #[track_caller]
    pub fn assert_done(&self, what: &str) {
        self.world.assert_settled();
        assert_eq!(self.labels(), ["coding agent done"], "{what}");
        let sha = self.fake.branch(REPO, BRANCH).unwrap_or_else(|| {
            panic!("{what}: no branch: {:?}\n{}", self.final_comments(), self.world.read("logs/agent.log"))
        });
        assert_eq!(self.fake.git(REPO, &["show", &format!("{BRANCH}:fixed.txt")]).trim_end(), "fixed", "{what}");
        assert_eq!(self.fake.git(REPO, &["branch", "--list", "coding-agent/*"]).lines().count(), 1, "{what}: branches");
        assert_eq!(self.fake.pulls(REPO).len(), 1, "{what}: pull requests");
        let comments = self.final_comments();
        assert_eq!(comments.len(), 1, "{what}: {comments:?}");
        assert!(
            comments[0].contains(&format!("The work is on the branch `{BRANCH}` at {sha}.")),
            "{what}: {}",
            comments[0]
        );
        assert!(comments[0].contains("The pull request is http"), "{what}: {}", comments[0]);
        assert_eq!(self.world.names("contexts/completed").len(), 1, "{what}");
        check_strictly(&self.world.history());
        assert_eq!(self.world.names("workspaces"), Vec::<String>::new(), "{what}");
    }
}

/// A model that makes one file.
pub fn fixing() -> Cassette {
    Cassette::new().creates("fixed.txt", "fixed\n").runs("cat fixed.txt").finishes("I fixed it.")
}

/// Seconds since the epoch, `after` seconds from now.
pub fn seconds_from_now(after: u64) -> i64 {
    i64::try_from(clock::now_ms() / 1000 + after).unwrap()
}

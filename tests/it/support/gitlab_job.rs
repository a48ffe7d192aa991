//! The main job on the fake GitLab: one installation, one issue, and what must hold in the end.

use super::fake_gitlab::{FakeGitlab, Issue, Place, issue, request};
use super::{Cassette, World, check_strictly};

pub const PROJECT: &str = "acme/tools/widgets.v2";
pub const BRANCH: &str = "coding-agent/issue-1";
pub const LABEL: &str = "coding agent";

/// An installation that works for the fake.
pub struct Job {
    // Dropped before the fake: its processes are over then.
    pub world: World,
    pub fake: FakeGitlab,
    pub iid: u64,
}

impl Job {
    /// One labelled issue, and these replies.
    pub fn with(cassette: &Cassette) -> Self {
        let fake = FakeGitlab::start();
        fake.add_project(PROJECT);
        let iid = fake.add_issue(PROJECT, &Issue { labels: &[LABEL], ..Issue::default() });
        let mut world = World::new();
        world.replies(cassette);
        world.write(
            "config.yaml",
            &format!(
                "task_source: gitlab\ngitlab: {{api_url: \"{}\", repositories: [{PROJECT}]}}\n\
                 llm: {{provider: replay, replay: {{file: replies.jsonl}}}}\n\
                 command_executor: {{backend: host}}\nqueue: {{max_consumers: 8}}\n",
                fake.api_url()
            ),
        );
        world.set_env("GITLAB_PERSONAL_ACCESS_TOKEN", fake.token());
        world.set_env("NO_PROXY", "127.0.0.1");
        Self { world, fake, iid }
    }

    /// One labelled merge request from `from` and no labelled issue; the number of the request.
    pub fn with_request(cassette: &Cassette, from: &str, branch: &str) -> (Self, u64) {
        let job = Self::with(cassette);
        job.fake.label(job.issue(), LABEL, false, "alice");
        if from != PROJECT {
            job.fake.add_fork(PROJECT, from);
        }
        let labelled = Issue { title: "A change", body: Some("It is half done."), labels: &[LABEL], author: "carol" };
        let iid = job.fake.add_request(PROJECT, &labelled, from, branch);
        (job, iid)
    }

    pub fn issue(&self) -> Place<'static> {
        issue(PROJECT, self.iid)
    }

    pub fn labels(&self) -> Vec<String> {
        self.fake.labels(self.issue())
    }

    /// Changes a part of the configuration.
    pub fn reconfigure(&self, from: &str, to: &str) {
        let config = self.world.read("config.yaml");
        assert!(config.contains(from), "{config}");
        self.world.write("config.yaml", &config.replace(from, to));
    }

    /// Final notes of the bot.
    pub fn final_notes(&self, place: Place<'_>) -> Vec<String> {
        let notes = self.fake.notes(place).into_iter().map(|(_, body)| body);
        notes.filter(|body| body.contains(":final -->")).collect()
    }

    /// Makes what is put off due, and runs until nothing is left to do.
    pub fn run_until_settled(&self) -> Vec<Option<i32>> {
        let mut codes = Vec::new();
        for _ in 0..6 {
            self.world.pass_time();
            codes.push(self.world.run(&[]).code);
            if self.world.entries().is_empty() && !self.labels().contains(&LABEL.to_owned()) {
                break;
            }
        }
        codes
    }

    /// Branch, merge request, note, labels, record: once each, and true.
    #[track_caller]
    pub fn assert_done(&self, what: &str) {
        self.world.assert_settled();
        let notes = self.final_notes(self.issue());
        assert_eq!(self.labels(), ["coding agent done"], "{what}: {notes:?}");
        let sha = self
            .fake
            .branch(PROJECT, BRANCH)
            .unwrap_or_else(|| panic!("{what}: no branch: {notes:?}\n{}", self.world.read("logs/agent.log")));
        assert_eq!(self.fake.git(PROJECT, &["show", &format!("{BRANCH}:fixed.txt")]).trim_end(), "fixed", "{what}");
        let branches = self.fake.git(PROJECT, &["branch", "--list", "coding-agent/*"]);
        assert_eq!(branches.lines().count(), 1, "{what}: {branches}");
        assert_eq!(self.fake.requests(PROJECT), [1], "{what}: merge requests");
        assert_eq!(self.fake.item(request(PROJECT, 1))["source_branch"], BRANCH, "{what}");
        assert_eq!(notes.len(), 1, "{what}: {notes:?}");
        assert!(notes[0].contains(&format!("The work is on the branch `{BRANCH}` at {sha}.")), "{what}: {}", notes[0]);
        assert!(notes[0].contains("The merge request is http"), "{what}: {}", notes[0]);
        assert_eq!(self.world.names("contexts/completed").len(), 1, "{what}");
        check_strictly(&self.world.history());
        assert_eq!(self.world.names("workspaces"), Vec::<String>::new(), "{what}");
    }
}

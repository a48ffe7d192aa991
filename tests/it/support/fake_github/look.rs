//! What a test may look at behind the API's back.

use super::state::{Hub, Item, Repo};
use super::{FakeGithub, git, json, pull_json};

impl FakeGithub {
    pub fn repo_id(&self, full: &str) -> u64 {
        let hub = self.hub();
        hub.repos[hub.at(full)].id
    }

    /// What a branch points to.
    pub fn branch(&self, full: &str, branch: &str) -> Option<String> {
        let hub = self.hub();
        git::branch_sha(&hub.git_root, hub.repos[hub.at(full)].id, branch)
    }

    /// Runs git in the bare repository.
    #[track_caller]
    pub fn git(&self, full: &str, args: &[&str]) -> String {
        let (root, id) = {
            let hub = self.hub();
            (hub.git_root.clone(), hub.repos[hub.at(full)].id)
        };
        git::run(&root, id, args)
    }

    /// The item as the API shows it.
    pub fn item(&self, full: &str, number: u64) -> serde_json::Value {
        let hub = self.hub();
        let repo = &hub.repos[hub.at(full)];
        hub.full_issue_json(repo, repo.item(number).expect("an item"))
    }

    /// Names of the labels of an item.
    pub fn labels(&self, full: &str, number: u64) -> Vec<String> {
        let hub = self.hub();
        let repo = &hub.repos[hub.at(full)];
        repo.names(repo.item(number).expect("an item")).map(str::to_owned).collect()
    }

    /// Author and body of each comment.
    pub fn comments(&self, full: &str, number: u64) -> Vec<(String, String)> {
        let hub = self.hub();
        let repo = &hub.repos[hub.at(full)];
        let comments = &repo.item(number).expect("an item").comments;
        comments.iter().map(|comment| (comment.author.clone(), comment.body.clone())).collect()
    }

    /// Numbers of the pull requests.
    pub fn pulls(&self, full: &str) -> Vec<u64> {
        let hub = self.hub();
        let items = &hub.repos[hub.at(full)].items;
        items.iter().filter(|item| item.pull.is_some()).map(|item| item.number).collect()
    }

    /// All that is held, as canonical JSON by name: equal when nothing was written.
    pub fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)> {
        let hub = self.hub();
        let mut all = Vec::new();
        for repo in &hub.repos {
            let labels: Vec<_> = repo.labels.iter().map(|label| hub.label_json(repo, label)).collect();
            let refs = git::branches(&hub.git_root, repo.id);
            all.push((repo.full(), serde_json::json!({"labels": labels, "refs": refs}).to_string().into_bytes()));
            for item in &repo.items {
                let shown = snapshot(&hub, repo, item);
                all.push((format!("{}#{}", repo.full(), item.number), shown.to_string().into_bytes()));
            }
        }
        all
    }

    /// One item with all that hangs on it, as canonical JSON.
    pub fn snapshot(&self, full: &str, number: u64) -> serde_json::Value {
        let hub = self.hub();
        let repo = &hub.repos[hub.at(full)];
        snapshot(&hub, repo, repo.item(number).expect("an item"))
    }
}

fn snapshot(hub: &Hub, repo: &Repo, item: &Item) -> serde_json::Value {
    let comments: Vec<_> = item.comments.iter().map(|comment| hub.comment_json(repo, item, comment)).collect();
    let events: Vec<_> = item.events.iter().map(|event| hub.event_json(repo, event)).collect();
    let pull = item.pull.as_ref().map(|pull| {
        let reviews: Vec<_> =
            pull.reviews.iter().map(|review| pull_json::review_json(hub, repo, item, review)).collect();
        let remarks = pull.review_comments.iter().map(|remark| pull_json::review_comment_json(hub, repo, item, remark));
        let remarks: Vec<_> = remarks.collect();
        let shown = pull_json::pull_json(hub, repo, item, pull, "");
        serde_json::json!({"pull": shown, "reviews": reviews, "review_comments": remarks})
    });
    serde_json::json!({
        "issue": hub.full_issue_json(repo, item), "comments": comments, "events": events, "pull": pull,
        "deleted": item.deleted, "state": json::state(item),
    })
}

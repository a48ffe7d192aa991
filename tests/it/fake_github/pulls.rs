//! Pull requests, reviews, references and branches.

use serde_json::{Value, json};

use super::{Ask, Got, REPO, only_violation, with_repo};
use crate::support::fake_github::{FakeGithub, Issue, Permission};

fn open(fake: &FakeGithub, head: &str, draft: bool) -> Got {
    let body = json!({"title": "Fix", "body": "Closes #1", "head": head, "base": "main", "draft": draft});
    Ask::post(&format!("/repos/{REPO}/pulls"), &body).send(fake)
}

fn find(fake: &FakeGithub, query: &str) -> Vec<Value> {
    let list = Ask::get(&format!("/repos/{REPO}/pulls?{query}")).send(fake).is(200).json();
    list.as_array().unwrap().iter().map(|one| one["number"].clone()).collect()
}

#[test]
fn a_pull_request_is_opened_once() {
    let fake = with_repo();
    let sha = fake.commit(REPO, "coding-agent/issue-1", &[("fixed.txt", "fixed\n")]);
    let got = open(&fake, "coding-agent/issue-1", true).is(201).json();
    assert_eq!((&got["state"], &got["draft"], &got["merged"]), (&json!("open"), &json!(true), &json!(false)));
    assert_eq!(got["head"]["sha"], json!(sha));
    assert_eq!(got["head"]["label"], json!("acme:coding-agent/issue-1"));
    assert_eq!(got["head"]["repo"]["full_name"], json!(REPO));
    assert_eq!(got["commits"], json!(1));
    assert!(got["html_url"].as_str().unwrap().starts_with(&fake.web_url()));
    let again = open(&fake, "acme:coding-agent/issue-1", true).is(422).json();
    let message = "A pull request already exists for acme:coding-agent/issue-1.";
    assert_eq!(again["errors"], json!([{"resource": "PullRequest", "code": "custom", "message": message}]));
    assert_eq!(fake.pulls(REPO), [1]);
    assert_eq!(find(&fake, "head=acme:coding-agent/issue-1"), [json!(1)]);
    assert_eq!(find(&fake, "head=acme%3Acoding-agent%2Fissue-1&state=all"), [json!(1)]);
    assert!(find(&fake, "head=alice:coding-agent/issue-1").is_empty());
    assert!(find(&fake, "base=other").is_empty());
    fake.close(REPO, 1, "alice");
    assert!(find(&fake, "head=acme:coding-agent/issue-1").is_empty());
    assert_eq!(find(&fake, "head=acme:coding-agent/issue-1&state=closed"), [json!(1)]);
    open(&fake, "coding-agent/issue-1", false).is(201);
    assert_eq!(find(&fake, "state=all"), [json!(2), json!(1)]);
}

#[test]
fn a_head_without_an_owner_filters_nothing() {
    let fake = with_repo();
    let number = fake.add_pull(REPO, &Issue::default(), REPO, "work");
    assert_eq!(find(&fake, "head=other"), [json!(number)]);
    assert!(only_violation(&fake).contains("head without an owner"));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let fake = with_repo();
    let wrong = |got: Got| got.is(422).json()["errors"][0].clone();
    assert_eq!(
        wrong(open(&fake, "absent", false)),
        json!({"resource": "PullRequest", "field": "head", "code": "invalid"})
    );
    let body = json!({"title": "t", "head": "main", "base": "absent"});
    let got = Ask::post(&format!("/repos/{REPO}/pulls"), &body).send(&fake);
    assert_eq!(wrong(got), json!({"resource": "PullRequest", "field": "base", "code": "invalid"}));
    let sha = fake.branch(REPO, "main").unwrap();
    fake.git(REPO, &["branch", "same", &sha]);
    assert_eq!(wrong(open(&fake, "same", false))["message"], json!("No commits between main and same"));
    fake.commit(REPO, "work", &[("a", "a\n")]);
    fake.change_repo(REPO, |repo| repo.drafts = false);
    let got = open(&fake, "work", true).is(422);
    assert_eq!(got.message(), "Draft pull requests are not supported in this repository.");
    assert_eq!(got.json().get("errors"), None);
    let body = json!({"title": "t", "head": "work", "base": "main", "body": "x".repeat(65_537)});
    let got = Ask::post(&format!("/repos/{REPO}/pulls"), &body).send(&fake);
    assert!(wrong(got)["message"].as_str().unwrap().contains("too long"));
    fake.set_permission(REPO, fake.bot(), Permission::Read);
    open(&fake, "work", false).is(403);
    fake.set_permission(REPO, fake.bot(), Permission::Write);
    open(&fake, "work", false).is(201);
}

#[test]
fn forks_and_their_end() {
    let fake = with_repo();
    let fork = fake.add_fork(REPO, "carol");
    let number = fake.add_pull(REPO, &Issue { author: "carol", ..Issue::default() }, &fork, "idea");
    let show = || Ask::get(&format!("/repos/{REPO}/pulls/{number}")).send(&fake).is(200).json();
    let shown = show();
    assert_eq!((&shown["head"]["label"], &shown["head"]["repo"]["fork"]), (&json!("carol:idea"), &json!(true)));
    assert_eq!((&shown["maintainer_can_modify"], &shown["commits"]), (&json!(false), &json!(1)));
    assert_eq!(find(&fake, "head=carol:idea"), [json!(number)]);
    let before = shown["head"]["sha"].clone();
    fake.commit(&fork, "idea", &[("more", "more\n")]);
    assert_ne!(show()["head"]["sha"], before, "follows the branch");
    fake.delete_repo(&fork);
    assert_eq!(show()["head"]["repo"], Value::Null);
    assert_eq!(show()["head"]["ref"], json!("idea"));
}

#[test]
fn merged_is_closed_with_a_date() {
    let fake = with_repo();
    let number = fake.add_pull(REPO, &Issue::default(), REPO, "work");
    fake.merge(REPO, number, "alice");
    let shown = Ask::get(&format!("/repos/{REPO}/pulls/{number}")).send(&fake).json();
    assert_eq!((&shown["state"], &shown["merged"]), (&json!("closed"), &json!(true)));
    assert_eq!(shown["merged_by"]["login"], json!("alice"));
    assert_eq!(shown["merge_commit_sha"], json!(fake.branch(REPO, "main")));
    assert_eq!(fake.git(REPO, &["show", "main:work"]), "half");
    let issue = Ask::get(&format!("/repos/{REPO}/issues/{number}")).send(&fake).json();
    assert_eq!(issue["pull_request"]["merged_at"], shown["merged_at"]);
    let ask = Ask::new("PATCH", &format!("/repos/{REPO}/pulls/{number}"));
    ask.clone().json(&json!({"state": "open"})).send(&fake).is(422);
    let got = ask.json(&json!({"title": "new", "body": "text"})).send(&fake).is(200).json();
    assert_eq!((&got["title"], &got["body"]), (&json!("new"), &json!("text")));
}

#[test]
fn reviews_and_remarks_are_listed() {
    let fake = with_repo();
    let number = fake.add_pull(REPO, &Issue::default(), REPO, "work");
    let remarks = [("add.sh", Some(1), "@@ -1 +1 @@\n-a\n+b", "why?"), ("README", None, "@@ -9 +9 @@", "gone")];
    let id = fake.review(REPO, number, "bob", "CHANGES_REQUESTED", "Please change.", &remarks);
    let get = |what: &str| Ask::get(&format!("/repos/{REPO}/pulls/{number}/{what}")).send(&fake).is(200).json();
    let review = &get("reviews")[0];
    assert_eq!((&review["state"], &review["id"]), (&json!("CHANGES_REQUESTED"), &json!(id)));
    let comments = get("comments");
    assert_eq!((&comments[0]["path"], &comments[0]["line"]), (&json!("add.sh"), &json!(1)));
    assert_eq!((&comments[1]["line"], &comments[1]["position"]), (&Value::Null, &Value::Null));
    assert_eq!(comments[0]["pull_request_review_id"], json!(id));
    assert!(comments[0]["diff_hunk"].as_str().unwrap().starts_with("@@"));
    // The conversation is another list.
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    assert_eq!(Ask::get(&path).send(&fake).json(), json!([]));
}

#[test]
fn reviews_are_asked_of_collaborators() {
    let fake = with_repo();
    let number = fake.add_pull(REPO, &Issue::default(), REPO, "work");
    fake.set_permission(REPO, "bob", Permission::Read);
    let ask = |login: &str| {
        let path = format!("/repos/{REPO}/pulls/{number}/requested_reviewers");
        Ask::post(&path, &json!({"reviewers": [login]})).send(&fake)
    };
    assert_eq!(ask("bob").is(201).json()["requested_reviewers"][0]["login"], json!("bob"));
    assert!(ask("stranger").is(422).message().contains("from collaborators"));
    assert!(ask("alice").is(422).message().contains("pull request author"));
}

#[test]
fn references_are_made_once() {
    let fake = with_repo();
    let sha = fake.branch(REPO, "main").unwrap();
    let make = |name: &str, sha: &str| {
        Ask::post(&format!("/repos/{REPO}/git/refs"), &json!({"ref": name, "sha": sha})).send(&fake)
    };
    make("refs/heads/coding-agent/issue-1", &sha).is(201);
    assert_eq!(make("refs/heads/coding-agent/issue-1", &sha).is(422).message(), "Reference already exists");
    assert_eq!(make("refs/heads/x", &"0".repeat(40)).is(422).message(), "Object does not exist");
    assert!(make("heads/x", &sha).is(422).message().contains("must start with"));
    make("refs/heads/a..b", &sha).is(422);
    // In the way of a directory.
    make("refs/heads/coding-agent", &sha).is(422);
    for path in ["coding-agent/issue-1", "coding-agent%2Fissue-1"] {
        let got = Ask::get(&format!("/repos/{REPO}/git/ref/heads/{path}")).send(&fake).is(200).json();
        assert_eq!(got["object"]["sha"], json!(sha));
        Ask::get(&format!("/repos/{REPO}/branches/{path}")).send(&fake).is(200);
    }
    for path in ["coding-agent", "absent", "coding-agent/issue"] {
        Ask::get(&format!("/repos/{REPO}/git/ref/heads/{path}")).send(&fake).is(404);
    }
    fake.change_repo(REPO, |repo| repo.protected.push("main".to_owned()));
    let list = Ask::get(&format!("/repos/{REPO}/branches")).send(&fake).is(200).json();
    assert_eq!((&list[0]["name"], &list[1]["name"]), (&json!("coding-agent/issue-1"), &json!("main")));
    assert_eq!((&list[0]["protected"], &list[1]["protected"]), (&json!(false), &json!(true)));
    fake.git(REPO, &["pack-refs", "--all"]);
    assert_eq!(fake.branch(REPO, "main"), Some(sha), "packed references are found too");
}

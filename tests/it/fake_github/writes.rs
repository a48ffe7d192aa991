//! Writes on issues: comments, labels, assignees, events, permissions, and what forbids them.

use serde_json::{Value, json};

use super::{Ask, Got, REPO, with_repo};
use crate::support::fake_github::{FakeGithub, Gone, Issue, Lock, Permission};

fn post(fake: &FakeGithub, number: u64, body: &str) -> Got {
    Ask::post(&format!("/repos/{REPO}/issues/{number}/comments"), &json!({"body": body})).send(fake)
}

#[test]
fn a_body_may_have_65536_characters() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    post(&fake, number, &"🔴".repeat(65_536)).is(201);
    for length in [65_537, 200_000] {
        let got = post(&fake, number, &"a".repeat(length)).is(422).json();
        assert_eq!(got["message"], json!("Validation Failed"));
        let wanted = json!({
            "resource": "IssueComment", "code": "unprocessable", "field": "data",
            "message": "Body is too long (maximum is 65536 characters)",
        });
        assert_eq!(got["errors"], json!([wanted]));
    }
    post(&fake, number, " \n").is(422);
    fake.allow_blank_comments();
    post(&fake, number, "").is(201);
    assert_eq!(fake.comments(REPO, number).len(), 2);
}

#[test]
fn comments_are_changed_by_those_who_may() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    let own = post(&fake, number, "working").is(201).json();
    assert_eq!(own["user"]["login"], json!(fake.bot()));
    assert_eq!(own["author_association"], json!("MEMBER"));
    let theirs = fake.comment(REPO, number, "alice", "hello");
    let change = |id: u64, token: &str| {
        let path = format!("/repos/{REPO}/issues/comments/{id}");
        let ask = Ask::new("PATCH", &path).json(&json!({"body": "changed"}));
        ask.with("authorization", &format!("Bearer {token}")).send(&fake)
    };
    let id = own["id"].as_u64().unwrap();
    let changed = change(id, fake.token()).is(200).json();
    assert_eq!((changed["body"].as_str(), &changed["created_at"]), (Some("changed"), &own["created_at"]));
    assert!(changed["updated_at"].as_str() > own["updated_at"].as_str());
    change(theirs, fake.token()).is(200);
    change(987_654, fake.token()).is(404);
    fake.add_token("reader", "carol", false);
    fake.set_permission(REPO, "carol", Permission::Read);
    change(theirs, "reader").is(403);
    fake.add_token("fine", fake.bot(), true);
    change(id, "fine").is(403);
}

#[test]
fn labels_know_no_case_and_tell_what_happened() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue { labels: &["Doing"], ..Issue::default() });
    let path = format!("/repos/{REPO}/issues/{number}/labels");
    let before = fake.raw_snapshot();
    let got = Ask::post(&path, &json!({"labels": ["doing"]})).send(&fake).is(200);
    assert_eq!(got.json()[0]["name"], json!("Doing"));
    assert_eq!(Ask::new("DELETE", &format!("{path}/absent")).send(&fake).is(404).message(), "Label does not exist");
    assert_eq!(fake.raw_snapshot(), before);
    Ask::post(&path, &json!({"labels": ["new"]})).send(&fake).is(200);
    Ask::new("DELETE", &format!("{path}/DOING")).send(&fake).is(200);
    let events = Ask::get(&format!("/repos/{REPO}/issues/{number}/events")).send(&fake).is(200).json();
    let shown = |one: &Value| format!("{} {} by {}", one["event"], one["label"]["name"], one["actor"]["login"]);
    let all: Vec<_> = events.as_array().unwrap().iter().map(|one| shown(one).replace('"', "")).collect();
    let bot = fake.bot();
    assert_eq!(
        all,
        ["labeled Doing by alice".to_owned(), format!("labeled new by {bot}"), format!("unlabeled Doing by {bot}")]
    );
    assert!(events[0]["id"].as_u64() < events[1]["id"].as_u64());
    Ask::get(&format!("/repos/{REPO}/labels/NEW")).send(&fake).is(200);
}

#[test]
fn a_label_is_made_once() {
    let fake = with_repo();
    let path = format!("/repos/{REPO}/labels");
    let label = |name: &str| Ask::post(&path, &json!({"name": name, "color": "0e8a16"})).send(&fake);
    label("coding agent done").is(201);
    let got = label("Coding Agent DONE").is(422).json();
    assert_eq!(got["errors"], json!([{"resource": "Label", "code": "already_exists", "field": "name"}]));
    label("").is(422);
    label(&"x".repeat(51)).is(422);
    Ask::get(&format!("{path}/absent")).send(&fake).is(404);
}

#[test]
fn a_weak_hand_is_refused() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue { labels: &["x"], ..Issue::default() });
    let labels = format!("/repos/{REPO}/issues/{number}/labels");
    fake.set_permission(REPO, fake.bot(), Permission::Read);
    Ask::post(&labels, &json!({"labels": ["x"]})).send(&fake).is(403);
    Ask::new("DELETE", &format!("{labels}/x")).send(&fake).is(403);
    post(&fake, number, "reading is enough to comment").is(201);
    fake.set_permission(REPO, fake.bot(), Permission::Triage);
    Ask::post(&labels, &json!({"labels": ["x"]})).send(&fake).is(200);
    Ask::post(&labels, &json!({"labels": ["not there yet"]})).send(&fake).is(403);
    fake.set_permission(REPO, fake.bot(), Permission::Write);
    fake.change_repo(REPO, |repo| repo.archived = true);
    assert!(post(&fake, number, "x").is(403).message().contains("archived"));
}

#[test]
fn locked_deleted_and_switched_off() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    fake.lock(REPO, number, Lock::Readers);
    post(&fake, number, "those who may write may comment").is(201);
    fake.lock(REPO, number, Lock::Everyone);
    assert_eq!(post(&fake, number, "x").is(403).message(), "Unable to create comment because issue is locked.");
    assert_eq!(fake.item(REPO, number)["locked"], json!(true));
    fake.lock(REPO, number, Lock::Open);
    post(&fake, number, "x").is(201);
    fake.change_repo(REPO, |repo| repo.has_issues = false);
    assert!(post(&fake, number, "x").is(410).message().contains("disabled"));
    fake.change_repo(REPO, |repo| repo.has_issues = true);
    fake.delete_item(REPO, number);
    assert_eq!(post(&fake, number, "x").is(410).message(), "This issue was deleted");
    Ask::get(&format!("/repos/{REPO}/issues/{number}")).send(&fake).is(410);
    Ask::get(&format!("/repos/{REPO}/issues/999999")).send(&fake).is(404);
    Ask::get(&format!("/repos/{REPO}/issues/abc")).send(&fake).is(404);
}

#[test]
fn people_who_left_are_null_or_ghost() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue { author: "mallory", ..Issue::default() });
    fake.comment(REPO, number, "trent", "a");
    fake.comment(REPO, number, "x[bot]", "b");
    fake.delete_user("mallory", Gone::Null);
    fake.delete_user("trent", Gone::Ghost);
    assert_eq!(Ask::get(&format!("/repos/{REPO}/issues/{number}")).send(&fake).json()["user"], Value::Null);
    let comments = Ask::get(&format!("/repos/{REPO}/issues/{number}/comments")).send(&fake).json();
    assert_eq!(comments[0]["user"]["login"], json!("ghost"));
    assert_eq!((&comments[1]["user"]["login"], &comments[1]["user"]["type"]), (&json!("x[bot]"), &json!("Bot")));
    Ask::get(&format!("/repos/{REPO}/collaborators/mallory/permission")).send(&fake).is(404);
}

#[test]
fn permissions_are_told_to_those_who_may_push() {
    let fake = with_repo();
    let ask = |login: &str| Ask::get(&format!("/repos/{REPO}/collaborators/{login}/permission")).send(&fake);
    for (held, permission, role) in [
        (Permission::Read, "read", "read"),
        (Permission::Triage, "read", "triage"),
        (Permission::Write, "write", "write"),
        (Permission::Maintain, "write", "maintain"),
        (Permission::Admin, "admin", "admin"),
    ] {
        fake.set_permission(REPO, "alice", held);
        let got = ask("Alice").is(200).json();
        assert_eq!((&got["permission"], &got["role_name"]), (&json!(permission), &json!(role)));
        assert_eq!(got["user"]["login"], json!("alice"));
    }
    fake.add_issue(REPO, &Issue { author: "stranger", ..Issue::default() });
    assert_eq!(ask("stranger").is(200).json()["permission"], json!("none"));
    fake.change_repo(REPO, |repo| repo.private = false);
    assert_eq!(ask("stranger").is(200).json()["permission"], json!("read"));
    ask("nobody-at-all").is(404);
    fake.set_permission(REPO, fake.bot(), Permission::Triage);
    assert!(ask("alice").is(403).message().contains("push access"));
}

#[test]
fn only_people_with_access_are_assigned() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    fake.set_permission(REPO, "alice", Permission::Read);
    let body = json!({"assignees": ["alice", "stranger", "ALICE"]});
    let got = Ask::post(&format!("/repos/{REPO}/issues/{number}/assignees"), &body).send(&fake).is(201).json();
    assert_eq!(got["assignees"].as_array().unwrap().len(), 1);
    assert_eq!(got["assignee"]["login"], json!("alice"));
    let event = &fake.snapshot(REPO, number)["events"][0];
    assert_eq!((&event["event"], &event["assignee"]["login"]), (&json!("assigned"), &json!("alice")));
}

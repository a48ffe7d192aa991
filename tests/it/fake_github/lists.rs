//! Lists: paging, filters, search, and who sees what.

use serde_json::{Value, json};

use super::{Ask, Got, REPO, only_violation, target, with_repo};
use crate::support::fake_github::{FakeGithub, Issue, Permission, segment, terms};

fn numbers(got: &Got) -> Vec<u64> {
    let value = got.json();
    let list = value.as_array().or_else(|| value["items"].as_array()).unwrap();
    list.iter().map(|one| one["number"].as_u64().unwrap()).collect()
}

fn search(fake: &FakeGithub, query: &str) -> Got {
    Ask::get(&format!("/search/issues?q={}&per_page=100", segment(query))).send(fake)
}

#[test]
fn comments_come_thirty_at_a_time_oldest_first() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    for n in 0..101 {
        fake.comment(REPO, number, "alice", &n.to_string());
    }
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    let first = Ask::get(&path).send(&fake).is(200);
    assert_eq!(first.json().as_array().unwrap().len(), 30);
    assert_eq!(first.json()[0]["body"], json!("0"));
    assert_eq!((first.link("prev"), first.link("first")), (None, None));
    assert!(first.link("last").unwrap().ends_with("?page=4"), "{:?}", first.link("last"));
    let (mut next, mut seen) = (Some(format!("{path}?per_page=100")), Vec::new());
    while let Some(path) = next {
        let got = Ask::get(&path).send(&fake).is(200);
        seen.extend(got.json().as_array().unwrap().iter().map(|one| one["body"].as_str().unwrap().to_owned()));
        next = got.link("next").map(|url| target(&fake, &url));
    }
    assert_eq!(seen, (0..101).map(|n| n.to_string()).collect::<Vec<_>>());
    let beyond = Ask::get(&format!("{path}?page=9")).send(&fake).is(200);
    assert_eq!((beyond.json(), beyond.link("next")), (json!([]), None));
}

#[test]
fn the_issues_list_holds_pull_requests_with_ids_of_their_own() {
    let fake = with_repo();
    let issue = fake.add_issue(REPO, &Issue { labels: &["todo"], ..Issue::default() });
    let pull = fake.add_pull(REPO, &Issue { labels: &["todo"], ..Issue::default() }, REPO, "work");
    let list = Ask::get(&format!("/repos/{REPO}/issues?labels=todo&direction=asc")).send(&fake).json();
    assert_eq!((list[0]["number"].as_u64(), list[1]["number"].as_u64()), (Some(issue), Some(pull)));
    assert_eq!(list[0].get("pull_request"), None);
    assert!(list[1]["pull_request"]["url"].as_str().unwrap().ends_with(&format!("/pulls/{pull}")));
    let shown = Ask::get(&format!("/repos/{REPO}/pulls/{pull}")).send(&fake).is(200).json();
    assert_ne!(shown["id"], list[1]["id"]);
    Ask::get(&format!("/repos/{REPO}/pulls/{issue}")).send(&fake).is(404);
}

#[test]
fn issues_are_filtered_and_sorted() {
    let fake = with_repo();
    let add = |labels: &[&str]| fake.add_issue(REPO, &Issue { labels, ..Issue::default() });
    let (one, two, three, closed) = (add(&["A", "b"]), add(&["a"]), add(&[]), add(&["a"]));
    fake.close(REPO, closed, "alice");
    fake.set_assignees(REPO, three, &["bob"], "alice");
    fake.comment(REPO, one, "alice", "x");
    let list = |query: &str| numbers(&Ask::get(&format!("/repos/{REPO}/issues?{query}")).send(&fake).is(200));
    assert_eq!(list(""), [three, two, one]);
    assert_eq!(list("labels=a&direction=asc"), [one, two]);
    assert_eq!(list("labels=a,B"), [one]);
    assert_eq!(list("labels=a&state=closed"), [closed]);
    assert_eq!(list("labels=a&state=all&direction=asc"), [one, two, closed]);
    assert_eq!(list("sort=updated"), [one, three, two]);
    assert_eq!(list("assignee=BOB"), [three]);
    assert_eq!(list("assignee=none"), [two, one]);
    assert_eq!(list("assignee=*"), [three]);
    assert_eq!(list("creator=bob"), [0; 0]);
}

#[test]
fn a_query_is_parted_at_unquoted_spaces() {
    let parted = terms(r#"label:"coding agent" -label:a,b  fix "two words" label:"say \"hi\"" x:"#).unwrap();
    let shown: Vec<_> = parted.iter().map(|t| (t.negated, t.key.as_deref(), t.values.join("|"))).collect();
    let wanted = [
        (false, Some("label"), "coding agent"),
        (true, Some("label"), "a|b"),
        (false, None, "fix"),
        (false, None, "two words"),
        (false, Some("label"), "say \"hi\""),
        (false, Some("x"), ""),
    ];
    assert_eq!(shown, wanted.map(|(negated, key, values)| (negated, key, values.to_owned())));
    assert!(terms("label:\"open").is_err());
}

#[test]
fn search_finds_what_was_asked_for() {
    let fake = with_repo();
    fake.add_repo("other/tools");
    let issue = fake.add_issue(REPO, &Issue { labels: &["coding agent", "bug"], ..Issue::default() });
    let pull = fake.add_pull(REPO, &Issue { labels: &["Coding Agent"], ..Issue::default() }, REPO, "work");
    let other = Issue { title: "other", body: None, labels: &["coding agent"], author: "bob" };
    let there = fake.add_issue("other/tools", &other);
    fake.set_assignees("other/tools", there, &[fake.bot()], "bob");
    let find = |query: &str| numbers(&search(&fake, query).is(200));
    let label = "label:\"coding agent\" state:open";
    assert_eq!(find(&format!("{label} type:issue")).len(), 2);
    assert_eq!(find(&format!("{label} type:issue repo:{REPO}")), [issue]);
    assert_eq!(find(&format!("{label} type:issue repo:{REPO} repo:other/tools")).len(), 2);
    assert_eq!(find(&format!("{label} type:pr user:acme")), [pull]);
    assert_eq!(find(&format!("{label} is:issue org:other assignee:@me")), [there]);
    assert_eq!(find(&format!("{label} is:issue author:bob")), [there]);
    assert_eq!(find(&format!("{label} is:issue -label:bug")), [there]);
    // Without quotes the second word is looked for in the text.
    assert_eq!(find("label:coding agent state:open type:issue"), [0; 0]);
    assert_eq!(find("add.sh type:issue"), [issue]);
    assert_eq!(search(&fake, &format!("{label} type:issue")).json()["total_count"], json!(2));
    fake.close(REPO, issue, "alice");
    assert_eq!(find(&format!("{label} type:issue")), [there]);
}

#[test]
fn search_has_its_limits() {
    let fake = with_repo();
    let refused = |query: &str| search(&fake, query).is(422).json()["errors"][0]["message"].to_string();
    assert!(refused("label:x").contains("is:issue"));
    assert!(refused("is:issue repo:acme/secret").contains("cannot be searched"));
    Ask::get("/search/issues?q=").send(&fake).is(422);
    Ask::get("/search/issues?q=is%3Aissue&per_page=100&page=11").send(&fake).is(422);
    assert!(refused(&format!("is:issue {}", "long ".repeat(60))).contains("256"));
    fake.assert_no_violations();
    search(&fake, "is:issue labels:x").is(200);
    assert!(only_violation(&fake).contains("labels:x"));
    search(&fake, "is:issue label:\"x").is(422);
    assert!(only_violation(&fake).contains("quotes"));
    fake.set_incomplete_search(true);
    assert_eq!(search(&fake, "is:issue").json()["incomplete_results"], json!(true));
}

#[test]
fn search_lags_behind_when_told_to() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue { labels: &["todo"], ..Issue::default() });
    fake.freeze_search();
    fake.unlabel(REPO, number, "todo", "alice");
    let query = "label:todo type:issue";
    assert_eq!(numbers(&search(&fake, query)), [number]);
    assert_eq!(fake.labels(REPO, number), [""; 0]);
    fake.thaw_search();
    assert_eq!(numbers(&search(&fake, query)), [0; 0]);
}

#[test]
fn what_the_token_may_not_see_is_not_there() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    fake.set_permission(REPO, fake.bot(), Permission::None);
    for path in ["", "/issues", &format!("/issues/{number}"), "/labels"] {
        assert_eq!(Ask::get(&format!("/repos/{REPO}{path}")).send(&fake).is(404).message(), "Not Found");
    }
    assert_eq!(numbers(&search(&fake, "is:issue")), [0; 0]);
    fake.change_repo(REPO, |repo| repo.permissions.clear());
    fake.change_repo(REPO, |repo| repo.private = false);
    Ask::get(&format!("/repos/{REPO}/issues/{number}")).send(&fake).is(200);
    assert_eq!(numbers(&search(&fake, "is:issue")), [number]);
}

#[test]
fn owners_list_their_repositories() {
    let fake = with_repo();
    fake.add_repo("alice/notes");
    let names = |path: &str| -> Vec<Value> {
        let value = Ask::get(path).send(&fake).is(200).json();
        value.as_array().unwrap().iter().map(|one| one["full_name"].clone()).collect()
    };
    assert_eq!(names("/orgs/acme/repos"), [json!(REPO)]);
    // Private ones of a user are in nobody's list but `/user/repos`.
    assert!(names("/users/alice/repos").is_empty());
    assert_eq!(names("/user/repos"), [json!(REPO), json!("alice/notes")]);
    Ask::get("/orgs/alice/repos").send(&fake).is(404);
    Ask::get("/users/nobody/repos").send(&fake).is(404);
    for n in 0..30 {
        fake.add_repo(&format!("acme/r{n}"));
    }
    let next = Ask::get("/orgs/acme/repos").send(&fake).link("next").unwrap();
    assert!(next.contains("/organizations/"), "{next}");
    assert_eq!(names(&target(&fake, &next)).len(), 1);
}

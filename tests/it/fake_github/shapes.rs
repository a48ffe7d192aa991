//! The fake's answers beside recorded ones: the same fields with the same types of values.

use serde_json::{Value, json};

use super::{Ask, Got, REPO, target, with_repo};
use crate::support::fake_github::{FakeGithub, Issue};

/// Fields of GitHub's description of 2026 that the recordings of 2022 lack.
const NEWER: [&str; 3] = ["status", "has_discussions", "search_type"];

/// One recorded exchange.
struct Recorded(Value);

fn recording(scenario: &str) -> Vec<Recorded> {
    let path = format!("{}/tests/fixtures/octokit/{scenario}.json", env!("CARGO_MANIFEST_DIR"));
    let all: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all.into_iter().map(Recorded).collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Same fields, same types; a null on either side says nothing of a type. Of lists the first elements count.
fn compare(wanted: &Value, got: &Value, at: &str, problems: &mut Vec<String>) {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            for (name, value) in wanted {
                match got.get(name) {
                    Some(own) => compare(value, own, &format!("{at}.{name}"), problems),
                    None => problems.push(format!("{at}.{name} is missing")),
                }
            }
            let foreign = |name: &&String| !wanted.contains_key(*name) && !NEWER.contains(&name.as_str());
            problems.extend(got.keys().filter(foreign).map(|name| format!("{at}.{name} is not GitHub's")));
        }
        (Value::Array(wanted), Value::Array(got)) => {
            if let (Some(wanted), Some(got)) = (wanted.first(), got.first()) {
                compare(wanted, got, &format!("{at}[0]"), problems);
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        _ if kind(wanted) == kind(got) => {}
        _ => problems.push(format!("{at} is a {}, not a {}", kind(got), kind(wanted))),
    }
}

impl Recorded {
    #[track_caller]
    fn is_like(&self, got: &Got) {
        let recorded = &self.0;
        assert_eq!(recorded["status"], json!(got.status), "{got:?}");
        let mut problems = Vec::new();
        if !got.body.is_empty() {
            compare(&recorded["response"], &got.json(), "", &mut problems);
        }
        for (name, value) in recorded["headers"].as_object().unwrap() {
            match got.header(name) {
                None => problems.push(format!("header {name} is missing")),
                Some(own) if name == "content-type" || name == "cache-control" => assert_eq!(value, own),
                Some(_) => {}
            }
        }
        assert!(problems.is_empty(), "{} {}\n{}", recorded["method"], recorded["path"], problems.join("\n"));
    }
}

fn public_repo() -> FakeGithub {
    let fake = with_repo();
    fake.change_repo(REPO, |repo| repo.private = false);
    fake
}

#[test]
fn add_labels_to_issue() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue { title: "Issue without a label", body: None, ..Issue::default() });
    let recorded = recording("add-labels-to-issue");
    let mut issue = Ask::get(&format!("/repos/{REPO}/issues/{number}")).send(&fake);
    // Recorded when it was opened; asking for it gives the same fields.
    (issue.status, issue.headers) = (201, [issue.headers, vec![("location".into(), String::new())]].concat());
    recorded[0].is_like(&issue);
    let labels = json!({"labels": ["Foo", "bAr", "baZ"]});
    let got = Ask::post(&format!("/repos/{REPO}/issues/{number}/labels"), &labels).send(&fake);
    let names = |value: &Value| value.as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&got.json()), names(&recorded[1].0["response"]));
    assert_eq!(got.json()[0]["color"], recorded[1].0["response"][0]["color"]);
    let reply = Got { headers: [got.headers.clone(), vec![("etag".into(), String::new()), cache()]].concat(), ..got };
    recorded[1].is_like(&reply);
}

/// GitHub tags and caches answers to writes too; nobody can use that, so the fake does not.
fn cache() -> (String, String) {
    ("cache-control".into(), "private, max-age=60, s-maxage=60".into())
}

#[test]
fn paginate_issues() {
    let fake = public_repo();
    for n in 1..=13 {
        fake.add_issue(REPO, &Issue { title: &format!("Test issue {n}"), body: None, ..Issue::default() });
    }
    let id = fake.repo_id(REPO);
    let mut next = Some(format!("/repos/{REPO}/issues?per_page=3"));
    let mut pages = 0;
    for recorded in recording("paginate-issues") {
        let got = Ask::get(&next.expect("another page")).send(&fake);
        recorded.is_like(&got);
        let wanted = recorded.0["headers"]["link"].as_str().unwrap();
        let wanted = wanted
            .replace("https://api.github.com/repositories/1000", &format!("{}/repositories/{id}", fake.api_url()));
        assert_eq!(got.header("link"), Some(wanted.as_str()));
        next = got.link("next").map(|url| target(&fake, &url));
        pages += 1;
    }
    assert_eq!((pages, next), (5, None));
}

#[test]
fn search_issues() {
    let fake = public_repo();
    fake.add_issue(REPO, &Issue { title: "Sesame seeds", ..Issue::default() });
    let got =
        Ask::get(&format!("/search/issues?q=sesame%20is%3Aissue%20repo%3A{}", REPO.replace('/', "%2F"))).send(&fake);
    recording("search-issues")[0].is_like(&got);
    assert_eq!(got.header("etag"), None, "search is not cached");
    assert_eq!(got.header("x-ratelimit-limit"), Some("30"));
    assert_eq!(got.header("x-ratelimit-resource"), Some("search"));
}

#[test]
fn labels() {
    let fake = with_repo();
    fake.add_label(REPO, "bug", "d73a4a");
    let recorded = recording("labels");
    let list = Ask::get(&format!("/repos/{REPO}/labels")).send(&fake);
    recorded[0].is_like(&list);
    assert_eq!(list.json()[0]["default"], json!(true));
    let body = json!({"name": "test-label", "color": "663399"});
    let mut made = Ask::post(&format!("/repos/{REPO}/labels"), &body).send(&fake);
    made.headers.extend([("etag".into(), String::new()), cache()]);
    recorded[1].is_like(&made);
    let got = Ask::get(&format!("/repos/{REPO}/labels/test-label")).send(&fake);
    recorded[2].is_like(&got);
    assert_eq!(got.json(), made.json());
}

#[test]
fn git_refs() {
    let fake = with_repo();
    let sha = fake.branch(REPO, "main").unwrap();
    let body = json!({"ref": "refs/heads/test", "sha": sha});
    let mut made = Ask::post(&format!("/repos/{REPO}/git/refs"), &body).send(&fake);
    made.headers.extend([("etag".into(), String::new()), cache()]);
    recording("git-refs")[0].is_like(&made);
    let got = Ask::get(&format!("/repos/{REPO}/git/ref/heads/test")).send(&fake).is(200);
    assert_eq!(got.json(), made.json());
    assert_eq!(fake.branch(REPO, "test"), Some(sha));
}

#[test]
fn errors() {
    let fake = with_repo();
    let body = json!({"name": "foo", "color": "invalid"});
    let got = Ask::post(&format!("/repos/{REPO}/labels"), &body).send(&fake);
    let recorded = recording("errors").remove(0);
    recorded.is_like(&got);
    assert_eq!(got.json()["errors"], recorded.0["response"]["errors"]);
    assert_eq!(got.json()["message"], recorded.0["response"]["message"]);
}

#[test]
fn rename_repository() {
    let fake = public_repo();
    let id = fake.repo_id(REPO);
    fake.rename_repo(REPO, "acme/gadgets");
    let recorded = recording("rename-repository");
    let moved = Ask::get(&format!("/repos/{REPO}")).send(&fake);
    recorded[0].is_like(&moved);
    assert_eq!(moved.header("location"), Some(format!("{}/repositories/{id}", fake.api_url()).as_str()));
    assert_eq!(moved.json()["message"], recorded[0].0["response"]["message"]);
    let got = Ask::get(&target(&fake, moved.header("location").unwrap())).send(&fake);
    recorded[1].is_like(&got);
    assert_eq!(got.json()["full_name"], json!("acme/gadgets"));
    let number = fake.add_issue("acme/gadgets", &Issue::default());
    let write = Ask::post(&format!("/repos/{REPO}/issues/{number}/comments"), &json!({"body": "x"})).send(&fake);
    recorded[2].is_like(&write);
    let there = target(&fake, write.header("location").unwrap());
    Ask::post(&there, &json!({"body": "x"})).send(&fake).is(201);
    assert_eq!(fake.comments("acme/gadgets", number).len(), 1);
}

//! Tests of the fake GitLab itself: each of its strict rules once, and what it answers.

use coding_agent::sys::http::{HttpClient, HttpRequest, HttpResponse, HttpSettings};
use serde_json::{Value, json};

use crate::support::fake_gitlab::{FakeGitlab, Issue, issue};

const PROJECT: &str = "acme/tools/widgets.v2";
const ENCODED: &str = "/projects/acme%2Ftools%2Fwidgets.v2";

fn with_project() -> FakeGitlab {
    let fake = FakeGitlab::start();
    fake.add_project(PROJECT);
    fake
}

fn ask(fake: &FakeGitlab, method: &str, target: &str, token: &str, body: Option<&Value>) -> HttpResponse {
    let client = HttpClient::new(HttpSettings::default(), false).unwrap();
    let body = body.map(|body| body.to_string().into_bytes());
    let mut headers = vec![("private-token", token)];
    headers.extend(body.is_some().then_some(("content-type", "application/json")));
    let url = format!("{}{target}", fake.api_url());
    let request = HttpRequest { method, url: &url, headers: &headers, body: body.as_deref(), most_body_bytes: 1 << 20 };
    client.send(&request).unwrap()
}

fn json_of(response: &HttpResponse) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

#[test]
fn what_gitlab_would_not_understand_is_a_violation() {
    let wrong = [
        ("GET", "/repos/acme/widgets".to_owned(), None),
        ("GET", "/projects/acme%252Ftools".to_owned(), None),
        ("GET", "/projects/acme/tools/issues".to_owned(), None),
        ("GET", format!("{ENCODED}/issues?label=x"), None),
        ("GET", format!("{ENCODED}/issues?state=open"), None),
        ("GET", format!("{ENCODED}/issues?per_page=101"), None),
        ("GET", format!("{ENCODED}/issues?state=all&state=opened"), None),
        ("DELETE", format!("{ENCODED}/issues/1"), None),
        ("PUT", format!("{ENCODED}/issues/1"), Some(json!({"add_labels": ["a"]}))),
        ("PUT", format!("{ENCODED}/issues/1"), Some(json!({"add_label": "a"}))),
        ("PUT", format!("{ENCODED}/issues/1"), Some(json!({}))),
        ("POST", format!("{ENCODED}/issues/1/notes"), Some(json!({"text": "a"}))),
        ("POST", format!("{ENCODED}/issues/1/notes"), Some(json!({"body": "Done.\n/close"}))),
    ];
    let fake = with_project();
    fake.add_issue(PROJECT, &Issue::default());
    for (method, target, body) in &wrong {
        ask(&fake, method, target, fake.token(), body.as_ref());
        assert!(!fake.take_violations().is_empty(), "{method} {target} {body:?}");
    }
    let fine = [
        ("GET", format!("{ENCODED}/issues?labels=a,b&state=opened&scope=all&updated_after=2024-01-01T00:00:00Z"), None),
        ("POST", format!("{ENCODED}/issues/1/notes"), Some(json!({"body": "```\n/close\n```\n> /merge\n a/b"}))),
    ];
    for (method, target, body) in &fine {
        assert!(ask(&fake, method, target, fake.token(), body.as_ref()).status < 300);
        assert_eq!(fake.take_violations(), [""; 0]);
    }
}

#[test]
fn refusals_look_like_gitlabs() {
    let fake = with_project();
    let answer = ask(&fake, "GET", "/user", "wrong", None);
    assert_eq!((answer.status, json_of(&answer)), (401, json!({"message": "401 Unauthorized"})));
    let answer = ask(&fake, "GET", "/projects/acme%2Fnone", fake.token(), None);
    assert_eq!((answer.status, json_of(&answer)), (404, json!({"message": "404 Project Not Found"})));
    fake.add_token("reads", fake.bot(), true);
    let iid = fake.add_issue(PROJECT, &Issue::default());
    let note = json!({"body": "a".repeat(1_000_001)});
    let target = format!("{ENCODED}/issues/{iid}/notes");
    let answer = ask(&fake, "POST", &target, "reads", Some(&note));
    assert_eq!((answer.status, &json_of(&answer)["error"]), (403, &json!("insufficient_scope")));
    assert_eq!(ask(&fake, "POST", &target, fake.token(), Some(&note)).status, 400);
    assert_eq!(ask(&fake, "POST", &target, fake.token(), Some(&json!({"body": " "}))).status, 400);
}

#[test]
fn lists_are_ours_and_newest_first_unless_asked_otherwise() {
    let fake = with_project();
    let iid = fake.add_issue(PROJECT, &Issue { labels: &["a"], ..Issue::default() });
    for number in 0..25 {
        fake.note(issue(PROJECT, iid), "alice", &format!("note {number}"));
    }
    assert_eq!(json_of(&ask(&fake, "GET", "/issues?state=opened", fake.token(), None)), json!([]));
    let all = ask(&fake, "GET", "/issues?state=opened&scope=all", fake.token(), None);
    assert_eq!(json_of(&all)[0]["references"]["full"], format!("{PROJECT}#{iid}"));
    let notes = ask(&fake, "GET", &format!("{ENCODED}/issues/{iid}/notes"), fake.token(), None);
    assert_eq!(json_of(&notes)[0]["body"], "note 24");
    assert_eq!(json_of(&notes).as_array().unwrap().len(), 20, "the default page");
    assert_eq!((notes.header("x-next-page"), notes.header("x-total")), (Some("2"), Some("26")));
    fake.hide_totals();
    let last = format!("{ENCODED}/issues/{iid}/notes?page=2&sort=asc");
    let notes = ask(&fake, "GET", &last, fake.token(), None);
    assert_eq!((notes.header("x-next-page"), notes.header("x-total")), (Some(""), None));
    let events = ask(&fake, "GET", &format!("{ENCODED}/issues/{iid}/resource_label_events"), fake.token(), None);
    assert_eq!((&json_of(&events)[0]["action"], &json_of(&events)[0]["label"]["name"]), (&json!("add"), &json!("a")));
}

#[test]
fn one_open_merge_request_for_a_branch() {
    let fake = with_project();
    fake.commit(PROJECT, "work", &[("a", "a\n")]);
    let body = json!({"source_branch": "work", "target_branch": "main", "title": "Draft: a"});
    let target = format!("{ENCODED}/merge_requests");
    let made = ask(&fake, "POST", &target, fake.token(), Some(&body));
    assert_eq!((made.status, &json_of(&made)["draft"]), (201, &json!(true)));
    let again = ask(&fake, "POST", &target, fake.token(), Some(&body));
    assert_eq!(again.status, 409);
    assert!(json_of(&again)["message"][0].as_str().unwrap().contains("already exists"));
}

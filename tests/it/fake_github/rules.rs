//! What the fake does not let pass: headers, tokens, paths, queries, bodies.

use std::io::{BufReader, Write};
use std::net::TcpStream;

use serde_json::json;

use super::{Ask, REPO, only_violation, read, with_repo};
use crate::support::fake_github::{FakeGithub, Issue};

#[test]
fn a_careful_request_passes() {
    let fake = with_repo();
    let got = Ask::get("/user").send(&fake).is(200);
    assert_eq!(got.json()["login"], json!(fake.bot()));
    assert_eq!(got.header("x-ratelimit-remaining"), Some("4999"));
    fake.assert_no_violations();
}

#[test]
fn no_token_or_a_wrong_one_is_401() {
    let fake = with_repo();
    assert_eq!(Ask::get("/user").without("authorization").send(&fake).is(401).message(), "Requires authentication");
    let wrong = Ask::get("/user").with("authorization", "Bearer ghp_other").send(&fake).is(401);
    assert_eq!(wrong.message(), "Bad credentials");
    fake.assert_no_violations();
    Ask::get("/user").with("authorization", &format!("token {}", fake.token())).send(&fake).is(401);
    assert!(only_violation(&fake).contains("not Bearer"));
    fake.revoke_token(fake.token());
    Ask::get("/user").send(&fake).is(401);
}

#[test]
fn headers_are_looked_at() {
    let fake = with_repo();
    let got = Ask::get("/user").without("user-agent").send(&fake).is(403);
    assert!(String::from_utf8_lossy(&got.body).contains("User-Agent"));
    assert!(only_violation(&fake).contains("no User-Agent"));
    Ask::get("/user").with("accept", "application/json").send(&fake).is(200);
    assert!(only_violation(&fake).contains("Accept"));
    Ask::get("/user").with("accept", "text/html").send(&fake).is(415);
    assert!(only_violation(&fake).contains("Accept"));
    Ask::get("/user").without("x-github-api-version").send(&fake).is(200);
    assert!(only_violation(&fake).contains("Api-Version"));
    Ask::get("/user").with("x-github-api-version", "2020-01-01").send(&fake).is(400);
    assert!(only_violation(&fake).contains("2020-01-01"));
    Ask::get("/user").raw(b"{}").send(&fake).is(200);
    assert!(only_violation(&fake).contains("a body where none belongs"));
}

#[test]
fn unknown_calls_are_violations() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    for (method, path) in [
        ("GET", "/users".to_owned()),
        ("GET", "/emojis".to_owned()),
        ("PUT", format!("/repos/{REPO}/issues/{number}/labels")),
        ("PATCH", format!("/repos/{REPO}/issues/{number}")),
        ("GET", format!("/repos/{REPO}/issues/{number}/timeline")),
        ("DELETE", format!("/repos/{REPO}/issues/{number}/labels")),
    ] {
        Ask::new(method, &path).send(&fake).is(404);
        assert!(only_violation(&fake).contains("no such call"), "{method} {path}");
    }
    for path in [format!("/repos/{REPO}/issues/"), format!("/repos//{REPO}/issues")] {
        Ask::get(&path).send(&fake).is(404);
        assert!(only_violation(&fake).contains("empty"), "{path}");
    }
}

#[test]
fn queries_are_looked_at() {
    let fake = with_repo();
    for (query, word) in [
        ("label=x", "label is unknown"),
        ("state=open&state=all", "twice"),
        ("per_page=101", "per_page"),
        ("per_page=0", "per_page"),
        ("page=one", "page"),
    ] {
        Ask::get(&format!("/repos/{REPO}/issues?{query}")).send(&fake).is(200);
        assert!(only_violation(&fake).contains(word), "{query}");
    }
    for query in ["state=opened", "direction=up", "sort=priority"] {
        Ask::get(&format!("/repos/{REPO}/issues?{query}")).send(&fake).is(422);
        only_violation(&fake);
    }
}

#[test]
fn encoding_is_looked_at() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue { labels: &["help wanted", "a+b", "状態/着手"], ..Issue::default() });
    let label = |text: &str| format!("/repos/{REPO}/issues/{number}/labels/{text}");
    for (wrong, word) in [
        ("help%2520wanted", "encoded twice"),
        ("50%", "bad percent-encoding"),
        ("50%zz", "bad percent-encoding"),
        ("%FF", "not UTF-8"),
        ("状態", "must be encoded"),
        ("a\"b", "must be encoded"),
    ] {
        Ask::new("DELETE", &label(wrong)).send(&fake).is(404);
        assert!(only_violation(&fake).contains(word), "{wrong}");
    }
    Ask::get(&format!("/repos/{REPO}/issues?labels=help%2520wanted")).send(&fake).is(404);
    only_violation(&fake);
    // A plus is a space in a query and a plus in a path.
    Ask::new("DELETE", &label("help+wanted")).send(&fake).is(404);
    let found = |query: &str| Ask::get(&format!("/repos/{REPO}/issues?labels={query}")).send(&fake).json();
    assert_eq!(found("help+wanted").as_array().unwrap().len(), 1);
    assert_eq!(found("a+b").as_array().unwrap().len(), 0);
    assert_eq!(found("a%2Bb").as_array().unwrap().len(), 1);
    Ask::new("DELETE", &label("a+b")).send(&fake).is(200);
    Ask::new("DELETE", &label("%E7%8A%B6%E6%85%8B%2F%E7%9D%80%E6%89%8B")).send(&fake).is(200);
    Ask::new("DELETE", &label("HELP%20wanted")).send(&fake).is(200);
    assert_eq!(fake.labels(REPO, number), [""; 0]);
    // A name that only looks encoded.
    fake.label(REPO, number, "100%25", "alice");
    Ask::new("DELETE", &label("100%2525")).send(&fake).is(200);
    fake.assert_no_violations();
}

#[test]
fn bodies_are_looked_at() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    let before = fake.raw_snapshot();
    let send = |body: &[u8]| {
        let got = Ask::new("POST", &path).with("content-type", "application/json").raw(body).send(&fake);
        (got.status, got.message(), only_violation(&fake))
    };
    let (status, message, _) = send(b"{\"body\": ");
    assert_eq!((status, message.as_str()), (400, "Problems parsing JSON"));
    assert_eq!(send(b"[]").0, 400);
    let (status, message, _) = send(b"{}");
    assert_eq!(status, 422);
    assert!(message.contains("\"body\" wasn't supplied"), "{message}");
    assert_eq!(send(b"{\"body\": 1}").0, 422);
    assert_eq!(fake.raw_snapshot(), before);
    let (status, _, why) = send(b"{\"body\": \"x\", \"marker\": 1}");
    assert_eq!(status, 201);
    assert!(why.contains("unknown field marker"), "{why}");
    Ask::new("POST", &path).raw(b"{\"body\": \"x\"}").send(&fake).is(201);
    assert!(only_violation(&fake).contains("Content-Type"));
}

#[test]
fn connections_are_kept_and_chunks_are_read() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    let url = fake.api_url();
    let host = url.split("://").nth(1).unwrap();
    let mut writer = TcpStream::connect(host).unwrap();
    let mut reader = BufReader::new(writer.try_clone().unwrap());
    for _ in 0..2 {
        writer.write_all(&Ask::get("/user").bytes(host)).unwrap();
        assert_eq!(read(&mut reader).unwrap().status, 200);
    }
    let mut ask = Ask::new("POST", &format!("/repos/{REPO}/issues/{number}/comments"));
    ask = ask.with("content-type", "application/json").with("transfer-encoding", "chunked");
    ask.body = b"8\r\n{\"body\":\r\n6\r\n \"hi\"}\r\n0\r\n\r\n".to_vec();
    writer.write_all(&ask.bytes(host)).unwrap();
    assert_eq!(read(&mut reader).unwrap().status, 201);
    assert_eq!(fake.comments(REPO, number)[0].1, "hi");
    writer.write_all(b"GET /user HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(read(&mut reader).unwrap().status, 400);
    assert!(only_violation(&fake).contains("not HTTP"));
}

#[test]
fn a_violation_fails_the_test_that_drops_the_fake() {
    let outcome = std::panic::catch_unwind(|| {
        let fake = FakeGithub::start();
        Ask::get("/nowhere").send(&fake).is(404);
    });
    let text = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("GET /nowhere: no such call"), "{text}");
}

#[test]
fn an_enterprise_server_has_its_api_below_a_path() {
    let fake = FakeGithub::enterprise();
    fake.add_repo(REPO);
    assert!(fake.api_url().ends_with("/api/v3"));
    for n in 0..31 {
        fake.add_issue(REPO, &Issue { title: &n.to_string(), ..Issue::default() });
    }
    let first = Ask::get(&format!("/api/v3/repos/{REPO}/issues")).send(&fake).is(200);
    let next = first.link("next").unwrap();
    assert!(next.starts_with(&format!("{}/repositories/", fake.api_url())), "{next}");
    assert_eq!(Ask::get(&super::target(&fake, &next)).send(&fake).json().as_array().unwrap().len(), 1);
    Ask::get(&format!("/repos/{REPO}")).send(&fake).is(404);
    assert!(only_violation(&fake).contains("outside"));
}

//! Failures on order, rate limits, entity tags, the log and the clock.

use serde_json::json;

use super::{Ask, REPO, with_repo};
use crate::support::fake_github::{Fault, Issue, Reply};

#[test]
fn failures_before_the_effect_leave_no_trace() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    let ask = Ask::post(&format!("/repos/{REPO}/issues/{number}/comments"), &json!({"body": "x"}));
    let before = fake.raw_snapshot();
    for status in [403, 404, 422, 500, 502, 503] {
        fake.fail_next("POST */comments", Fault::Status(status));
        Ask::get("/user").send(&fake).is(200);
        ask.send(&fake).is(status);
    }
    fake.fail_next("POST *", Fault::Reset);
    assert!(ask.try_send(&fake.api_url()).is_none());
    let elsewhere = Reply::new(302, "text/plain", "").with("location", "http://127.0.0.1:9/");
    fake.fail_next("*", Fault::Answer(elsewhere));
    assert_eq!(ask.send(&fake).is(302).header("location"), Some("http://127.0.0.1:9/"));
    assert_eq!(fake.raw_snapshot(), before);
    assert_eq!(fake.faults_left(), 0);
    ask.send(&fake).is(201);
}

#[test]
fn failures_after_the_effect_leave_it() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    let ask = Ask::post(&format!("/repos/{REPO}/issues/{number}/comments"), &json!({"body": "x"}));
    fake.fail_next("POST *", Fault::AfterEffect502);
    let got = ask.send(&fake).is(502);
    assert!(got.header("content-type").unwrap().starts_with("text/html"));
    fake.fail_next("POST *", Fault::AfterEffectReset);
    assert!(ask.try_send(&fake.api_url()).is_none());
    fake.fail_next("POST *", Fault::Truncated);
    assert!(ask.try_send(&fake.api_url()).is_none());
    assert_eq!(fake.comments(REPO, number).len(), 3);
    let statuses: Vec<_> = fake.log().iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Some(502), None, Some(201)]);
}

#[test]
fn the_nth_request_fails_and_all_are_counted() {
    let fake = with_repo();
    fake.fail_nth(3, Fault::Status(500));
    let statuses = [(); 4].map(|()| Ask::get("/user").send(&fake).status);
    assert_eq!(statuses, [200, 200, 500, 200]);
    assert_eq!(fake.count("GET /user"), 4);
    assert_eq!(fake.count("POST *"), 0);
    assert_eq!(fake.calls(), ["GET /user"; 4]);
    fake.fail_always("GET /user", Fault::Status(503));
    Ask::get("/user").send(&fake).is(503);
    Ask::get("/user").send(&fake).is(503);
    fake.heal();
    Ask::get("/user").send(&fake).is(200);
    fake.clear_log();
    assert!(fake.log().is_empty());
}

#[test]
fn limits_say_when_to_come_back() {
    let fake = with_repo();
    fake.fail_next("*", Fault::Primary { status: 403, reset: 1_800_000_000 });
    let got = Ask::get("/user").send(&fake).is(403);
    assert_eq!(got.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(got.header("x-ratelimit-reset"), Some("1800000000"));
    assert!(got.message().starts_with("API rate limit exceeded"));
    fake.fail_next("*", Fault::Secondary { status: 429, retry_after: Some(7) });
    let got = Ask::get("/user").send(&fake).is(429);
    assert_eq!(got.header("retry-after"), Some("7"));
    assert_ne!(got.header("x-ratelimit-remaining"), Some("0"));
    fake.fail_next("*", Fault::Secondary { status: 403, retry_after: None });
    let got = Ask::get("/user").send(&fake).is(403);
    assert_eq!(got.header("retry-after"), None);
    assert!(got.message().contains("secondary rate limit"));
}

#[test]
fn a_budget_runs_out_and_304_costs_nothing() {
    let fake = with_repo();
    fake.set_budget(Some(2), 429, 1_800_000_000);
    let tag = Ask::get("/user").send(&fake).is(200).header("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    for _ in 0..3 {
        let got = Ask::get("/user").with("if-none-match", &tag).send(&fake).is(304);
        assert_eq!((got.body.len(), got.header("x-ratelimit-remaining")), (0, Some("1")));
    }
    Ask::get("/user").send(&fake).is(200);
    let got = Ask::get("/user").send(&fake).is(429);
    assert_eq!(got.header("x-ratelimit-remaining"), Some("0"));
    fake.set_budget(None, 403, 0);
    Ask::get("/user").send(&fake).is(200);
}

#[test]
fn a_tag_changes_with_the_list() {
    let fake = with_repo();
    let path = format!("/repos/{REPO}/issues");
    let tag = Ask::get(&path).send(&fake).header("etag").unwrap().to_owned();
    let strong = tag.trim_start_matches("W/").to_owned();
    for had in [&tag, &strong, &format!("\"other\", {tag}")] {
        Ask::get(&path).with("if-none-match", had).send(&fake).is(304);
    }
    fake.add_issue(REPO, &Issue::default());
    let got = Ask::get(&path).with("if-none-match", &tag).send(&fake).is(200);
    assert_ne!(got.header("etag"), Some(tag.as_str()));
}

#[test]
fn time_passes_with_writes_only() {
    let fake = with_repo();
    let number = fake.add_issue(REPO, &Issue::default());
    let updated = || fake.item(REPO, number)["updated_at"].as_str().unwrap().to_owned();
    let before = updated();
    Ask::get("/user").send(&fake).is(200);
    assert_eq!(updated(), before);
    fake.comment(REPO, number, "alice", "x");
    assert!(updated() > before);
    fake.set_time(1_900_000_000);
    fake.comment(REPO, number, "alice", "y");
    assert_eq!(updated(), "2030-03-17T17:46:41Z");
}

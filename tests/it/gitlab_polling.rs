//! What polling GitLab costs, and that no item is lost over times of change (case C35).

use serde_json::Value;

use crate::support::Cassette;
use crate::support::fake_gitlab::{Fault, Issue, issue};
use crate::support::github_job::{fixing, seconds_from_now};
use crate::support::gitlab_job::{Job, LABEL, PROJECT};

fn idle() -> Job {
    let job = Job::with(&fixing());
    job.fake.label(job.issue(), LABEL, false, "alice");
    job
}

/// `METHOD path` without the address of the API, whether it was conditional, and the status.
fn asked(job: &Job) -> Vec<(String, bool, u16)> {
    let log = job.fake.log().into_iter().map(|logged| {
        let line = format!("{} {}", logged.request.method, logged.request.path.trim_start_matches("/api/v4"));
        (line, logged.request.header("if-none-match").is_some(), logged.status.unwrap_or(0))
    });
    log.collect()
}

#[test]
fn an_idle_poll_is_one_request_per_list() {
    for (repositories, lists) in [
        (format!("[{PROJECT}]"), vec!["/projects/*/issues", "/projects/*/merge_requests"]),
        ("[acme]".to_owned(), vec!["/projects", "/groups/acme/issues", "/groups/acme/merge_requests"]),
        ("[]".to_owned(), vec!["/projects", "/issues", "/merge_requests"]),
    ] {
        for has_tags in [true, false] {
            let job = idle();
            if !has_tags {
                job.fake.drop_tags();
            }
            job.reconfigure(&format!("[{PROJECT}]"), &repositories);
            job.world.run(&["--mode", "producer"]).expect(0);
            job.fake.clear_log();
            assert_eq!(job.world.run(&["--mode", "producer"]).expect(0).stderr, "");
            let found = asked(&job);
            assert_eq!(found.len(), lists.len(), "{repositories}: {found:?}");
            for ((line, is_conditional, status), list) in found.iter().zip(lists.clone()) {
                let path = format!("GET {list}");
                let (start, end) = path.split_once('*').unwrap_or((&path, ""));
                assert!(line.starts_with(start) && line.ends_with(end), "{line}, not {list}");
                assert_eq!((*is_conditional, *status), if has_tags { (true, 304) } else { (false, 200) }, "{line}");
            }
        }
    }
}

#[test]
fn c35_no_item_is_lost_over_equal_late_or_absurd_times() {
    for has_tags in [true, false] {
        // The clock here is years ahead of the server's, which stands in 2024.
        let job = Job::with(&Cassette::new().runs("true").finishes("Nothing to do."));
        if !has_tags {
            job.fake.drop_tags();
        }
        let a = job.issue();
        let second = |at: &str| chrono::DateTime::parse_from_rfc3339(at).unwrap().timestamp();
        job.fake.change_item(a, |item| item.updated = second("2024-12-07T09:58:00Z"));
        let mut expected = vec![a];
        job.world.run(&[]).expect(0);
        // B has A's second and appears late, C has a time that nobody reaches, D comes after it.
        for at in ["2024-12-07T09:58:00Z", "2099-01-01T00:00:00Z", "2024-12-07T09:58:00Z", "2024-12-07T09:00:00Z"] {
            let iid = job.fake.add_issue(PROJECT, &Issue { labels: &[LABEL], ..Issue::default() });
            job.fake.change_item(issue(PROJECT, iid), |item| item.updated = second(at));
            expected.push(issue(PROJECT, iid));
            job.world.run(&[]).expect(0);
        }
        job.world.run(&[]).expect(0);
        for place in expected {
            assert_eq!(job.fake.labels(place), ["coding agent done"], "{}", place.iid);
            assert_eq!(job.final_notes(place).len(), 1, "{}: one task each", place.iid);
        }
        job.world.assert_settled();
    }
}

#[test]
fn c35_a_label_that_does_not_change_the_time_is_seen() {
    let job = idle();
    let before = job.fake.item(job.issue())["updated_at"].clone();
    job.world.run(&["--mode", "producer"]).expect(0);
    let place = job.issue();
    job.fake.change_item(place, |item| item.labels.push(LABEL.into()));
    assert_eq!(job.fake.item(place)["updated_at"], before);
    job.world.run(&[]).expect(0);
    job.assert_done("label alone");
}

#[test]
fn before_a_known_reset_nothing_is_sent() {
    let job = Job::with(&fixing());
    job.world.run(&["--mode", "producer"]).expect(0);
    job.fake.fail_next("GET */issues", Fault::Primary { status: 429, reset: seconds_from_now(1800) });
    job.world.run(&["--mode", "producer"]).expect(75);
    job.fake.clear_log();
    for mode in [&["--mode", "producer"][..], &["--mode", "consumer"], &[]] {
        assert_eq!(job.world.run(mode).expect(75).stderr, "");
    }
    assert_eq!(asked(&job), []);
    let report: Value = serde_json::from_str(&job.world.run(&["status", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(report["waits"][0]["server"], job.fake.api_url());
    assert_eq!(report["waits"][0]["model"], Value::Null);
    job.run_until_settled();
    job.assert_done("after the limit");
}

#[test]
fn the_last_requests_of_a_period_are_left_for_work_begun() {
    let job = idle();
    job.fake.set_budget(Some(30), seconds_from_now(1800));
    job.world.run(&["--mode", "producer"]).expect(75);
    job.fake.clear_log();
    job.world.run(&["--mode", "producer"]).expect(75);
    assert_eq!(asked(&job), []);
}

#[test]
fn a_project_that_is_gone_is_looked_up_again() {
    let job = idle();
    job.world.run(&["--mode", "producer"]).expect(0);
    job.fake.delete_project(PROJECT);
    let ended = job.world.run(&["--mode", "producer"]).expect(78);
    assert!(ended.stderr.contains("cannot list the"), "{ended:?}");
    job.fake.add_project(PROJECT);
    let iid = job.fake.add_issue(PROJECT, &Issue { labels: &[LABEL], ..Issue::default() });
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(job.fake.labels(issue(PROJECT, iid)), ["coding agent processing"]);
}

#[test]
fn a_revoked_token_is_noticed_and_forgotten() {
    let job = idle();
    job.world.run(&["--mode", "producer"]).expect(0);
    job.fake.revoke_token(job.fake.token());
    job.world.run(&["--mode", "producer"]).expect(78);
    job.fake.add_token(job.fake.token(), job.fake.bot(), false);
    job.fake.clear_log();
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(asked(&job)[0], ("GET /user".into(), false, 200));
}

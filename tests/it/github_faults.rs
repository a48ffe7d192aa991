//! The fault matrix: every request of the main job in turn goes wrong in every way. The end state is
//! right, or parked and right after the next pass; nothing is doubled.

use crate::support::fake_forge::faults::git_faults;
use crate::support::fake_github::Fault;
use crate::support::github_job::{Job, REPO, seconds_from_now};

/// How many requests the whole job makes.
fn requests() -> u64 {
    let job = Job::new();
    job.world.run(&[]).expect(0);
    u64::try_from(job.fake.calls().len()).unwrap()
}

/// Lets request after request fail, each in an installation of its own.
fn each(name: &str, fault: impl Fn() -> Fault, check: impl Fn(&Job, &str)) {
    let requests = requests();
    assert!(requests > 12, "{requests}");
    for nth in 1..=requests {
        let job = Job::new();
        job.fake.fail_nth(nth, fault());
        let first = job.world.run(&[]);
        let line = job.fake.calls().get(usize::try_from(nth).unwrap() - 1).cloned().unwrap_or_default();
        assert_eq!(job.fake.faults_left(), 0, "{name} at request {nth} was met");
        assert!(!first.stderr.contains("panicked"), "{name} at {line}: {}", first.stderr);
        assert!(matches!(first.code, Some(0 | 1 | 75 | 78)), "{name} at {line}: {first:?}");
        let later = job.run_until_settled();
        check(
            &job,
            &format!("{name} at request {nth} ({line}), exit {:?}, then {later:?}: {}", first.code, first.stderr),
        );
    }
}

/// Passing trouble: in the end everything is as if nothing had happened.
fn passes(name: &str, fault: impl Fn() -> Fault) {
    each(name, fault, |job, what| job.assert_done(what));
}

/// Refusals: the end is right or an honest failure; nothing twice, nothing left over.
fn refuses(name: &str, status: u16) {
    each(
        name,
        || Fault::Status(status),
        |job, what| {
            job.world.assert_settled();
            assert!(job.final_comments().len() <= 1, "{what}");
            assert!(job.fake.pulls(REPO).len() <= 1, "{what}");
            let branches = job.fake.git(REPO, &["branch", "--list", "coding-agent/*"]);
            assert!(branches.lines().count() <= 1, "{what}: {branches}");
            let contexts = job.world.names("contexts/completed").len();
            assert!(contexts <= 1, "{what}: {contexts} tasks");
            // Nobody is left believing that work goes on, unless just that was refused and is on record.
            if job.labels().iter().any(|label| label == "coding agent processing") {
                assert!(job.world.outcome()["refusals"].to_string().contains("label"), "{what}: {:?}", job.labels());
            }
        },
    );
}

#[test]
fn every_request_answered_by_500() {
    passes("500", || Fault::Status(500));
}

#[test]
fn every_request_answered_by_502_after_it_took_effect() {
    passes("502 after effect", || Fault::AfterEffect502);
}

#[test]
fn every_connection_reset_before_an_answer() {
    passes("reset", || Fault::Reset);
}

#[test]
fn every_connection_reset_after_it_took_effect() {
    passes("reset after effect", || Fault::AfterEffectReset);
}

#[test]
fn every_answer_cut_short() {
    passes("cut", || Fault::Truncated);
}

#[test]
fn every_request_answered_by_429() {
    passes("429", || Fault::Secondary { status: 429, retry_after: Some(3600) });
}

#[test]
fn every_request_meets_the_end_of_the_hourly_limit() {
    passes("primary limit", || Fault::Primary { status: 403, reset: seconds_from_now(3600) });
}

#[test]
fn every_request_answered_by_403() {
    refuses("403", 403);
}

#[test]
fn every_request_answered_by_404() {
    refuses("404", 404);
}

#[test]
fn every_kind_of_git_request_goes_wrong_once() {
    for (pattern, fault) in git_faults() {
        let job = Job::new();
        let what = format!("{fault:?} at {pattern}");
        job.fake.fail_next(pattern, fault);
        let first = job.world.run(&[]);
        assert_eq!(job.fake.faults_left(), 0, "{what} was met");
        assert!(matches!(first.code, Some(0 | 75)), "{what}: {first:?}");
        job.run_until_settled();
        job.assert_done(&what);
    }
}

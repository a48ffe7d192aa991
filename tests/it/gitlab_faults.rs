//! The fault matrix: every request of the main job in turn goes wrong in every way. The end state is
//! right, or parked and right after the next pass; nothing is doubled.

use crate::support::fake_forge::faults::git_faults;
use crate::support::fake_gitlab::Fault;
use crate::support::github_job::{fixing, seconds_from_now};
use crate::support::gitlab_job::{Job, PROJECT};

/// Lets request after request fail, each in an installation of its own.
fn each(name: &str, fault: impl Fn() -> Fault, check: impl Fn(&Job, &str)) {
    let job = Job::with(&fixing());
    job.world.run(&[]).expect(0);
    let requests = job.fake.calls().len();
    assert!(requests > 12, "{requests}");
    for nth in 1..=requests {
        let job = Job::with(&fixing());
        job.fake.fail_nth(nth as u64, fault());
        let first = job.world.run(&[]);
        let line = job.fake.calls().get(nth - 1).cloned().unwrap_or_default();
        assert_eq!(job.fake.faults_left(), 0, "{name} at request {nth} was met");
        assert!(!first.stderr.contains("panicked"), "{name} at {line}: {}", first.stderr);
        assert!(matches!(first.code, Some(0 | 1 | 75 | 78)), "{name} at {line}: {first:?}");
        let later = job.run_until_settled();
        let code = first.code;
        check(&job, &format!("{name} at request {nth} ({line}), exit {code:?}, then {later:?}: {}", first.stderr));
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
            assert!(job.final_notes(job.issue()).len() <= 1, "{what}");
            assert!(job.fake.requests(PROJECT).len() <= 1, "{what}");
            let branches = job.fake.git(PROJECT, &["branch", "--list", "coding-agent/*"]);
            assert!(branches.lines().count() <= 1, "{what}: {branches}");
            assert!(job.world.names("contexts/completed").len() <= 1, "{what}");
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
fn every_request_meets_the_end_of_the_limit() {
    passes("limit", || Fault::Primary { status: 429, reset: seconds_from_now(3600) });
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
        let job = Job::with(&fixing());
        let what = format!("{fault:?} at {pattern}");
        job.fake.fail_next(pattern, fault);
        let first = job.world.run(&[]);
        assert_eq!(job.fake.faults_left(), 0, "{what} was met");
        assert!(matches!(first.code, Some(0 | 75)), "{what}: {first:?}");
        job.run_until_settled();
        job.assert_done(&what);
    }
}

#[test]
fn nothing_is_doubled_by_kills_at_random_instants() {
    for seed in 1..=3 {
        let job = Job::with(&fixing());
        job.world.kill_until(seed, || job.labels() == ["coding agent done"]);
        job.world.clear_temporaries();
        // A killed file tool may have been interrupted; everything else must be as if nothing had happened.
        if !job.world.history().results()[0].starts_with("Interrupted") {
            job.assert_done(&format!("seed {seed}"));
        }
        assert_eq!(job.final_notes(job.issue()).len(), 1, "seed {seed}");
        assert!(job.fake.requests(PROJECT).len() <= 1, "seed {seed}");
    }
}

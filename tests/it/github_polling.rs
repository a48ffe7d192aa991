//! What polling GitHub costs: conditional requests, kept lists, and limits that outlive a start.

use coding_agent::budget::Budget;
use coding_agent::ports::Forge;
use serde_json::Value;

use crate::support::fake_forge::wire::Reply;
use crate::support::fake_github::fixture::adapter_of;
use crate::support::fake_github::{FakeGithub, Fault, Issue};
use crate::support::github_job::{Job, REPO, fixing, seconds_from_now};
use crate::support::{Cassette, eventually};

/// A job without an issue that asks for work.
fn idle() -> Job {
    let job = Job::with(&fixing());
    job.fake.unlabel(REPO, job.issue, "coding agent", "alice");
    job
}

/// `METHOD path`, whether it was conditional, and the status of each request to the API.
fn asked(job: &Job) -> Vec<(String, bool, u16)> {
    let one = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
    let log = job.fake.log().into_iter().map(|logged| {
        let line = format!("{} {}", logged.request.method, one(&logged.request.target));
        (line, logged.request.header("if-none-match").is_some(), logged.status.unwrap_or(0))
    });
    log.collect()
}

fn conditional(path: &str) -> (String, bool, u16) {
    (format!("GET {path}"), true, 304)
}

fn budget(job: &Job) -> Value {
    serde_json::from_str(&job.world.read("spool/budget.json")).unwrap()
}

/// The items of the one list that is kept.
fn kept_items(job: &Job) -> Value {
    let file = budget(job);
    let account = file["accounts"].as_object().unwrap().values().next().unwrap().clone();
    let lists = account["lists"].as_object().unwrap();
    assert_eq!(lists.len(), 1, "{file}");
    lists.values().next().unwrap()["items"].clone()
}

#[test]
fn an_idle_poll_is_one_conditional_request_per_list() {
    let job = idle();
    job.fake.add_repo("acme/second");
    let issues = ["/repos/acme/widgets/issues", "/repos/acme/second/issues"];
    for (list, lists) in [
        (format!("[{REPO}]"), vec![issues[0]]),
        (format!("[{REPO}, acme/second]"), issues.to_vec()),
        ("[]".to_owned(), vec!["/user/repos", issues[0], issues[1]]),
    ] {
        let config = job.world.read("config.yaml");
        let (before, _) = config.split_once("repositories: ").unwrap();
        let (_, after) = config.split_once("]}").unwrap();
        job.world.write("config.yaml", &format!("{before}repositories: {list}}}{after}"));
        job.world.run(&["--mode", "producer"]).expect(0);
        for mode in [&["--mode", "producer"][..], &[]] {
            job.fake.clear_log();
            let ended = job.world.run(mode).expect(0);
            assert_eq!(ended.stderr, "");
            let wanted: Vec<_> = lists.iter().map(|list| conditional(list)).collect();
            let mut found = asked(&job);
            found.sort();
            let mut wanted = wanted;
            wanted.sort();
            assert_eq!(found, wanted, "{list}");
        }
    }
}

#[test]
fn lists_of_several_pages_come_from_memory_only_when_every_page_is_the_same() {
    let fake = FakeGithub::start();
    fake.add_org("acme");
    fake.add_repo(REPO);
    let labelled = Issue { labels: &["coding agent"], ..Issue::default() };
    let numbers: Vec<u64> = (0..230).map(|_| fake.add_issue(REPO, &labelled)).collect();
    let dir = tempfile::tempdir().unwrap();
    // What a start finds, how many requests that takes, and how many of them are answered by 304.
    let look = || {
        let budget = Budget::open(dir.path());
        let secret = coding_agent::config::Secret::new(fake.token());
        let forge = adapter_of(&fake, &[REPO.to_owned()], budget.account(&fake.api_url(), None, Some(&secret)));
        fake.clear_log();
        let found = forge.candidates().unwrap().keys;
        budget.save_with_lists();
        let log = fake.log();
        (found.len(), log.len(), log.iter().filter(|logged| logged.status == Some(304)).count())
    };
    assert_eq!(look(), (230, 3, 0));
    assert_eq!(look(), (230, 3, 3));
    // The first page changes: the rest is read with it.
    fake.unlabel(REPO, numbers[0], "coding agent", "alice");
    assert_eq!(look(), (229, 3, 0));
    assert_eq!(look(), (229, 3, 3));
    // Only the last page changes: all of it is read again.
    fake.add_issue(REPO, &labelled);
    let (found, requests, same) = look();
    assert_eq!((found, same), (230, 2));
    assert_eq!(requests, 2 + 1 + 3);
    assert_eq!(look(), (230, 3, 3));
    // A full last page could hide the one that comes after it.
    for _ in 0..70 {
        fake.add_issue(REPO, &labelled);
    }
    assert_eq!(look().0, 300);
    let (found, requests, same) = look();
    assert_eq!((found, same), (300, 0), "not kept");
    assert_eq!(requests, 3);
    fake.add_issue(REPO, &labelled);
    assert_eq!(look().0, 301);
}

#[test]
fn before_a_known_reset_nothing_is_sent() {
    let job = Job::new();
    job.world.run(&["--mode", "producer"]).expect(0);
    let second = job.fake.add_issue(REPO, &Issue { labels: &["coding agent"], ..Issue::default() });
    job.fake.fail_next("GET */issues", Fault::Primary { status: 403, reset: seconds_from_now(1800) });
    let ended = job.world.run(&["--mode", "producer"]).expect(75);
    assert!(ended.stderr.contains("rate limit is used up until"), "{ended:?}");
    job.fake.clear_log();
    for mode in [&["--mode", "producer"][..], &["--mode", "consumer"], &[]] {
        let ended = job.world.run(mode).expect(75);
        assert_eq!(ended.stderr, "", "it was told when it was met");
    }
    assert_eq!(asked(&job), []);
    let log = job.world.read("logs/agent.log");
    assert!(log.contains("nothing new is looked for: no request to"), "{log}");
    assert!(log.contains("what waits stays queued: no request to"), "{log}");
    let queued = job.world.names("spool/queue");
    assert!(queued.len() == 1 && queued[0].ends_with(".a0.json"), "nothing was claimed: {queued:?}");
    let text = job.world.run(&["status"]).expect(0).stdout;
    let line = format!("Limit: no request to `{}` before ", job.fake.api_url());
    assert!(text.lines().any(|found| found.starts_with(&line)), "{text}");
    // Another token has a limit of its own.
    let mut job = job;
    job.fake.add_token("ghp_another_token", job.fake.bot(), false);
    job.world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_another_token");
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(job.fake.labels(REPO, second), ["coding agent processing"]);
    // And this one ends.
    job.world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", job.fake.token());
    job.world.pass_time();
    job.world.run(&["--mode", "consumer"]).expect(0);
    job.world.assert_settled();
}

#[test]
fn an_answer_that_shows_an_empty_limit_is_a_known_reset_too() {
    let job = idle();
    let reset = seconds_from_now(1800);
    let empty = Reply::json(200, &serde_json::json!([]));
    job.fake.fail_next("GET */issues", Fault::Answer(empty));
    // Nothing is left after the list.
    job.fake.set_budget(Some(1), 403, reset);
    let ended = job.world.run(&["--mode", "producer"]);
    assert!(matches!(ended.code, Some(0 | 75)), "{ended:?}");
    job.fake.clear_log();
    job.world.run(&["--mode", "producer"]).expect(75);
    assert_eq!(asked(&job), []);
}

#[test]
fn the_last_requests_are_left_for_work_begun() {
    let job = Job::new();
    job.world.run(&["--mode", "producer"]).expect(0);
    let second = job.fake.add_issue(REPO, &Issue { labels: &["coding agent"], ..Issue::default() });
    job.fake.set_budget(Some(45), 403, seconds_from_now(1800));
    job.world.run(&["--mode", "consumer"]).expect(0);
    job.fake.clear_log();
    job.world.run(&[]).expect(75);
    assert_eq!(asked(&job), []);
    assert_eq!(job.labels(), ["coding agent done"]);
    assert_eq!(job.fake.labels(REPO, second), ["coding agent"], "not looked for");
    let why = "few requests are left, and work begun needs them";
    assert!(job.world.read("logs/agent.log").contains(why));
    let status = job.world.run(&["status"]).expect(0).stdout;
    let line = format!("Limit: nothing new is looked for at `{}` before ", job.fake.api_url());
    assert!(status.lines().any(|found| found.starts_with(&line) && found.ends_with(why)), "{status}");
}

#[test]
fn whoever_dies_before_the_lists_are_kept_lists_again() {
    for point in ["produce.published", "spool.publish.linked"] {
        let job = idle();
        job.world.run(&["--mode", "producer"]).expect(0);
        job.fake.label(REPO, job.issue, "coding agent", "alice");
        let before = kept_items(&job);
        assert_eq!(before, serde_json::json!([]));
        job.world.run_to_crash(&["--mode", "producer"], point);
        assert_eq!(kept_items(&job), before, "{point}: the list that was read is not yet kept");
        job.world.run(&[]).expect(0);
        job.assert_done(point);
    }
}

#[test]
fn a_pass_that_failed_to_publish_does_not_keep_its_list() {
    let job = Job::new();
    job.fake.fail_always("GET */issues/1", Fault::Status(500));
    job.world.run(&["--mode", "producer"]).expect(75);
    job.fake.heal();
    job.fake.clear_log();
    job.world.run(&[]).expect(0);
    let list = asked(&job).into_iter().find(|(line, ..)| line == "GET /repos/acme/widgets/issues").unwrap();
    assert_eq!(list, ("GET /repos/acme/widgets/issues".into(), false, 200), "in full");
    job.assert_done("healed");
}

#[test]
fn an_item_that_could_not_be_taken_is_seen_again_on_an_unchanged_list() {
    let job = Job::new();
    // Refused for good, for now: the item keeps its label, and the list does not change.
    job.fake.fail_next("GET */issues/1", Fault::Status(403));
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(job.world.entries(), Vec::<String>::new());
    job.fake.clear_log();
    job.world.run(&[]).expect(0);
    assert_eq!(asked(&job)[0], conditional("/repos/acme/widgets/issues"));
    job.assert_done("from the kept list");
}

#[test]
fn a_label_that_is_set_again_is_seen() {
    let job = Job::new();
    job.world.run(&[]).expect(0);
    job.assert_done("first");
    job.world.replies(&Cassette::new().runs("true").finishes("Nothing to do."));
    for round in 0..3 {
        job.world.run(&["--mode", "producer"]).expect(0);
        job.fake.label(REPO, job.issue, "coding agent", "alice");
        job.world.run(&[]).expect(0);
        assert_eq!(job.labels(), ["coding agent done"], "{round}");
        assert_eq!(job.final_comments().len(), 2 + round);
    }
}

#[test]
fn a_revoked_token_is_noticed_and_forgotten() {
    let job = idle();
    job.world.run(&["--mode", "producer"]).expect(0);
    job.fake.revoke_token(job.fake.token());
    let ended = job.world.run(&["--mode", "producer"]).expect(78);
    assert!(ended.stderr.contains("GitHub refuses the token"), "{ended:?}");
    // Whose it is now is asked again.
    job.fake.add_token(job.fake.token(), job.fake.bot(), false);
    job.fake.clear_log();
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(asked(&job)[0], ("GET /user".into(), false, 200));
}

#[test]
fn a_budget_that_cannot_be_used_costs_requests_and_nothing_else() {
    let job = Job::new();
    std::fs::create_dir_all(job.world.path("spool/budget.json")).unwrap();
    let ended = job.world.run(&[]).expect(0);
    assert!(ended.stderr.contains("budget.json"), "{ended:?}");
    job.assert_done("no budget");
}

#[test]
fn producers_and_consumers_share_the_budget() {
    let job = Job::with(&Cassette::new().runs("true").finishes("Nothing to do."));
    for _ in 0..7 {
        job.fake.add_issue(REPO, &Issue { labels: &["coding agent"], ..Issue::default() });
    }
    job.world.run(&["--mode", "producer"]).expect(0);
    let runs: Vec<_> = (0..6)
        .map(|number| job.world.spawn(&["--mode", if number % 2 == 0 { "producer" } else { "consumer" }]))
        .collect();
    for run in runs {
        crate::support::Ended::from(run.wait_with_output().unwrap()).expect(0);
    }
    job.world.run(&[]).expect(0);
    job.world.assert_settled();
    job.world.run(&["--mode", "producer"]).expect(0);
    let file = budget(&job);
    let accounts = file["accounts"].as_object().unwrap();
    assert_eq!(accounts.len(), 1, "{file}");
    let account = accounts.values().next().unwrap();
    assert_eq!(account["lists"].as_object().unwrap().len(), 1, "{file}");
    assert_eq!(account["facts"]["login"]["value"], job.fake.bot());
    job.fake.clear_log();
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(asked(&job), [conditional("/repos/acme/widgets/issues")]);
}

#[test]
fn a_refusal_to_say_whose_token_it_is_is_not_remembered() {
    for (status, name, is_kept) in [
        (403, None, false),
        (410, None, false),
        (410, Some("coding-agent-bot"), false),
        (403, Some("coding-agent-bot"), true),
    ] {
        let mut job = idle();
        if let Some(name) = name {
            job.world.set_env("GITHUB_BOT_NAME", name);
        }
        job.fake.fail_next("GET /user", Fault::Status(status));
        let what = format!("{status} with the name {name:?}");
        let ended = job.world.run(&["--mode", "producer"]).expect(if name.is_some() { 0 } else { 78 });
        assert_eq!(ended.stderr.contains("does not say whose token this is"), name.is_none(), "{what}: {ended:?}");
        job.fake.clear_log();
        job.world.run(&["--mode", "producer"]).expect(0);
        let is_asked = asked(&job).iter().any(|(line, ..)| line == "GET /user");
        assert_eq!(is_asked, !is_kept, "{what}: {:?}", asked(&job));
    }
}

/// A refusal with these headers, before those that the fake adds itself.
fn refusal(status: u16, headers: &[(&str, String)]) -> Fault {
    let reply = Reply::json(status, &serde_json::json!({ "message": "no" }));
    Fault::Answer(headers.iter().fold(reply, |reply, (name, value)| reply.with(name, value.clone())))
}

/// End of the one known wait, in seconds from now.
fn wait_seconds(job: &Job) -> i64 {
    let report: Value = serde_json::from_str(&job.world.run(&["status", "--json"]).expect(0).stdout).unwrap();
    let until = report["waits"][0]["until"].as_str().unwrap_or_else(|| panic!("{report}"));
    chrono::DateTime::parse_from_rfc3339(until).unwrap().timestamp() - chrono::Utc::now().timestamp()
}

#[test]
fn a_reset_is_that_of_the_servers_clock() {
    // GitHub's clock is two hours behind ours, and two hours ahead.
    for difference in [-7200, 7200] {
        let job = idle();
        let there = chrono::Utc::now() + chrono::TimeDelta::seconds(difference);
        let headers = [
            ("date", there.format("%a, %d %b %Y %H:%M:%S GMT").to_string()),
            ("x-ratelimit-limit", "5000".to_owned()),
            ("x-ratelimit-remaining", "0".to_owned()),
            ("x-ratelimit-reset", (there.timestamp() + 1800).to_string()),
        ];
        job.fake.fail_next("GET */issues", refusal(403, &headers));
        job.world.run(&["--mode", "producer"]).expect(75);
        let wait = wait_seconds(&job);
        assert!((1700..=1802).contains(&wait), "{difference}: {wait}");
        let file = budget(&job);
        let account = file["accounts"].as_object().unwrap().values().next().unwrap();
        let (limit, wait) = (&account["limits"]["core"], &account["wait"]);
        let apart = limit["until_ms"].as_u64().unwrap().abs_diff(wait["until_ms"].as_u64().unwrap());
        assert!(apart < 60_000, "the limit ends when the wait does: {file}");
    }
}

#[test]
fn an_end_that_is_over_is_waited_for_like_an_unknown_one() {
    let past = || seconds_from_now(0) - 100;
    let cases = [
        (403, vec![("retry-after", "0".to_owned())]),
        (429, vec![("retry-after", "Sat, 01 Jan 2000 00:00:00 GMT".to_owned())]),
        (403, vec![("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", past().to_string())]),
    ];
    for (status, headers) in cases {
        let job = idle();
        job.fake.fail_always("GET */issues", refusal(status, &headers));
        let ended = job.world.run(&["--mode", "producer"]).expect(75);
        assert!(ended.stderr.contains("rate limit is used up until"), "{headers:?}: {ended:?}");
        let wait = wait_seconds(&job);
        assert!((40..=61).contains(&wait), "{headers:?}: {wait}");
        let log = job.world.read("logs/agent.log");
        let waits: Vec<u64> = log
            .lines()
            .filter_map(|line| line.split_once("trying again in ")?.1.split_once(" ms")?.0.parse().ok())
            .collect();
        assert!(!waits.is_empty() && waits.iter().all(|wait| *wait > 50_000), "{headers:?}: {waits:?}");
    }
}

#[test]
fn sigterm_during_a_wait_sends_no_other_request() {
    let job = idle();
    job.world.run(&["--mode", "producer"]).expect(0);
    job.fake.fail_always("GET */issues", refusal(429, &[("retry-after", "55".to_owned())]));
    job.fake.clear_log();
    // Waits in earnest, for longer than any test: only the signal ends it.
    let child = job.world.command(&["--mode", "producer"]).env_remove("CODING_AGENT_FAULT_NO_SLEEP").spawn().unwrap();
    let is_waiting = || job.world.read("logs/agent.log").contains("trying again in");
    eventually(|| is_waiting().then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(75), "{ended:?}");
    assert_eq!(asked(&job).len(), 1, "{:?}", asked(&job));
}

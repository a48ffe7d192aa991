//! The budget file: what one start learned of limits and lists, the next one knows, whoever else writes.

use std::path::Path;
use std::sync::Arc;

use coding_agent::budget::{Account, Budget, KeptList, RateLimit, known_waits};
use coding_agent::config::Secret;
use coding_agent::sys::clock;
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;
const SERVER: &str = "https://api.example.org";

fn account(budget: &Arc<Budget>) -> Account {
    budget.account(SERVER, None, Some(&Secret::new("token-of-the-bot")))
}

/// As the next start sees it.
fn afresh(dir: &Path) -> Account {
    account(&Budget::open(dir))
}

fn list(read_ms: u64, item: &str) -> KeptList {
    KeptList { read_ms, pages: vec![("https://api.example.org/x".into(), "W/\"1\"".into())], items: vec![json!(item)] }
}

fn written(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("budget.json")).unwrap()).unwrap()
}

#[test]
fn the_next_start_knows_a_wait_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let until_ms = clock::now_ms() + HOUR_MS;
    let now = afresh(dir.path());
    assert_eq!(now.wait(), None);
    now.must_wait(until_ms, "too fast");
    // Nothing was saved by hand: this start may be killed now.
    let wait = afresh(dir.path()).wait().unwrap();
    assert_eq!((wait.until_ms, wait.reason.as_str(), wait.server.as_str()), (until_ms, "too fast", SERVER));
    assert_eq!(known_waits(dir.path()), [wait]);
    // A shorter one does not end it; the end of one that was slept out does.
    afresh(dir.path()).must_wait(until_ms - 1000, "shorter");
    assert_eq!(afresh(dir.path()).wait().unwrap().until_ms, until_ms);
    afresh(dir.path()).may_go_on();
    assert_eq!(afresh(dir.path()).wait().unwrap().until_ms, until_ms, "the wait of another start");
    now.may_go_on();
    assert_eq!(afresh(dir.path()).wait(), None);
}

#[test]
fn waits_of_an_absurd_length_are_cut_and_those_of_a_wrong_clock_ignored() {
    let dir = tempfile::tempdir().unwrap();
    afresh(dir.path()).must_wait(u64::MAX, "for ever");
    let until_ms = afresh(dir.path()).wait().unwrap().until_ms;
    assert!(until_ms <= clock::now_ms() + 24 * HOUR_MS);
    let mut file = written(dir.path());
    for account in file["accounts"].as_object_mut().unwrap().values_mut() {
        account["wait"]["until_ms"] = json!(4_102_444_800_000_u64);
        account["limits"] = json!({ "core": { "limit": 5000, "remaining": 0, "reset_ms": 7,
                                               "until_ms": 4_102_444_800_000_u64 } });
    }
    std::fs::write(dir.path().join("budget.json"), file.to_string()).unwrap();
    assert_eq!(afresh(dir.path()).wait(), None, "as it was saved in 2099");
    afresh(dir.path()).must_wait(clock::now_ms() + 1000 * 60, "really");
    assert_eq!(afresh(dir.path()).wait().unwrap().reason, "really");
}

#[test]
fn what_was_written_while_the_clock_was_ahead_neither_holds_nor_outdoes_what_is_learned_now() {
    let dir = tempfile::tempdir().unwrap();
    let now_ms = clock::now_ms();
    let empty = RateLimit { limit: 5000, remaining: 0, reset_ms: 7 };
    let budget = Budget::open(dir.path());
    account(&budget).must_wait(now_ms + HOUR_MS, "before");
    account(&budget).note_limit("core", empty, now_ms + HOUR_MS);
    account(&budget).keep_list("l", list(now_ms, "before"));
    budget.save_with_lists();
    assert!(afresh(dir.path()).wait().is_some());
    // The clock was ten hours ahead, and is set back.
    let mut file = written(dir.path());
    for account in file["accounts"].as_object_mut().unwrap().values_mut() {
        for kept in ["/wait", "/limits/core"] {
            let kept = account.pointer_mut(kept).unwrap();
            for name in ["set_ms", "until_ms"] {
                kept[name] = json!(kept[name].as_u64().unwrap() + 10 * HOUR_MS);
            }
        }
        account["lists"]["l"]["read_ms"] = json!(now_ms + 10 * HOUR_MS);
        account["used_ms"] = json!(now_ms + 30 * HOUR_MS);
    }
    std::fs::write(dir.path().join("budget.json"), file.to_string()).unwrap();
    assert_eq!(known_waits(dir.path()), []);
    let budget = Budget::open(dir.path());
    let next = account(&budget);
    assert_eq!((next.wait(), next.reserve_until_ms(), next.list("l")), (None, None, None));
    // What is learned now is shorter, and counts, here and at the next start.
    next.note_limit("core", empty, now_ms + HOUR_MS / 2);
    next.keep_list("l", list(now_ms, "now"));
    budget.save_with_lists();
    for account in [&next, &afresh(dir.path())] {
        assert_eq!(account.wait().map(|wait| wait.until_ms), Some(now_ms + HOUR_MS / 2));
        assert_eq!(account.list("l"), Some(list(now_ms, "now")));
    }
    next.must_wait(now_ms + HOUR_MS, "now");
    for account in [&next, &afresh(dir.path())] {
        assert_eq!(account.wait().unwrap().reason, "now");
    }
    let file = written(dir.path());
    assert!(
        file["accounts"].as_object().unwrap().values().next().unwrap()["used_ms"].as_u64() <= Some(clock::now_ms())
    );
}

#[test]
fn a_used_up_limit_is_a_wait_and_a_small_rest_is_kept_for_work_begun() {
    let now_ms = clock::now_ms();
    let reset_ms = now_ms + HOUR_MS;
    let cases = [
        // limit, remaining, reset, waits, reserve
        (5000, 0, reset_ms, true, true),
        (5000, 1, reset_ms, false, true),
        (5000, 49, reset_ms, false, true),
        (5000, 50, reset_ms, false, false),
        (60, 10, reset_ms, false, false),
        (60, 1, reset_ms, false, true),
        (5000, 0, now_ms - 1, false, false),
    ];
    for (limit, remaining, reset_ms, waits, is_reserved) in cases {
        let budget = Budget::kept_nowhere();
        let account = account(&budget);
        account.note_limit("core", RateLimit { limit, remaining, reset_ms: 7 }, reset_ms);
        let what = format!("{remaining} of {limit}");
        assert_eq!(account.wait().map(|wait| wait.until_ms), waits.then_some(reset_ms), "{what}");
        assert_eq!(account.reserve_until_ms(), is_reserved.then_some(reset_ms), "{what}");
    }
    let budget = Budget::kept_nowhere();
    let account = account(&budget);
    account.note_limit("search", RateLimit { limit: 30, remaining: 0, reset_ms: 7 }, reset_ms);
    assert_eq!(account.wait(), None, "searches are counted apart");
}

#[test]
fn addresses_models_and_keys_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = [None, Some(Secret::new("one")), Some(Secret::new("two"))];
    let mut count = 0;
    for server in [SERVER, "https://other.example.org"] {
        for model in [None, Some("m"), Some("n")] {
            for secret in &secrets {
                let budget = Budget::open(dir.path());
                let account = budget.account(server, model, secret.as_ref());
                assert_eq!(account.wait(), None, "{server} {model:?} {count}");
                account.must_wait(clock::now_ms() + HOUR_MS, "wait");
                count += 1;
            }
        }
    }
    assert_eq!(known_waits(dir.path()).len(), count);
}

#[test]
fn lists_are_written_only_when_their_items_were_dealt_with() {
    let dir = tempfile::tempdir().unwrap();
    let now_ms = clock::now_ms();
    let budget = Budget::open(dir.path());
    let first = account(&budget);
    first.keep_list("l", list(now_ms, "a"));
    first.keep_fact("who", &"bot");
    assert_eq!(first.list("l"), Some(list(now_ms, "a")));
    // Whatever else is written meanwhile.
    first.must_wait(now_ms + HOUR_MS, "wait");
    budget.save();
    assert_eq!(afresh(dir.path()).list("l"), None);
    assert_eq!(afresh(dir.path()).fact::<String>("who", HOUR_MS).as_deref(), Some("bot"));
    budget.save_with_lists();
    assert_eq!(afresh(dir.path()).list("l"), Some(list(now_ms, "a")));
    // An older look at the list does not replace a newer one.
    let budget = Budget::open(dir.path());
    account(&budget).keep_list("l", list(now_ms - 1, "older"));
    budget.save_with_lists();
    assert_eq!(afresh(dir.path()).list("l"), Some(list(now_ms, "a")));
}

#[test]
fn what_is_old_is_not_used_and_in_the_end_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let now_ms = clock::now_ms();
    let budget = Budget::open(dir.path());
    let day_ms = 24 * HOUR_MS;
    for (name, age_ms) in [("new", 0), ("old", HOUR_MS), ("dropped", 31 * day_ms)] {
        account(&budget).keep_list(name, list(now_ms - age_ms, "a"));
    }
    account(&budget).keep_list("of tomorrow", list(now_ms + day_ms, "a"));
    account(&budget).keep_fact("who", &"bot");
    budget.save_with_lists();
    let next = afresh(dir.path());
    assert!(next.list("new").is_some());
    // Read whole again: an hour old, or from a clock that was wrong.
    assert!(next.list("old").is_none() && next.list("of tomorrow").is_none());
    assert_eq!(next.fact::<String>("who", 0), None);
    assert_eq!(next.fact::<u64>("who", HOUR_MS), None, "of another shape");
    next.forget_facts();
    assert_eq!(afresh(dir.path()).fact::<String>("who", HOUR_MS), None);
    let file = written(dir.path());
    let record = file["accounts"].as_object().unwrap().values().next().unwrap().clone();
    let names: Vec<&String> = record["lists"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["new", "old"]);
    // Accounts too, when nobody used them for a month, or when there are too many.
    let mut file = file;
    for number in 0..30 {
        let mut old = record.clone();
        old["used_ms"] = json!(now_ms - if number < 5 { 31 * day_ms } else { 2 * day_ms + number });
        file["accounts"][format!("account{number}")] = old;
    }
    std::fs::write(dir.path().join("budget.json"), file.to_string()).unwrap();
    let budget = Budget::open(dir.path());
    account(&budget).keep_fact("who", &"bot");
    budget.save();
    let file = written(dir.path());
    let accounts = file["accounts"].as_object().unwrap();
    assert_eq!(accounts.len(), 20);
    assert!(!accounts.contains_key("account4") && accounts.contains_key("account5"), "the newest are kept");
    assert!(!accounts.contains_key("account29"));
}

#[test]
fn a_damaged_or_strange_file_is_begun_afresh() {
    let until_ms = clock::now_ms() + HOUR_MS;
    for content in ["", "{", "[]", "null", "{}", "{\"version\":0,\"accounts\":{}}", "{\"version\":99}", "\u{0}\u{0}"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("budget.json"), content).unwrap();
        assert_eq!(known_waits(dir.path()), [], "{content:?}");
        let now = afresh(dir.path());
        assert_eq!(now.wait(), None, "{content:?}");
        now.must_wait(until_ms, "wait");
        assert_eq!(afresh(dir.path()).wait().unwrap().until_ms, until_ms, "{content:?}");
    }
}

#[test]
fn the_file_is_private_and_holds_no_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let budget = Budget::open(dir.path());
    account(&budget).must_wait(clock::now_ms() + HOUR_MS, "wait");
    let path = dir.path().join("budget.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("token-of-the-bot"), "{text}");
    assert!(!format!("{budget:?}").contains("token-of-the-bot"));
}

#[test]
fn an_idle_start_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let until_ms = clock::now_ms() + HOUR_MS;
    let limit = RateLimit { limit: 5000, remaining: 4000, reset_ms: 7 };
    let budget = Budget::open(dir.path());
    account(&budget).note_limit("core", limit, until_ms);
    budget.save();
    std::fs::remove_file(dir.path().join("budget.lock")).unwrap();
    let budget = Budget::open(dir.path());
    account(&budget).note_limit("core", limit, until_ms + 250);
    account(&budget).may_go_on();
    budget.save_with_lists();
    assert!(!dir.path().join("budget.lock").exists(), "the file was not even locked");
}

#[test]
fn property_many_starts_at_once_lose_nothing_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let now_ms = clock::now_ms();
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let dir = dir.path();
            scope.spawn(move || {
                for round in 0..10_u64 {
                    let budget = Budget::open(dir);
                    let shared = account(&budget);
                    shared.keep_list(&format!("list {worker} {round}"), list(now_ms, "a"));
                    shared.note_limit(
                        "core",
                        RateLimit { limit: 5000, remaining: 5000 - worker * 10 - round, reset_ms: 7 },
                        now_ms + HOUR_MS,
                    );
                    shared.keep_fact(&format!("fact {worker}"), &round);
                    if round == worker {
                        shared.must_wait(now_ms + HOUR_MS + worker, "wait");
                    }
                    budget.save_with_lists();
                }
            });
        }
    });
    let file = written(dir.path());
    let record = file["accounts"].as_object().unwrap().values().next().unwrap();
    assert_eq!(record["lists"].as_object().unwrap().len(), 80);
    for worker in 0..8 {
        assert_eq!(record["facts"][format!("fact {worker}")]["value"], 9);
    }
    assert_eq!(record["limits"]["core"]["remaining"], 5000 - 79, "the least that was left");
    assert_eq!(record["wait"]["until_ms"], now_ms + HOUR_MS + 7, "the longest wait");
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

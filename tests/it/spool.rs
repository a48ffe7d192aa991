//! The spool: names, claims, recovery, and what one listing costs.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use coding_agent::ports::{Claim, Publisher, TaskQueue};
use coding_agent::queue::{EntryName, Spool, State};
use coding_agent::sys::lock;
use coding_agent::task::{TaskId, TaskKey, TaskMessage};

use crate::support::eventually;

fn message(name: &str) -> TaskMessage {
    TaskMessage {
        key: TaskKey::local(name).unwrap(),
        uuid: TaskId::new_v4(),
        user: Some("alice".into()),
        enqueued_at: "2024-12-07T03:00:00+00:00".into(),
        paused_context_path: None,
    }
}

fn publish(spool: &mut Spool, messages: &[TaskMessage]) {
    let done = spool.produce(&mut |publisher: &mut dyn Publisher| {
        messages.iter().try_for_each(|message| publisher.publish(message, &mut || Ok(true)))
    });
    assert!(done.unwrap());
}

// Other tests of this binary start processes. Between fork and exec such a child holds copies of our
// open files, and with them their locks: a lock given back may look taken for an instant.

/// Claims the next entry, which must be there.
fn next(spool: &mut Spool) -> Claim {
    eventually(|| spool.claim().unwrap())
}

/// Producer passes until nothing unlocked is left in `running/`.
fn recover(spool: &mut Spool, dir: &Path, still_running: usize) {
    eventually(|| {
        publish(spool, &[]);
        (names(dir, State::Running).len() == still_running).then_some(())
    });
}

fn names(dir: &Path, state: State) -> Vec<String> {
    Spool::at(dir, 3).entries(state).unwrap().into_iter().map(|entry| entry.file_name).collect()
}

#[test]
fn keys_have_the_documented_form_and_hash() {
    let key = TaskKey::GithubIssue { owner: "Owner".into(), repo: "Repo".into(), number: 7 };
    assert_eq!(key.canonical(), "github/issue/owner/repo/7");
    // FNV-1a-64 of the empty text is its offset basis, of "a" a published test vector; here the rule
    // is computed again.
    let again = |text: &str| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in text.bytes() {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0100_0000_01b3);
        }
        hash
    };
    assert_eq!(again("a"), 0xaf63_dc4c_8601_ec8c, "published vector");
    assert_eq!(key.hash16(), format!("{:016x}", again("github/issue/owner/repo/7")));
    let pull = TaskKey::GithubPullRequest { owner: "o".into(), repo: "r".into(), number: 7 };
    let issue = TaskKey::GithubIssue { owner: "o".into(), repo: "r".into(), number: 7 };
    assert_ne!(pull.hash16(), issue.hash16());
    for bad in ["", ".hidden", "a/b", "..", "nul\0", "line\nbreak"] {
        assert!(TaskKey::local(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn entries_of_every_kind_are_read_back_and_match_the_fixtures() {
    let fixtures = include_str!("../fixtures/spool_entries.jsonl");
    let mut kinds = Vec::new();
    for line in fixtures.lines() {
        let parsed = TaskMessage::parse(line.as_bytes()).unwrap();
        kinds.push(parsed.key.task_type());
        let written: serde_json::Value = serde_json::from_slice(&parsed.to_bytes()).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(line).unwrap());
    }
    assert_eq!(kinds, ["github_issue", "github_pull_request", "gitlab_issue", "gitlab_merge_request", "local_issue"]);
    let architecture = include_str!("../../src/ARCHITECTURE.md");
    for line in fixtures.lines() {
        assert!(architecture.contains(line), "ARCHITECTURE.md shows {line}");
    }
}

#[test]
fn entries_that_are_none_are_refused() {
    let good = String::from_utf8(message("a").to_bytes()).unwrap();
    let bad = [
        String::new(),
        "{}".into(),
        "[]".into(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"version\":1", "\"version\":2"),
        good.replace("local_issue", "jira_issue"),
        good.replace("\"name\":\"a\"", "\"name\":\"../a\""),
        good.replace("\"name\":\"a\"", "\"nam\":\"a\""),
        r#"{"version":1,"task_type":"github_issue","owner":"","repo":"r","number":1,"uuid":"00000000-0000-4000-8000-000000000000","user":null,"enqueued_at":"x"}"#.into(),
    ];
    for text in bad {
        assert!(TaskMessage::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn names_are_read_back_and_sort_by_time() {
    let name = EntryName {
        not_before_ms: None,
        enqueued_ms: 5,
        key_hash: "0123456789abcdef".into(),
        uuid: TaskId::nil(),
        attempt: 2,
    };
    assert_eq!(name.to_string(), "0000000000005-0123456789abcdef-00000000-0000-0000-0000-000000000000.a2.json");
    assert_eq!(EntryName::parse(&name.to_string()), Some(name.clone()));
    let deferred = EntryName { not_before_ms: Some(1_733_540_400_000), ..name.clone() };
    assert_eq!(EntryName::parse(&deferred.to_string()), Some(deferred.clone()));
    assert_eq!(deferred.with_attempt(1).to_string().split('.').nth(1), Some("a1"));
    assert!(
        EntryName { enqueued_ms: 999_999_999_999, ..name.clone() }.to_string()
            < EntryName { enqueued_ms: 1_000_000_000_000, ..name }.to_string()
    );
    for bad in [
        "",
        "x.json",
        "5-0123456789abcdef-00000000-0000-0000-0000-000000000000.a2.json",
        "0000000000005-0123456789abcdef-x.a0.json",
        "0000000000005-0123456789abcdef-00000000-0000-0000-0000-000000000000.a02.json",
        "0000000000005-0123456789abcdef-00000000-0000-0000-0000-000000000000.json",
    ] {
        assert_eq!(EntryName::parse(bad), None, "{bad}");
    }
}

#[test]
fn one_rename_of_one_inode_per_transition() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path(), 3).unwrap();
    publish(&mut spool, &[message("a")]);
    let inode = |state: State| {
        let name = names(dir.path(), state).remove(0);
        std::fs::metadata(dir.path().join(state.directory()).join(name)).unwrap().ino()
    };
    let published = inode(State::Queue);
    let claim = next(&mut spool);
    assert_eq!((inode(State::Running), claim.attempt), (published, 1));
    let content = std::fs::read(dir.path().join("running").join(names(dir.path(), State::Running).remove(0))).unwrap();
    assert_eq!(content, claim.message.to_bytes(), "immutable");
    spool.park(claim, 5).unwrap();
    assert_eq!(inode(State::Deferred), published);
    assert!(names(dir.path(), State::Deferred)[0].ends_with(".a0.json"), "parking does not count");
    eventually(|| {
        publish(&mut spool, &[]);
        names(dir.path(), State::Deferred).is_empty().then_some(())
    });
    assert_eq!(inode(State::Queue), published);
    let mut claim = next(&mut spool);
    spool.turn_completed(&mut claim).unwrap();
    assert!(names(dir.path(), State::Running)[0].ends_with(".a0.json"));
    assert_eq!(inode(State::Running), published);
    spool.give_up(claim).unwrap();
    assert_eq!(inode(State::GaveUp), published);
}

#[test]
fn a_claim_in_work_is_left_alone_and_a_dead_one_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path(), 3).unwrap();
    publish(&mut spool, &[message("a"), message("b")]);
    let first = next(&mut spool);
    let second = next(&mut spool);
    assert_eq!(spool.claim().unwrap().map(|claim| claim.receipt.name), None);
    drop(second);
    recover(&mut spool, dir.path(), 1);
    assert_eq!(names(dir.path(), State::Running), std::slice::from_ref(&first.receipt.name));
    let again = next(&mut spool);
    assert_eq!((again.message.key.identifier().as_str(), again.attempt, again.exhausted), ("b", 2, false));
    drop(again);
    recover(&mut spool, dir.path(), 1);
    let again = next(&mut spool);
    assert_eq!((again.attempt, again.exhausted), (3, false));
    drop(again);
    recover(&mut spool, dir.path(), 1);
    let again = next(&mut spool);
    assert_eq!((again.attempt, again.exhausted), (3, true), "used up before this claim");
}

#[test]
fn an_entry_is_not_visible_to_consumers_while_its_producer_prepares_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path(), 3).unwrap();
    let mut other = Spool::open(dir.path(), 3).unwrap();
    let task = message("a");
    let produced = spool.produce(&mut |publisher: &mut dyn Publisher| {
        publisher.publish(&task, &mut || {
            assert!(other.claim()?.is_none(), "locked by its producer");
            Ok(true)
        })?;
        assert!(publisher.is_active(&task.key) && publisher.has_entry(task.uuid));
        assert!(!publisher.is_active(&message("b").key));
        Ok(())
    });
    assert!(produced.unwrap());
    drop(next(&mut other));
}

#[test]
fn what_cannot_be_prepared_is_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path(), 3).unwrap();
    let task = message("a");
    let done = spool.produce(&mut |publisher: &mut dyn Publisher| {
        publisher.publish(&task, &mut || Ok(false))?;
        assert!(!publisher.is_active(&task.key));
        Ok(())
    });
    assert!(done.unwrap());
    assert_eq!(names(dir.path(), State::Queue).len(), 0);
}

#[test]
fn only_one_producer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path(), 3).unwrap();
    let mut other = Spool::open(dir.path(), 3).unwrap();
    let done = spool.produce(&mut |_: &mut dyn Publisher| {
        assert!(!other.produce(&mut |_: &mut dyn Publisher| panic!("a second producer runs"))?);
        Ok(())
    });
    assert!(done.unwrap());
    let slots: Vec<_> = (0..3).map(|_| spool.consumer_slot(2).unwrap()).collect();
    assert_eq!(slots.iter().filter(|slot| slot.is_some()).count(), 2);
}

#[test]
fn a_link_in_the_queue_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(dir.path(), 3).unwrap();
    let task = message("a");
    let outside = dir.path().join("outside.json");
    std::fs::write(&outside, task.to_bytes()).unwrap();
    let name = format!("{:013}-{}-{}.a0.json", 1, task.key.hash16(), task.uuid);
    std::os::unix::fs::symlink(&outside, dir.path().join("queue").join(&name)).unwrap();
    assert!(spool.claim().map(|claim| claim.is_none()).unwrap_or(true));
    assert_eq!(std::fs::read(&outside).unwrap(), task.to_bytes());
}

#[test]
fn a_lock_is_not_taken_on_a_file_that_was_replaced_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("entry");
    std::fs::write(&path, "old").unwrap();
    let old = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "new").unwrap();
    assert!(lock::try_lock(&old).unwrap());
    let held = lock::open_locked(&path).unwrap();
    assert!(held.is_some(), "the new inode is free");
    assert!(lock::open_locked(&path).unwrap().is_none());
    assert!(lock::open_locked(&dir.path().join("absent")).unwrap().is_none());
}

#[test]
#[cfg(feature = "faults")]
fn every_failing_operation_of_publish_and_claim_leaves_one_state() {
    for nth in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), 3).unwrap();
        let task = message("a");
        coding_agent::sys::fault::arm(nth, 5);
        let published = spool.produce(&mut |publisher: &mut dyn Publisher| publisher.publish(&task, &mut || Ok(true)));
        let claimed = published.as_ref().ok().map(|_| spool.claim());
        let fired = coding_agent::sys::fault::disarm();
        let count = |state| names(dir.path(), state).len();
        assert!(count(State::Queue) + count(State::Running) <= 1, "operation {nth}");
        assert_eq!(std::fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0, "operation {nth}: no temporary");
        drop(claimed);
        // Whatever failed, a plain pass ends in one claim of one entry with the whole content.
        let again = spool.produce(&mut |publisher: &mut dyn Publisher| {
            if publisher.is_active(&task.key) { Ok(()) } else { publisher.publish(&task, &mut || Ok(true)) }
        });
        assert!(again.unwrap());
        let claim = eventually(|| {
            publish(&mut spool, &[]);
            spool.claim().unwrap()
        });
        assert_eq!(claim.message, task, "operation {nth}");
        assert!(spool.claim().unwrap().is_none());
        if !fired {
            assert!(nth > 4, "operations were counted");
            break;
        }
    }
}

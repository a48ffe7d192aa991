//! The log: rotation, several processes, secrets, and lines that nobody can fake.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Cassette, World, call};
use serde_json::json;

/// Makes the log file so long that the next line rotates it.
fn fill(world: &World) {
    std::fs::create_dir_all(world.path("logs")).unwrap();
    let line = format!("{}\n", "x".repeat(1023));
    world.write("logs/agent.log", &line.repeat(10 << 10));
}

#[test]
fn rotates_at_ten_megabytes_and_keeps_three_files() {
    let world = World::with_task(&Cassette::new().finishes("x"));
    for round in 1..=4 {
        fill(&world);
        world.run(&[]).expect(0);
        let names = world.names("logs");
        let expected = ["agent.log", "agent.log.1", "agent.log.2"];
        assert_eq!(names, expected[..=round.min(2)], "round {round}");
        assert!(std::fs::metadata(world.path("logs/agent.log")).unwrap().len() < 100_000);
        assert_eq!(std::fs::metadata(world.path("logs/agent.log.1")).unwrap().len(), 10 << 20);
    }
    let mode = std::fs::metadata(world.path("logs/agent.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn one_byte_less_does_not_rotate() {
    let world = World::with_task(&Cassette::new().finishes("x"));
    fill(&world);
    let text = world.read("logs/agent.log");
    world.write("logs/agent.log", &text[1..]);
    world.run(&[]).expect(0);
    // The first line of the run still fits; the second puts the file aside.
    let old = world.read("logs/agent.log.1");
    assert!(old.len() > 10 << 20);
    assert_eq!(old.lines().count(), (10 << 10) + 1);
}

#[test]
fn several_processes_rotate_once_and_lose_no_line() {
    let world = World::with_task(&Cassette::new().finishes("x"));
    fill(&world);
    let children: Vec<_> = (0..4).map(|_| world.spawn(&["--verbose"])).collect();
    let mut told = 0;
    let mut pids = Vec::new();
    for child in children {
        pids.push(child.id());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        told += String::from_utf8(output.stderr).unwrap().lines().count();
    }
    assert_eq!(world.names("logs"), ["agent.log", "agent.log.1"]);
    let log = format!("{}{}", world.read("logs/agent.log.1"), world.read("logs/agent.log"));
    let ours: Vec<&str> = log.lines().filter(|line| !line.starts_with("xxx")).collect();
    assert_eq!(ours.len(), told, "each line that stderr has: {ours:?}");
    for line in ours {
        let pid = line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(pid, _)| pid.parse().unwrap());
        assert!(pid.is_some_and(|pid| pids.contains(&pid)), "whole lines of one process: {line}");
    }
}

#[test]
fn secrets_are_masked_in_log_stderr_comment_and_history() {
    const SECRET: &str = "sk-proj-0123456789abcdef";
    let cassette = Cassette::new()
        .runs(&format!("echo {SECRET}; echo 'Basic dXNlcjpzay1wcm9qLTAxMjM0NTY3ODlhYmNkZWY='"))
        .then(call(SECRET, json!({})))
        .then(json!({ "error": { "kind": "later", "message": format!("refused {SECRET}"), "times": 1, "retry_after_seconds": 0 } }))
        .finishes(&format!("I found {SECRET}."));
    let mut world = World::with_task(&cassette);
    world.set_env("OPENAI_API_KEY", SECRET);
    let issue = world.read("tasks/fix.md").replace("add.sh subtracts.", &format!("The key is {SECRET}."));
    world.write("tasks/fix.md", &issue);
    let ended = world.run(&["--verbose"]).expect(0);
    let context = world.context("completed");
    let mut places = vec![
        ("stderr".to_owned(), ended.stderr),
        ("comment".to_owned(), world.comments("fix")),
        ("log".to_owned(), world.read("logs/agent.log")),
        ("status".to_owned(), world.run(&["status", "--json"]).expect(0).stdout),
    ];
    for name in ["messages.jsonl", "current.jsonl", "tools.jsonl", "outcome.json", "final_summary.txt"] {
        places.push((name.to_owned(), std::fs::read_to_string(context.join(name)).unwrap()));
    }
    for error in world.query("SELECT COALESCE(error, '') FROM llm_calls") {
        places.push(("llm_calls".to_owned(), error));
    }
    for (name, text) in &places {
        for form in [SECRET, "sk-proj", "0123456789abcdef", "c2stcHJvai0wMTIz", "zay1wcm9qLTAxMjM0"] {
            assert!(!text.contains(form), "{name} has {form}: {text}");
        }
    }
    assert!(world.comments("fix").contains("I found [secret]."));
    assert!(world.read("logs/agent.log").contains("[secret]"));
}

#[test]
fn a_text_of_several_lines_cannot_fake_a_line() {
    let fake = "2024-12-07T03:00:00+00:00 error [1] all is lost";
    for line_break in ["\n", "\r\n", "\r", "\u{2028}", "\u{85}", "\x1b[2K\x1b[G", "\0"] {
        let world = World::with_task(
            &Cassette::new()
                .then(json!({ "error": { "kind": "later", "message": format!("busy{line_break}{fake}"), "times": 1, "retry_after_seconds": 0 } }))
                .finishes("x"),
        );
        world.run(&[]).expect(0);
        let log = world.read("logs/agent.log");
        assert!(log.contains("all is lost"), "it is told: {log}");
        let faked = log.split(['\n', '\r', '\u{2028}', '\u{85}', '\x1b', '\0']).any(|line| line.starts_with("2024"));
        assert!(!faked, "{line_break:?}: {log:?}");
        assert!(!log.contains('\x1b') && !log.contains('\r') && !log.contains('\0'), "{log:?}");
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run_before_any_task_is_touched() {
    for in_the_way in ["logs", "logs/agent.log"] {
        let world = World::with_task(&Cassette::new().finishes("x"));
        if in_the_way == "logs" {
            world.write("logs", "a file");
        } else {
            std::fs::create_dir_all(world.path("logs/agent.log")).unwrap();
        }
        let ended = world.run(&[]).expect(78);
        assert!(ended.stderr.starts_with("coding-agent: cannot "), "{}", ended.stderr);
        assert!(ended.stderr.contains("logs"), "{}", ended.stderr);
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{}", ended.stderr);
        assert_eq!(world.labels("fix"), ["coding agent"]);
    }
}

#[test]
fn debug_lines_only_when_asked_for() {
    let mut world = World::with_task(&Cassette::new().finishes("x"));
    world.set_env("LOGS", "other/place.log");
    world.run(&[]).expect(0);
    assert!(!world.read("other/place.log").contains(" debug "), "{}", world.read("other/place.log"));
    world.issue("fix", "coding agent");
    world.set_env("DEBUG", "true");
    let ended = world.run(&[]).expect(0);
    assert!(world.read("other/place.log").contains(" debug "));
    assert_eq!(ended.stderr, "");
}

//! `status`: where every task stands and what it cost.

use serde_json::{Value, json};

use crate::support::{Cassette, World, finish};

fn report(world: &World) -> Value {
    serde_json::from_str(&world.run(&["status", "--json"]).expect(0).stdout).unwrap()
}

/// One task of alice that is done, one of bob that failed, each with two calls.
fn two_tasks() -> World {
    let world =
        World::with_task(&Cassette::new().runs("true").finishes("x").runs("true").then(finish("blocked", "no key")));
    world.run(&[]).expect(0);
    world.issue("other", "coding agent");
    let issue = world.read("tasks/other.md").replace("author: alice", "author: bob");
    world.write("tasks/other.md", &issue);
    world.replies(&Cassette::new().runs("true").then(finish("blocked", "no key")));
    world.run(&[]).expect(1);
    world
}

#[test]
fn nothing_was_done_yet() {
    let world = World::new();
    let text = world.run(&["status"]).expect(0).stdout;
    assert_eq!(text, "Waiting: 0\nRunning: 0\nPut off: 0\nPaused: 0\nGiven up: 0\nUnreadable: 0\nEnded last: 0\n");
    let report = report(&world);
    let names: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names.join(" "),
        "corrupt database_problem deferred gave_up last_finished paused queue running totals waits"
    );
    assert_eq!(report["totals"], json!({ "all": null, "per_day": [], "per_user": [], "per_repository": [] }));
    assert!(!world.path("contexts").exists() && !world.path("spool").exists(), "looking makes nothing");
}

#[test]
fn each_task_with_its_cost() {
    let world = two_tasks();
    let text = world.run(&["status"]).expect(0).stdout;
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != "Ended last: 2").collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(
        lines[1].contains("  failed     local_issue other  ") && lines[1].ends_with(": the model says it is blocked"),
        "{text}"
    );
    assert!(lines[3].contains("  completed  local_issue fix  "), "{text}");
    for line in [lines[2], lines[4]] {
        assert!(line.starts_with("      2 calls, 200 tokens in (0 cached), 20 out, "), "{text}");
        assert!(line.contains("; took ") && line.ends_with(" in all"), "{text}");
    }
    let report = report(&world);
    let last = &report["last_finished"][0];
    assert_eq!((&last["cost"]["calls"], &last["cost"]["prompt_tokens"]), (&json!(2), &json!(200)));
    assert!(last["elapsed_ms"].is_u64() && last["cost"]["model_ms"].is_u64() && last["cost_text"].is_null(), "{last}");
}

#[test]
fn a_task_that_waits_has_cost_something_already() {
    let world = World::with_task(&Cassette::new().runs("true").fails("later", "the model is away"));
    world.run(&[]).expect(75);
    let text = world.run(&["status"]).expect(0).stdout;
    let mut lines = text.lines().skip_while(|line| *line != "Put off: 1").skip(1);
    assert!(lines.next().unwrap().contains("local/issue/fix"), "{text}");
    let cost = lines.next().unwrap();
    assert!(cost.starts_with("      2 calls (1 failed), ") && !cost.contains("took"), "{text}");
    assert_eq!(report(&world)["deferred"][0]["cost"]["failed_calls"], 1);
}

#[test]
fn totals_per_day_user_and_repository() {
    let world = two_tasks();
    let connection = rusqlite::Connection::open(world.path("contexts/tasks.db")).unwrap();
    connection
        .execute_batch(
            "UPDATE llm_calls SET at = '2024-12-07T23:59:59+00:00', cached_tokens = 30, duration_ms = 2000
               WHERE uuid = (SELECT uuid FROM tasks WHERE user = 'alice');
             UPDATE llm_calls SET at = '2024-12-08T00:00:00+00:00', duration_ms = 1, error = 'x', estimated = 1
               WHERE uuid = (SELECT uuid FROM tasks WHERE user = 'bob');
             INSERT INTO llm_calls VALUES ('gone', '2024-12-08T12:00:00+00:00', 'loop', 'p', 'm', 1, 2, 3, 0, 4, NULL);",
        )
        .unwrap();
    drop(connection);
    let totals = &report(&world)["totals"];
    let numbers = |row: &Value| {
        let names = [
            "tasks",
            "calls",
            "failed_calls",
            "prompt_tokens",
            "completion_tokens",
            "cached_tokens",
            "estimated_calls",
            "model_ms",
        ];
        names.map(|name| row[name].as_u64().unwrap())
    };
    let (alice, bob, gone) = ([1, 2, 0, 200, 20, 60, 0, 4000], [1, 2, 2, 200, 20, 0, 2, 2], [1, 1, 0, 1, 2, 3, 0, 4]);
    let sum = |one: [u64; 8], two: [u64; 8]| std::array::from_fn::<u64, 8, _>(|index| one[index] + two[index]);
    let rows = |group: &str, name: &str| -> Vec<(Value, [u64; 8])> {
        totals[group].as_array().unwrap().iter().map(|row| (row[name].clone(), numbers(row))).collect()
    };
    assert_eq!(numbers(&totals["all"]), sum(sum(alice, bob), gone));
    assert_eq!(rows("per_day", "day"), [(json!("2024-12-07"), alice), (json!("2024-12-08"), sum(bob, gone))]);
    assert_eq!(rows("per_user", "user"), [(Value::Null, gone), (json!("alice"), alice), (json!("bob"), bob)]);
    assert_eq!(rows("per_repository", "repository"), [(Value::Null, gone), (json!("../widgets"), sum(alice, bob))]);
}

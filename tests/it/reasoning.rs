//! What models think (case C08): kept in the archive, sent back with the turns of tools it came with
//! and nowhere else, never shown to people.

use serde_json::{Value, json};

use crate::support::{Answer, FakeModel, World, finish, reply};

const EXECUTE: &str = "command-executor_execute_command";
const SECRET: &str = "hunter2hunter2";

fn thinks(reasoning: &Value, arguments: &Value) -> Answer {
    let function = json!({ "name": EXECUTE, "arguments": arguments.to_string() });
    let call = json!({ "id": "x", "type": "function", "function": function,
                       "extra_content": { "google": { "thought_signature": "c2ln" } } });
    reply(&json!({ "content": null, "tool_calls": [call], "reasoning_content": reasoning }))
}

fn finishes() -> Answer {
    reply(&finish("done", "Done."))
}

fn archived(world: &World, place: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(world.context(place).join("messages.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn c08_reasoning_and_signatures_go_back_with_their_turn() {
    let fake = FakeModel::new([
        thinks(&json!("I look first."), &json!({ "command": "true" })),
        thinks(&json!(""), &json!({ "command": "echo two" })),
        finishes(),
    ]);
    fake.wants_reasoning();
    let world = fake.world();
    world.run(&[]).expect(0);
    let sent = &fake.chats()[2]["messages"];
    assert_eq!(sent[2]["reasoning_content"], "I look first.");
    assert_eq!(sent[4]["reasoning_content"], "", "as it came");
    assert_eq!(sent[2]["tool_calls"][0]["extra_content"], json!({ "google": { "thought_signature": "c2ln" } }));
    let lines = archived(&world, "completed");
    assert_eq!(lines[2]["reasoning"], json!({ "field": "reasoning_content", "text": "I look first." }));
    assert!(!world.comments("fix").contains("I look first."), "never posted");
}

#[test]
fn c08_a_resumed_task_still_has_it() {
    let fake = FakeModel::new([
        thinks(&json!("I look first."), &json!({ "command": "true" })),
        Answer::json(429, &json!({ "error": { "message": "slow down" } })).header("Retry-After", "3600"),
    ]);
    fake.wants_reasoning();
    let world = fake.world();
    world.run(&[]).expect(75);
    fake.then([finishes()]);
    world.pass_time();
    world.run(&[]).expect(0);
    assert_eq!(fake.chats()[2]["messages"][2]["reasoning_content"], "I look first.");
}

#[test]
fn secrets_in_it_are_masked_and_controls_shown() {
    let fake = FakeModel::new([
        thinks(&json!(format!("the key is {SECRET}\u{1b}[0m")), &json!({ "command": "true" })),
        finishes(),
    ]);
    fake.wants_reasoning();
    let mut world = fake.world();
    world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", SECRET);
    world.run(&[]).expect(0);
    let text = archived(&world, "completed")[2]["reasoning"]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("the key is [secret]") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_turn_that_only_speaks_goes_back_without_it() {
    let fake = FakeModel::new([reply(&json!({ "content": "Hm.", "reasoning_content": "secret plan" })), finishes()]);
    let world = fake.world();
    world.run(&[]).expect(0);
    // The server is strict: it knows no such field.
    assert_eq!(archived(&world, "completed")[2]["reasoning"]["text"], "secret plan");
}

#[test]
fn other_fields_and_thinking_in_the_text_are_kept_only() {
    let call = json!({ "id": "x", "type": "function", "function": { "name": EXECUTE, "arguments": "{\"command\":\"true\"}" } });
    for (message, field) in [
        (json!({ "content": "", "tool_calls": [call], "reasoning": "secret plan" }), "reasoning"),
        (json!({ "content": "<think>secret plan</think>", "tool_calls": [call] }), ""),
    ] {
        let fake = FakeModel::new([reply(&message), finishes()]);
        let world = fake.world();
        world.run(&[]).expect(0);
        assert!(!json!(fake.chats()).to_string().contains("secret plan"));
        let kept = &archived(&world, "completed")[2]["reasoning"];
        assert!(kept["field"] == field && kept["text"].as_str().unwrap().contains("secret plan"), "{kept}");
    }
}

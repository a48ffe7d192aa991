//! Calls written as JSON in text, for models that cannot call tools (`llm.function_calling: false`):
//! what is read (cases C16, C18, C21), what goes over the wire, what people see, and the limits.

use coding_agent::handler::{Said, parse_json_answer as parse};
use coding_agent::text::json_objects;
use serde_json::{Value, json};

use crate::support::{Cassette, FakeModel, World, check_strictly, reply, says};

const DONE: &[&str] = &["coding agent done"];
const FAILED: &[&str] = &["coding agent failed"];
const EDIT: &str = "text-editor/text_editor";
const RUN: &str = "command-executor/execute_command";

fn world(fake: &FakeModel) -> World {
    let mut world = fake.world();
    world.set_env("FUNCTION_CALLING", "false");
    world
}

fn model(answers: &[Value]) -> FakeModel {
    FakeModel::new(answers.iter().map(|answer| {
        let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        reply(&says(&text))
    }))
}

fn names(said: &Said) -> Vec<&str> {
    said.calls.iter().map(|call| call.name.as_deref().unwrap()).collect()
}

fn one(text: &str) -> Said {
    parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[test]
fn every_field_in_its_forms() {
    let said = one(r#"{"comment":" hi ","plan":["a",{"b":1}],"command":{"tool":"s/a","args":{"x":1}},
           "function_call":[{"name":"s/b","arguments":"{}"},{"name":"s/c"}],"call_tool":[{"tool":"s/d","args":null}],"done":"true"}"#);
    assert_eq!(names(&said), ["s/a", "s/b", "s/c", "s/d"]);
    assert_eq!((said.comment.as_deref(), said.plan.as_deref()), (Some("hi"), Some("- a\n- {\n  \"b\": 1\n}")));
    assert_eq!(said.calls[0].arguments, Some(json!({ "x": 1 })));
    assert_eq!(said.calls[1].arguments, Some(json!("{}")));
    assert_eq!((said.calls[3].arguments.clone(), said.done), (None, true));
    assert_eq!(one(r#"{"comment":null,"plan":"","done":false}"#), Said::default());
    for (bad, why) in [
        (r#"{"command":"ls"}"#, "`command` must be an object"),
        (r#"{"call_tool":[{"args":{}}]}"#, "`call_tool` does not name a tool"),
        (r#"{"done":7}"#, "`done` must be true or false"),
        (r#"{"action":"x"}"#, "no JSON object with one of the known fields"),
        (r#"{"done":tru"#, "not valid JSON"),
        ("All done.", "no JSON object"),
        ("[]", "no JSON object"),
        ("", "no JSON object"),
    ] {
        let said = parse(bad).unwrap_err();
        assert!(said.contains(why), "{bad}: {said}");
    }
}

#[test]
fn c16_nothing_inside_thinking_is_run() {
    let read = r#"{"command":{"tool":"s/read"}}"#;
    let draft = r#"{"command":{"tool":"s/delete"}}"#;
    for text in [
        format!("<think>maybe {draft} – no, too risky</think>\n{read}"),
        format!("<THINK lang=\"en\">{draft}</THINK>{read}"),
        format!("maybe {draft}\n</think>\n{read}"),
        format!("Well. <think>{draft}</think> So: {read}"),
        format!("{read}\n<think>and then {draft}"),
    ] {
        assert_eq!(names(&one(&text)), ["s/read"], "{text}");
    }
    assert!(parse(&format!("<think>{draft}")).is_err(), "thinking that never ended");
    let said = one(r#"{"comment":"a <think>b</think> c"}"#);
    assert_eq!(said.comment.as_deref(), Some("a <think>b</think> c"), "a tag inside a string");
    let said = one("Here: {\"comment\":\"a <think>b</think> c\"}");
    assert_eq!(said.comment.as_deref(), Some("a <think>b</think> c"));
}

#[test]
fn c18_the_one_fitting_object_is_taken() {
    let read = r#"{"command":{"tool":"s/read"}}"#;
    for text in [
        format!("Set {{{{ user.name }}}} first. {read}"),
        format!("{read}\nReplace {{foo}} with {{bar}}."),
        format!("```json\n{read}\n```"),
        format!("{{\"note\":\"no field of ours\"}} {read}"),
        format!("a stray {{ and a \" before {read} and }} behind"),
        format!("{read} I say it again: {read}"),
    ] {
        assert_eq!(names(&one(&text)), ["s/read"], "{text}");
    }
    let fence = "```sh\nls\n```";
    let said = one(&format!("```json\n{}\n```", json!({ "comment": fence })));
    assert_eq!(said.comment.as_deref(), Some(fence), "a fence inside a string");
    let said = one(&format!("I write {}", json!({ "comment": "{\"done\": true} and } and \\\" {" })));
    assert!(!said.done, "what stands in a string is a string");
    let two = format!("{read} or perhaps {{\"command\":{{\"tool\":\"s/delete\"}}}}");
    assert!(parse(&two).unwrap_err().contains("2 different JSON objects"));
}

#[test]
fn c21_odd_characters_in_an_answer() {
    assert_eq!(one("\u{feff}{\"comment\":\"a\nb\"}").comment.as_deref(), Some("a\nb"));
    assert_eq!(one(r#"{"comment":"hi \ud83c end"}"#).comment.as_deref(), Some("hi \u{fffd} end"));
    assert_eq!(one(r#"So: {"comment":"\ud83c\udf78"}"#).comment.as_deref(), Some("🍸"));
}

#[test]
fn a_text_of_braces_is_given_up_and_never_a_panic() {
    assert_eq!(json_objects(&"{".repeat(200_000)), Vec::<Value>::new());
    assert_eq!(json_objects(&"é{🛡<think".repeat(300)), Vec::<Value>::new());
}

#[test]
fn a_whole_task() {
    let create = json!({ "command": "create", "path": "fixed.txt", "file_text": "fixed\n" });
    let fake = model(&[
        json!({ "comment": "I begin.", "plan": ["look", "write"] }),
        json!(format!(
            "<think>hm</think>I write.\n```json\n{}\n```",
            json!({ "plan": "write", "call_tool": [{ "tool": EDIT, "args": create }, { "tool": RUN, "args": { "command": "cat fixed.txt" } }] })
        )),
        json!({ "command": { "tool": "other/tool", "args": {} }, "comment": "once more @alice" }),
        json!({ "done": true, "comment": "I fixed it." }),
    ]);
    let world = world(&fake);
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.file_on("coding-agent/issue-fix", "fixed.txt"), "fixed");
    check_strictly(&world.history());
    let chats = fake.chats();
    for chat in &chats {
        assert_eq!(chat.get("tools"), None);
        let roles: Vec<&str> =
            chat["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert!(roles.windows(2).all(|pair| pair[0] != pair[1]) && !roles.contains(&"tool"), "{roles:?}");
    }
    let orders = chats[0]["messages"][0]["content"].as_str().unwrap();
    assert!(orders.contains(&format!("- `{EDIT}`: ")) && orders.contains("- `finish`: "), "{orders}");
    assert!(orders.contains(&format!("through the tool `{RUN}`")), "{orders}");
    let text = |index: usize| chats[3]["messages"][index]["content"].as_str().unwrap().to_owned();
    assert!(text(3).starts_with("{\"plan\":\"- look\\n- write\"}\n\nYou called no tool."), "{}", text(3));
    let call: Value = serde_json::from_str(&text(4)).unwrap();
    assert_eq!(call["call_tool"][1], json!({ "tool": RUN, "args": { "command": "cat fixed.txt" } }));
    let results: Vec<Value> = text(5).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results[0], json!({ "plan": "write" }), "the plan comes back");
    assert_eq!((&results[1]["tool"], &results[2]["tool"]), (&json!(EDIT), &json!(RUN)));
    assert!(results[2]["result"].as_str().unwrap().contains("fixed"), "{}", results[2]);
    assert!(text(7).contains("There is no tool `othertool`"), "{}", text(7));
    let comments = world.comments("fix");
    let places =
        ["> I begin.", "My plan:", "> - look", ":say-3 -->", "> write", ":say-5 -->", ":say-8 -->", "> I fixed it."];
    let found: Vec<Option<usize>> = places.iter().map(|part| comments.find(part)).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?}: {comments}");
    assert!(!comments.contains("@alice"), "nobody is called: {comments}");
    assert_eq!(comments.matches("I fixed it.").count(), 1, "{comments}");
    let kept = &world.history().0[4]["reasoning"]["text"];
    assert!(kept.as_str().unwrap().contains("hm"), "thinking is kept: {kept}");
}

#[test]
fn done_together_with_calls_runs_them_and_goes_on() {
    let fake = model(&[
        json!({ "done": true, "comment": "Done.", "command": { "tool": RUN, "args": { "command": "echo ran > ran.txt" } } }),
        json!({ "done": true }),
    ]);
    let world = world(&fake);
    world.run(&[]).expect(0);
    assert_eq!(world.file_on("coding-agent/issue-fix", "ran.txt"), "ran");
    let results = fake.chats()[1]["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(results.contains("other tools were called in the same answer"), "{results}");
    assert!(world.comments("fix").contains("> The model said that the task is done, and nothing more."));
}

#[test]
fn an_answer_that_says_nothing_is_told_to_go_on() {
    let fake = model(&[json!({ "comment": null, "done": false }), json!({ "done": true })]);
    let world = world(&fake);
    world.run(&[]).expect(0);
    let told = fake.chats()[1]["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(told.starts_with("You called no tool."), "{told}");
}

#[test]
fn blocked_is_told_by_the_tool() {
    let call = json!({ "name": "finish", "arguments": { "status": "blocked", "summary": "No key." } });
    let fake = model(&[json!({ "function_call": call })]);
    let world = world(&fake);
    world.run(&[]).expect(1);
    assert!(world.comments("fix").contains("> No key."));
}

#[test]
fn five_unreadable_answers_in_a_row_end_the_task() {
    let bad = || json!("I think so.");
    let good = json!({ "command": { "tool": RUN, "args": { "command": "true" } } });
    let fake = model(&[bad(), bad(), bad(), bad(), good, bad(), bad(), bad(), bad(), json!({ "done": true })]);
    let first = world(&fake);
    first.run(&[]).expect(0);
    assert_eq!(first.labels("fix"), DONE, "a good one begins the count anew");
    let told = fake.chats()[1]["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(told.contains("nothing was run: it holds no JSON object"), "{told}");
    let fake = model(&vec![bad(); 5]);
    let second = world(&fake);
    second.run(&[]).expect(1);
    assert_eq!(second.labels("fix"), FAILED);
    assert!(second.comments("fix").contains("held no usable JSON 5 times in a row"), "{}", second.comments("fix"));
    let fake = model(&vec![json!({ "plan": "think" }); 5]);
    let third = world(&fake);
    third.run(&[]).expect(1);
    assert!(third.comments("fix").contains("called no tool in 5 answers in a row"), "{}", third.comments("fix"));
}

#[test]
fn an_answer_cut_at_the_limit_is_no_answer() {
    let cut = reply(&json!({ "content": "{\"command\": {\"tool\": \"a", "finish_reason": "length" }));
    let fake = FakeModel::new([cut, reply(&says("{\"done\": true}"))]);
    world(&fake).run(&[]).expect(0);
    let told = fake.chats()[1]["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(told.contains("cut off at the output limit"), "{told}");
}

#[test]
fn secrets_are_masked_however_json_writes_them() {
    const SECRET: &str = "hunter2\\hunter2";
    let fake = model(&[json!({ "comment": format!("The key is {SECRET}."), "plan": SECRET }), json!({ "done": true })]);
    let mut world = world(&fake);
    world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", SECRET);
    world.run(&[]).expect(0);
    let found = std::process::Command::new("grep").args(["-rl", "hunter2"]).arg(world.path(".")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn the_setting_may_change_within_a_task() {
    let call = json!({ "command": { "tool": RUN, "args": { "command": "true" } } });
    let busy = crate::support::Answer::json(429, &json!({ "error": { "message": "x" } })).header("Retry-After", "3600");
    let fake = FakeModel::new([reply(&says(&call.to_string())), busy]);
    let mut world = world(&fake);
    world.run(&[]).expect(75);
    world.set_env("FUNCTION_CALLING", "true");
    fake.then(Cassette::new().finishes("Done.").lines().iter().map(reply));
    world.pass_time();
    world.run(&[]).expect(0);
    assert_eq!(fake.chats()[2]["messages"][3]["role"], "tool");
}

#[test]
fn a_tree_made_again_is_told_also_after_two_answers_without_a_call() {
    let talk = Cassette::new().then(says("I look.")).then(says("I look on."));
    let mut world = World::with_task(&talk.clone().fails("later", "away"));
    world.set_env("FUNCTION_CALLING", "false");
    world.run(&[]).expect(75);
    let uuid = world.names("workspaces").remove(0);
    std::fs::remove_dir_all(world.path(format!("workspaces/{uuid}/tree/.git/objects"))).unwrap();
    world.pass_time();
    world.replies(&talk.then(says(r#"{"done": true, "comment": "Nothing to do."}"#)));
    world.run(&[]).expect(0);
    let told = |line: &Value| line["role"] == "user" && line["content"].as_str().unwrap().contains("cloned again");
    assert!(world.history().0.iter().any(told), "{:?}", world.history().0);
    assert_eq!(world.labels("fix"), DONE);
}

//! The provider `openai` end to end against a strict server: a whole task, the ways models send
//! calls (cases C01–C05), slow servers (C10), full windows (C13), broken characters (C21).

use serde_json::{Value, json};

use crate::support::{Answer, Cassette, FakeModel, KEY, MODEL, World, calls, check_strictly, finish, objection, reply};

const DONE: &[&str] = &["coding agent done"];
const BRANCH: &str = "coding-agent/issue-fix";
const EXECUTE: &str = "command-executor_execute_command";
const EDIT: &str = "text-editor_text_editor";

/// A reply with these raw calls.
fn raw_calls(calls: Value) -> Answer {
    reply(&json!({ "content": null, "tool_calls": calls }))
}

/// A call whose arguments are sent as they are.
fn raw_call(name: &str, arguments: Value) -> Value {
    json!({ "id": "x", "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn finishes() -> Answer {
    reply(&finish("done", "Done."))
}

/// Runs a task with these replies, then `finish`; the results of its tools.
#[track_caller]
fn results(answers: Vec<Answer>) -> Vec<String> {
    let fake = FakeModel::new(answers.into_iter().chain([finishes()]));
    let world = fake.world();
    world.run(&[]).expect(0);
    world.assert_settled();
    check_strictly(&world.history());
    world.history().results().iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_whole_task_over_http() {
    let fake = FakeModel::playing(
        &Cassette::new().creates("fixed.txt", "fixed\n").runs("cat fixed.txt; env").finishes("I fixed it."),
    );
    let world = fake.world();
    let ended = world.run(&[]).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""), "silent on success");
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.file_on(BRANCH, "fixed.txt"), "fixed");
    let comment = world.comments("fix");
    assert!(
        comment.contains("> I fixed it.") && comment.contains("`cat fixed.txt; env` ended with exit code 0"),
        "{comment}"
    );
    check_strictly(&world.history());
    let column = |sql: &str| world.query(&format!("SELECT {sql} FROM llm_calls ORDER BY rowid"));
    assert_eq!(column("prompt_tokens"), ["100"; 3]);
    assert_eq!(column("completion_tokens"), ["10"; 3]);
    assert_eq!(column("estimated"), ["0"; 3]);
    assert_eq!(
        column("provider || ' ' || model"),
        [format!("openai {MODEL}"), format!("openai {MODEL}"), format!("openai {MODEL}")]
    );
    assert_eq!(fake.requests()[0], "GET /v1/models", "probed once, before anything else");
    assert_eq!(fake.requests()[1..], ["POST /v1/chat/completions"; 3]);
    let chats = fake.chats();
    let roles = |chat: &Value| {
        chat["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(roles(&chats[2]), ["system", "user", "assistant", "tool", "assistant", "tool"]);
    assert_eq!(chats[2]["messages"][2]["content"], "", "not null");
    let names: Vec<&str> =
        chats[0]["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, [EDIT, EXECUTE, "finish"]);
    assert_eq!(chats[0].get("max_completion_tokens"), None);
    assert_no_key(&world);
}

/// The key is in no file and in no answer to people.
#[track_caller]
fn assert_no_key(world: &World) {
    let found = std::process::Command::new("grep").args(["-rl", KEY]).arg(world.path(".")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the key is on the disk");
}

#[test]
fn a_key_that_the_server_repeats_is_masked() {
    for (status, code) in [(400, 1), (401, 78), (503, 75)] {
        let fake =
            FakeModel::new(vec![
                Answer::json(status, &json!({ "error": { "message": format!("wrong key {KEY}") } }))
                    .at_once();
                3
            ]);
        let world = fake.world();
        let ended = world.run(&["--verbose"]).expect(code);
        assert!(!format!("{ended:?}").contains(KEY), "{ended:?}");
        assert!(ended.stderr.contains("wrong key [secret]"), "{ended:?}");
        assert_no_key(&world);
    }
}

#[test]
fn the_output_limit_is_sent_where_it_is_set() {
    let fake = FakeModel::new([finishes()]);
    fake.wants_no_key();
    let mut world = fake.world();
    fake.configure(&world, ", max_output_tokens: 300, timeout_seconds: 0");
    world.set_env("OPENAI_API_KEY", "");
    world.run(&[]).expect(0);
    assert_eq!(fake.chats()[0]["max_completion_tokens"], 300);
    assert_eq!(world.labels("fix"), DONE, "no key, and 0 seconds are no limit");
}

#[test]
fn c01_arguments_empty_absent_and_encoded_twice() {
    let view = json!({ "command": "view", "path": "README" });
    let twice = json!(json!(view.to_string()).to_string());
    let absent = json!({ "id": "y", "type": "function", "function": { "name": EXECUTE } });
    let range = json!({ "command": "view", "path": "add.sh", "view_range": "[1,1]" });
    let text = json!({ "command": "create", "path": "list", "file_text": "[1,2]" });
    let got = results(vec![
        raw_calls(json!([raw_call(EXECUTE, json!("")), absent])),
        raw_calls(json!([raw_call(EDIT, twice)])),
        raw_calls(json!([raw_call(EXECUTE, json!("{\"command\":\"true\"}")), raw_call(EXECUTE, Value::Null)])),
        raw_calls(json!([raw_call(EDIT, json!(range.to_string()))])),
        raw_calls(json!([raw_call(EDIT, json!(text.to_string()))])),
    ]);
    for empty in [&got[0], &got[1], &got[4]] {
        assert!(empty.contains("`command` is missing"), "taken for an empty object: {empty}");
    }
    assert!(got[2].contains("widgets"), "{}", got[2]);
    assert!(got[5].contains("echo $(($1 - $2))"), "a list inside text: {}", got[5]);
    assert!(!got[6].contains("wrong"), "text that looks like a list stays text: {}", got[6]);
}

#[test]
fn c02_broken_arguments_and_unknown_tools() {
    let long = format!("{{\"command\": {}", "x".repeat(200_000));
    let got = results(vec![
        raw_calls(json!([
            raw_call(EXECUTE, json!("{\"command\": touch ran.txt}")),
            raw_call(EXECUTE, json!("{\"command\":\"echo fine\"}")),
            raw_call("search files!", json!("{}")),
            raw_call(EDIT, json!("[1]")),
        ])),
        raw_calls(json!([raw_call(EXECUTE, json!(long))])),
    ]);
    assert!(got[0].contains("Nothing was run") && got[0].contains("not valid JSON"), "{}", got[0]);
    assert!(got[1].contains("fine"), "the good call beside it runs: {}", got[1]);
    assert!(got[2].contains(EDIT) && got[2].contains("finish"), "what is on offer: {}", got[2]);
    assert!(got[3].contains("a list, not an object"), "{}", got[3]);
    assert!(got[4].len() < 2000, "a short echo: {}", got[4].len());
}

#[test]
fn c03_no_id_an_empty_id_and_arguments_as_an_object() {
    let got = results(vec![raw_calls(json!([
        { "function": { "name": EXECUTE, "arguments": { "command": "echo object" } } },
        { "id": "", "type": "function" },
        { "id": 7, "function": { "name": EXECUTE, "arguments": "{\"command\":\"echo number\"}" } },
    ]))]);
    assert!(got[0].contains("object"), "{}", got[0]);
    assert!(got[1].contains("unnamed") || got[1].contains("tool"), "{}", got[1]);
    assert!(got[2].contains("number"), "{}", got[2]);
}

#[test]
fn c05_nothing_of_a_reply_cut_off_at_the_limit_is_run() {
    let cut = json!({ "content": null, "finish_reason": "length",
        "tool_calls": [raw_call(EXECUTE, json!("{\"command\":\"touch cut.txt\"}"))] });
    let silently = json!({ "content": null, "finish_reason": "tool_calls",
        "usage": { "prompt_tokens": 9, "completion_tokens": 300 },
        "tool_calls": [raw_call(EDIT, json!("{\"command\":\"create\",\"file_text\":\"abc"))] });
    let wrong = json!({ "content": null, "finish_reason": "tool_calls",
        "usage": { "prompt_tokens": 9, "completion_tokens": 189 },
        "tool_calls": [raw_call(EXECUTE, json!("{\"command\": listt}"))] });
    let fake = FakeModel::new([reply(&cut), reply(&silently), reply(&wrong), finishes()]);
    let world = fake.world();
    fake.configure(&world, ", max_output_tokens: 300");
    world.run(&[]).expect(0);
    let history = world.history();
    let got = history.results();
    assert!(got[0].contains("cut off") && got[1].contains("cut off"), "{got:?}");
    assert!(got[2].contains("not valid JSON") && !got[2].contains("cut off"), "{got:?}");
    assert_eq!(world.branches(), Vec::<String>::new(), "nothing was run");
    let fake = FakeModel::new([reply(&cut), reply(&cut), reply(&cut)]);
    let world = fake.world();
    world.run(&[]).expect(1);
    assert!(world.comments("fix").contains("cut off at its output limit 3 times in a row"));
}

#[test]
fn c10_a_server_that_never_answers_is_asked_once() {
    let stalls = || reply(&finish("done", "late")).stalls();
    for silent in [Answer::Hangs, stalls()] {
        let fake = FakeModel::new([silent]);
        let world = fake.world();
        fake.configure(&world, ", timeout_seconds: 1");
        let ended = world.run(&[]).expect(75);
        assert!(ended.stderr.contains("did not answer in time"), "{ended:?}");
        assert_eq!(fake.chats().len(), 1, "no silent second try");
        assert_eq!(world.names("spool/deferred").len(), 1);
        assert_eq!(world.comments("fix"), "");
        fake.then([finishes()]);
        world.pass_time();
        world.run(&[]).expect(0);
        assert_eq!(world.labels("fix"), DONE, "resumed at the next start");
    }
}

#[test]
fn c13_overflow_ends_the_task_with_its_own_reason_and_quota_does_not() {
    let overflows = [
        Answer::json(400, &json!({ "error": { "message": "too many", "code": "context_length_exceeded" } })),
        Answer::raw(400, "prompt is too long: 9500 tokens > 8000 maximum"),
        Answer::raw(413, "<html>Payload too large</html>"),
        Answer::json(400, &json!({ "error": "the request exceeds the available context size" })),
        Answer::json(500, &json!({ "error": { "code": 500, "type": "exceed_context_size_error", "message": "x" } })),
    ];
    for overflow in overflows {
        let fake = FakeModel::new([overflow]);
        let world = fake.world();
        world.run(&[]).expect(1);
        let comment = world.comments("fix");
        assert!(comment.contains("the conversation no longer fits the window of the model `fake-model`"), "{comment}");
        assert!(!comment.contains("<html>"), "{comment}");
        assert_eq!(fake.chats().len(), 1, "not sent again as it is");
    }
    let quota = json!({ "error": { "message": "You exceeded your current quota", "type": "insufficient_quota" } });
    let fake = FakeModel::new([Answer::json(429, &quota).at_once()]);
    let world = fake.world();
    let before = now_ms();
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("is used up"), "{ended:?}");
    assert!(due_ms(&world) >= before + 3_600_000, "an hour at least");
    assert_eq!(fake.chats().len(), 1, "no quick retry");
    // Nobody pays for a week: the task ends as after any other wait in vain.
    let parking = world.context("running").join("parking.json");
    assert!(std::fs::read_to_string(&parking).unwrap().contains("\"count\":0"), "a known end is no failure");
    std::fs::write(&parking, r#"{"since_ms":1000,"count":0}"#).unwrap();
    fake.then([Answer::json(429, &quota)]);
    world.pass_time();
    world.run(&[]).expect(1);
    assert!(world.comments("fix").contains("waited seven days in vain: the quota"), "{}", world.comments("fix"));
}

fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// When the one deferred entry is due.
fn due_ms(world: &World) -> u64 {
    world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap()
}

#[test]
fn a_long_retry_after_parks_until_then() {
    let date = "Fri, 01 Jan 2100 00:00:00 GMT";
    for (value, wait_ms) in [("120", 120_000), (date, 24 * 3_600_000)] {
        let fake = FakeModel::new([Answer::raw(429, "slow down").header("Retry-After", value)]);
        let world = fake.world();
        let before = now_ms();
        world.run(&[]).expect(75);
        let due = due_ms(&world);
        assert!((before + wait_ms..now_ms() + wait_ms + 1).contains(&due), "{value}: {}", due - before);
        assert_eq!(fake.chats().len(), 1);
    }
}

#[test]
fn short_trouble_is_waited_out_within_three_tries() {
    let passing = |status| Answer::raw(status, "busy").at_once();
    let fake = FakeModel::new([passing(503), passing(429), finishes()]);
    let world = fake.world();
    world.run(&[]).expect(0);
    assert_eq!(world.query("SELECT count(*) FROM llm_calls"), ["1"]);
    let fake = FakeModel::new([passing(408), passing(500), passing(529)]);
    let world = fake.world();
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("cannot answer now (529): busy"), "{ended:?}");
    assert_eq!(fake.chats().len(), 3);
    assert_eq!(world.names("spool/deferred").len(), 1);
}

#[test]
fn connections_that_break_are_tried_again() {
    let fake = FakeModel::new([Answer::Closes, reply(&finish("done", "x")).cut(), finishes().chunked()]);
    let world = fake.world();
    world.run(&[]).expect(0);
    assert_eq!(fake.chats().len(), 3);
    assert_eq!(world.labels("fix"), DONE);
}

#[test]
fn c08_a_request_refused_for_good_is_not_repeated() {
    for status in [400, 422] {
        let words = "w".repeat(500);
        let fake = FakeModel::new([Answer::json(status, &json!({ "error": { "message": words } }))]);
        let world = fake.world();
        world.run(&[]).expect(1);
        world.assert_settled();
        let comment = world.comments("fix");
        assert!(comment.contains(&format!("refuses the request ({status}): {}", "w".repeat(200))), "{comment}");
        assert!(!comment.contains(&"w".repeat(201)), "{comment}");
        assert_eq!(fake.chats().len(), 1);
    }
}

#[test]
fn c21_broken_characters_cost_no_reply() {
    let mut body = b"\xEF\xBB\xBF".to_vec();
    body.extend(br#"{"choices":[{"message":{"role":"assistant","content":"hi \ud83c end \ud83c\udf78 \udf78","tool_calls":[{"id":"a","function":{"name":"text-editor_text_editor","arguments":"{\"command\":\"create\",\"path\":\"a.txt\",\"file_text\":\"a\nb \\ud83c c\"}"}}]},"finish_reason":"tool_calls"}]}"#);
    let fake = FakeModel::new([Answer::raw(200, body), finishes()]);
    let world = fake.world();
    world.run(&[]).expect(0);
    let history = world.history();
    assert_eq!(history.0[2]["content"], "hi \u{FFFD} end \u{1F378} \u{FFFD}");
    assert_eq!(world.file_on(BRANCH, "a.txt"), "a\nb \u{FFFD} c", "raw line breaks in arguments are meant");
    assert_eq!(fake.chats()[1]["messages"][2]["content"], "hi \u{FFFD} end \u{1F378} \u{FFFD}");
}

#[test]
fn existing_scenarios_run_over_http_too() {
    let several = calls(&[(EXECUTE, json!({ "command": "exit 3" })), (EXECUTE, json!({ "command": "echo b" }))]);
    let world_of = |fake: &FakeModel| fake.world();
    let fake = FakeModel::playing(&Cassette::new().then(several).then(finish("blocked", "It cannot be done.")));
    let world = world_of(&fake);
    world.run(&[]).expect(1);
    assert!(world.comments("fix").contains("> It cannot be done."));
    let fake = FakeModel::playing(&Cassette::new().runs("true").runs("true").finishes("Resumed."));
    let world = world_of(&fake);
    world.run_to_crash(&[], "loop.tool_ran");
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(fake.chats().len(), 3, "no turn was paid twice");
}

#[test]
fn the_strict_server_objects() {
    let user = json!({ "role": "user", "content": "x" });
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } });
    let turn = |calls: Value| json!({ "role": "assistant", "content": "", "tool_calls": calls });
    let result = |id: &str| json!({ "role": "tool", "content": "r", "tool_call_id": id });
    let ask = |messages: Value| json!({ "model": MODEL, "messages": messages });
    assert_eq!(
        objection(&ask(json!([user, turn(json!([call("a", "{}"), call("b", "{}")])), result("a"), result("b")]))),
        None
    );
    let bad = [
        json!({ "model": MODEL, "messages": [user], "seq": 1 }),
        json!({ "model": MODEL, "messages": [user], "tools": [] }),
        ask(json!([])),
        ask(json!([{ "role": "user", "content": "x", "tool_name": "f" }])),
        ask(json!([user, { "role": "assistant", "content": null, "tool_calls": [call("a", "{}")] }, result("a")])),
        ask(json!([user, { "role": "assistant", "content": "" }, user])),
        ask(json!([user, turn(json!([call("a", "{}")])), result("b")])),
        ask(json!([user, turn(json!([call("a", "{}")])), result("a"), result("a")])),
        ask(json!([user, turn(json!([call("a", "{}")])), user])),
        ask(json!([user, turn(json!([call("a", "{}")]))])),
        ask(json!([user, turn(json!([call("a", "")])), result("a")])),
        ask(json!([user, turn(json!([call("a", "[]")])), result("a")])),
        ask(json!([user, turn(json!([call("", "{}")])), result("")])),
        ask(json!([user, turn(json!([call("a", "{}"), call("a", "{}")])), result("a"), result("a")])),
        ask(json!([user, { "role": "assistant", "content": "x" }])),
        ask(json!([user, { "role": "system", "content": "x" }, user])),
        ask(json!([{ "role": "assistant", "content": "x" }, user])),
        ask(json!([{ "role": "tool", "content": "x" }])),
    ];
    for body in bad {
        assert!(objection(&body).is_some(), "{body}");
    }
}

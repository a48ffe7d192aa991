//! Tool calls as models really send them (cases C01, C02, C03, C05), end to end: what runs, what
//! the model is told, what is stored, and how the task ends.

use coding_agent::chat::check_history;
use coding_agent::context::MessageStore;
use coding_agent::sys::file::Sync;
use serde_json::{Value, json};

use crate::support::{Cassette, History, World, call, calls, check_strictly, says};

const RUN: &str = "command-executor_execute_command";
const EDIT: &str = "text-editor_text_editor";

/// A reply with calls exactly as given.
fn sent(calls: &[Value]) -> Value {
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

fn function(name: &str, arguments: &Value) -> Value {
    json!({ "id": "x", "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn cut(mut reply: Value) -> Value {
    reply["finish_reason"] = "length".into();
    reply
}

/// Runs the cassette to the end and returns the stored history, judged twice.
#[track_caller]
fn history_of(cassette: &Cassette, code: i32) -> (World, History) {
    let world = World::with_task(cassette);
    world.run(&[]).expect(code);
    world.assert_settled();
    let history = world.history();
    check_strictly(&history);
    let store = MessageStore::open(&world.context("completed"), Sync::Later).unwrap();
    let until = store.current().iter().rposition(|message| message.role != coding_agent::chat::Role::Assistant);
    assert_eq!(check_history(&store.current()[..=until.unwrap()]), Ok(()));
    (world, history)
}

#[test]
fn c01_arguments_encoded_twice_run() {
    let twice = json!(json!(r#"{"command":"echo twice > ran.txt"}"#).to_string());
    let (world, history) = history_of(&Cassette::new().then(sent(&[function(RUN, &twice)])).finishes("x"), 0);
    assert_eq!(world.file_on("coding-agent/issue-fix", "ran.txt"), "twice");
    let stored = history.0[2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(stored, r#"{"command":"echo twice > ran.txt"}"#);
}

#[test]
fn c01_empty_arguments_of_a_tool_that_needs_some_are_explained() {
    for none in [json!(""), json!(null), json!("{}")] {
        let (_, history) = history_of(&Cassette::new().then(sent(&[function(RUN, &none)])).finishes("x"), 0);
        assert!(history.results()[0].contains("`command` is missing"), "{}", history.results()[0]);
        assert_eq!(history.0[2]["tool_calls"][0]["function"]["arguments"], "{}");
    }
}

#[test]
fn c02_each_bad_call_is_answered_and_valid_siblings_run() {
    let bad = sent(&[
        function(EDIT, &json!("{\"path\": a.txt}")),
        function("search_files", &json!("{}")),
        function(RUN, &json!(r#"{"command":"echo ran > ran.txt"}"#)),
        function("server/tool with spaces", &json!([1])),
    ]);
    let (world, history) = history_of(&Cassette::new().then(bad).finishes("x"), 0);
    assert_eq!(world.file_on("coding-agent/issue-fix", "ran.txt"), "ran");
    let results = history.results();
    assert_eq!(results.len(), 5, "four and that of finish");
    assert!(results[0].contains(EDIT) && results[0].contains("not valid JSON"), "{}", results[0]);
    assert!(results[1].contains("There is no tool `search_files`"), "{}", results[1]);
    assert!(results[1].contains(&format!("The tools are: {EDIT}, {RUN}, finish.")), "{}", results[1]);
    assert!(results[3].contains("There is no tool `servertoolwithspaces`"), "{}", results[3]);
    assert_eq!(world.query("SELECT total_tool_calls FROM tasks"), ["4"]);
}

#[test]
fn c02_a_broken_text_of_200_kilobytes_is_neither_stored_nor_echoed_whole() {
    let long = json!(format!("{{\"command\": \"{}", "x".repeat(200_000)));
    let (world, history) = history_of(&Cassette::new().then(sent(&[function(RUN, &long)])).finishes("x"), 0);
    assert!(history.results()[0].len() < 1500);
    let stored = std::fs::metadata(world.context("completed").join("messages.jsonl")).unwrap().len();
    assert!(stored < 20_000, "{stored} bytes");
    assert!(std::fs::metadata(world.path("logs/agent.log")).unwrap().len() < 20_000);
}

#[test]
fn c02_the_same_bad_call_three_times_in_a_row_ends_the_task() {
    for (name, reason) in [(EDIT, EDIT), ("search_files", "search_files"), ("", "unnamed"), ("finish", "finish")] {
        let bad = sent(&[function(name, &json!("{\"a\": b}"))]);
        let cassette = Cassette::new().then(bad.clone()).then(bad.clone()).then(bad).finishes("not reached");
        let (world, history) = history_of(&cassette, 1);
        assert_eq!(history.replies(), 3);
        assert!(world.comments("fix").contains(&format!("the tool `{reason}` failed 3 times in a row")), "{name}");
    }
}

#[test]
fn c02_three_bad_calls_in_one_reply_are_told_to_the_model_before_the_task_fails() {
    let bad = || {
        let view = |path: &str| (EDIT, json!({ "command": "view", "path": path }));
        calls(&[view("a"), view("b"), view("c"), view("d")])
    };
    history_of(&Cassette::new().then(bad()).then(bad()).finishes("found another way"), 0);
    let (world, history) = history_of(&Cassette::new().then(bad()).then(bad()).then(bad()).finishes("x"), 1);
    assert_eq!(history.replies(), 3);
    assert!(world.comments("fix").contains(&format!("the tool `{EDIT}` failed 3 times in a row")));
}

#[test]
fn c03_calls_without_ids_or_with_the_same_one_run() {
    let run = |command: &str| json!({ "name": RUN, "arguments": { "command": command } });
    let ollama = sent(&[
        json!({ "function": run("echo one >> ran.txt") }),
        json!({ "id": "", "type": "function" }),
        json!({ "id": "", "function": run("echo two >> ran.txt") }),
        json!({ "id": "x", "function": run("echo three >> ran.txt") }),
        json!({ "id": "x", "function": run("echo four >> ran.txt") }),
    ]);
    let (world, history) = history_of(&Cassette::new().then(ollama.clone()).then(ollama).finishes("x"), 0);
    let expected = "one\ntwo\nthree\nfour\none\ntwo\nthree\nfour";
    assert_eq!(world.file_on("coding-agent/issue-fix", "ran.txt"), expected);
    assert_eq!(history.results()[1].split('.').next(), Some("There is no tool `unnamed`"));
    for line in history.0.iter().filter(|line| line["role"] == "tool") {
        let id = line["tool_call_id"].as_str().unwrap();
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    }
}

#[test]
fn c05_nothing_of_a_cut_reply_runs() {
    let both = calls(&[(RUN, json!({ "command": "touch ran.txt" })), (RUN, json!({ "command": "touch ran.txt" }))]);
    let (world, history) = history_of(&Cassette::new().then(cut(both)).finishes("x"), 0);
    assert_eq!(world.branches(), Vec::<String>::new(), "nothing was changed");
    for result in &history.results()[..2] {
        assert!(result.contains("cut off at the output limit") && result.contains("smaller pieces"), "{result}");
    }
    assert_eq!(history.0[2]["tool_calls"][1]["function"]["arguments"], "{}");
}

#[test]
fn c05_three_cuts_in_a_row_end_the_task() {
    let one = || cut(call(RUN, json!({ "command": "touch ran.txt" })));
    let cassette = Cassette::new().then(one()).then(one()).runs("true").then(one()).then(one()).then(one());
    let (world, history) = history_of(&cassette.finishes("not reached"), 1);
    assert_eq!(history.replies(), 6, "a whole answer resets the count");
    let comment = world.comments("fix");
    assert!(comment.contains("the model's answer was cut off at its output limit 3 times in a row"), "{comment}");
    assert_eq!(world.branches(), Vec::<String>::new());
}

#[test]
fn c05_a_cut_finish_does_not_end_the_task() {
    let end = call("finish", json!({ "status": "done", "summary": "I deleted" }));
    let (world, history) = history_of(&Cassette::new().then(cut(end)).runs("true").finishes("whole"), 0);
    assert_eq!(history.replies(), 3);
    assert!(world.comments("fix").contains("> whole"));
}

#[test]
fn c05_a_cut_text_does_not_count_as_done() {
    let half = || cut(says("I will now wri"));
    // Twice, then work goes on.
    let (world, history) = history_of(&Cassette::new().then(half()).then(half()).runs("true").finishes("whole"), 0);
    assert_eq!(history.replies(), 4);
    assert!(world.comments("fix").contains("> whole"));
    // Three times, with and without any text (a model that thinks until the limit).
    for text in ["I will now wri", ""] {
        let half = || cut(says(text));
        let (world, _) = history_of(&Cassette::new().then(half()).then(half()).then(half()).finishes("x"), 1);
        assert!(world.comments("fix").contains("cut off at its output limit 3 times in a row"));
    }
}

#[test]
fn two_empty_answers_are_a_failure_and_no_success() {
    let (world, history) = history_of(&Cassette::new().then(says("")).then(says(" \n")), 1);
    assert_eq!(history.replies(), 2);
    let comment = world.comments("fix");
    assert!(comment.contains("**Not done:** the model gave no answer, twice in a row."), "{comment}");
}

#[test]
fn finish_with_other_calls_runs_them_and_goes_on() {
    let end = json!({ "status": "done", "summary": "too early" });
    for order in [0, 1] {
        let mut both = vec![(RUN, json!({ "command": "echo ran > ran.txt" }))];
        both.insert(order, ("finish", end.clone()));
        let (world, history) = history_of(&Cassette::new().then(calls(&both)).finishes("in time"), 0);
        assert_eq!(world.file_on("coding-agent/issue-fix", "ran.txt"), "ran");
        assert!(history.results()[order].contains("alone"), "{}", history.results()[order]);
        assert!(world.comments("fix").contains("> in time") && !world.comments("fix").contains("too early"));
    }
    // Twice in one reply: neither counts.
    let (world, _) =
        history_of(&Cassette::new().then(calls(&[("finish", end.clone()), ("finish", end)])).finishes("z"), 0);
    assert!(world.comments("fix").contains("> z"));
}

#[test]
fn finish_with_bad_arguments_is_explained_and_goes_on() {
    let table = [
        (json!({ "status": "done" }), "`summary` is missing"),
        (json!({ "summary": "x" }), "`status` is missing"),
        (json!({ "status": "done", "summary": "  " }), "`summary` must say"),
        (json!({ "status": "perhaps", "summary": "x" }), "must be `done` or `blocked`, not `perhaps`"),
        (json!({ "status": 1, "summary": "x" }), "must be `done` or `blocked`"),
    ];
    for (arguments, told) in table {
        let (_, history) = history_of(&Cassette::new().then(call("finish", arguments)).finishes("right"), 0);
        assert!(history.results()[0].contains(told), "{}", history.results()[0]);
        assert_eq!(history.replies(), 2);
    }
}

/// All texts of a value, those inside JSON in a text too.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.push(text.clone());
            if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                texts(&inner, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(object) => object.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

#[test]
fn a_secret_is_masked_in_arguments_without_breaking_their_json() {
    // In JSON text the first looks as if it stood behind a backslash, and the second never stands as it is.
    for secret in ["n1234567-of-mine", "quo\"te\\and-more"] {
        let command = format!("cat > out.txt <<'end'\n1234567-of-mine {secret}\nend\ncat out.txt");
        let mut world = World::with_task(&Cassette::new().runs(&command).finishes("x"));
        world.set_env("OPENAI_API_KEY", secret);
        world.run(&[]).expect(0);
        check_strictly(&world.history());
        let context = world.context("completed");
        for file in ["messages.jsonl", "current.jsonl", "tools.jsonl"] {
            let mut found = Vec::new();
            for line in std::fs::read_to_string(context.join(file)).unwrap().lines() {
                texts(&serde_json::from_str(line).unwrap(), &mut found);
            }
            // The text of arguments is JSON: what is in it was looked at piece by piece.
            found.retain(|text| !text.starts_with("{\""));
            assert!(found.iter().any(|text| text.contains("1234567-of-mine [secret]")), "{file}: {found:?}");
            assert!(!found.iter().any(|text| text.contains(secret)), "{file}: {found:?}");
        }
        let log = world.read("logs/agent.log");
        assert!(!log.contains("te\\\\and-more") && !log.contains(" n1234567-of-mine"), "{log}");
    }
}

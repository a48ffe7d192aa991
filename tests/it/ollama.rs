//! The provider `ollama` end to end against a strict server: a whole task, calls as it sends them
//! (case C03), slow servers (C10), windows that are too small and fronts that were dropped (C15).

use coding_agent::chat::{Message, Role, ToolCall};
use coding_agent::error::Result;
use coding_agent::llm::{Ollama, OllamaSettings};
use coding_agent::ports::{Llm as _, ModelProfile, Reply, Request};
use coding_agent::sys::http::{HttpClient, HttpSettings};
use coding_agent::task::TaskId;
use serde_json::{Value, json};

use crate::support::{Answer, FakeOllama, OLLAMA_MODEL, World, check_strictly, ollama_answer, ollama_call};

const DONE: &[&str] = &["coding agent done"];
const EXECUTE: &str = "command-executor_execute_command";

fn runs(command: &str, prompt_tokens: u64) -> Answer {
    ollama_answer(ollama_call(EXECUTE, json!({ "command": command })), prompt_tokens.into())
}

fn finishes() -> Answer {
    ollama_answer(ollama_call("finish", json!({ "status": "done", "summary": "Done." })), 2000.into())
}

#[track_caller]
fn assert_unspent(world: &World) {
    let waiting = world.names("spool/queue");
    assert!(waiting.len() == 1 && waiting[0].contains(".a0."), "{:?}", world.entries());
}

#[test]
fn c03_a_whole_task_with_object_arguments_and_no_ids() {
    let think = json!({ "content": "", "thinking": "first a look", "tool_calls": [{ "function": { "name": EXECUTE, "arguments": { "command": "echo one" } } }] });
    let nameless = json!({ "content": " ", "tool_calls": [
        { "function": { "name": EXECUTE, "arguments": { "command": "echo two > two.txt" } } }, { "id": "", "type": "function" }] });
    let fake = FakeOllama::new([ollama_answer(think, 1500.into()), ollama_answer(nameless, json!(null)), finishes()]);
    let world = fake.world("");
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    check_strictly(&world.history());
    assert_eq!(world.file_on("coding-agent/issue-fix", "two.txt"), "two");
    let chats = fake.chats();
    assert_eq!(chats[0]["options"], json!({ "num_ctx": 32768 }));
    assert_eq!((&chats[0]["truncate"], &chats[0]["shift"]), (&json!(false), &json!(false)));
    let sent = &chats[2]["messages"];
    assert_eq!(sent[2]["thinking"], "first a look", "it thinks on from there");
    assert_eq!(sent[2]["tool_calls"][0]["function"]["arguments"], json!({ "command": "echo one" }));
    assert_eq!(sent[3]["tool_name"], EXECUTE);
    assert!(sent[6]["content"].as_str().unwrap().contains("There is no tool"), "{}", sent[6]);
    let column = |sql: &str| world.query(&format!("SELECT {sql} FROM llm_calls ORDER BY rowid"));
    assert_eq!(column("provider || ' ' || model")[0], format!("ollama {OLLAMA_MODEL}"));
    assert_eq!(column("estimated"), ["0", "1", "0"], "a count that is left out is estimated");
    assert_eq!(column("prompt_tokens")[0], "1500");
    assert!(!world.comments("fix").contains("first a look"));
}

#[test]
fn an_answer_cut_at_the_limit_runs_nothing() {
    let call = ollama_call(EXECUTE, json!({ "command": "touch cut" }));
    let cut = Answer::json(200, &json!({ "message": call, "done": true, "done_reason": "length" }));
    let fake = FakeOllama::new([cut, finishes()]);
    let world = fake.world("");
    world.run(&[]).expect(0);
    assert!(world.history().results()[0].starts_with("Not run: your answer was cut off"));
}

#[test]
fn what_is_wrong_with_the_model_is_found_before_the_first_claim() {
    let missing = Answer::json(404, &json!({ "error": format!("model '{OLLAMA_MODEL}' not found") }));
    let no_tools = Answer::json(200, &json!({ "capabilities": ["completion"], "model_info": {} }));
    let table = [
        (missing, "has no model `qwen:7b`; it has `other:latest`, `qwen:7b`", "run `ollama pull qwen:7b` there"),
        (no_tools.clone(), "cannot call tools", "set llm.function_calling to false"),
        (Answer::raw(404, "<html>"), "does not answer like Ollama", "look at llm.ollama.endpoint"),
    ];
    for (shown, sentence, hint) in table {
        let fake = FakeOllama::new([finishes()]);
        fake.set_shown(shown);
        let world = fake.world("");
        let ended = world.run(&[]).expect(78);
        assert!(ended.stderr.contains(sentence) && ended.stderr.contains(hint), "{ended:?}");
        assert_unspent(&world);
    }
    // Where calls are made in text, tools are not needed.
    let done = ollama_answer(json!({ "content": "{\"done\": true, \"comment\": \"Nothing to do.\"}" }), 900.into());
    let fake = FakeOllama::new([done]);
    fake.set_shown(no_tools);
    let mut world = fake.world("");
    world.set_env("FUNCTION_CALLING", "false");
    world.run(&[]).expect(0);
    assert_eq!(fake.chats()[0].get("tools"), None);
}

#[test]
fn an_unnamed_model_is_a_fault_of_the_host() {
    let fake = FakeOllama::new([]);
    let world = fake.world("");
    world.write("config.yaml", &world.read("config.yaml").replace(&format!(", model: '{OLLAMA_MODEL}'"), ""));
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("llm.ollama.model is not set") && ended.stderr.contains("OLLAMA_MODEL"), "{ended:?}");
}

#[test]
fn c15_a_smaller_window_of_the_model_is_used_and_told() {
    let fake = FakeOllama::new([finishes()]);
    let info = json!({ "general.architecture": "qwen2", "qwen2.context_length": 8192, "clip.context_length": 77 });
    fake.set_shown(Answer::json(200, &json!({ "model_info": info })));
    let world = fake.world("");
    let ended = world.run(&[]).expect(0);
    assert!(
        ended.stderr.contains("has a window of 8192 tokens, not 32768 as llm.ollama.context_length says"),
        "{ended:?}"
    );
    assert_eq!(fake.chats()[0]["options"]["num_ctx"], 8192);
}

/// A task that reads much, whose second answer is said to have cost so much: how often was asked?
fn asked_after(second: Answer) -> (Vec<Value>, World) {
    let fake = FakeOllama::new([runs("seq 1 9000 | head -c 16000; echo", 2000), second, finishes(), finishes()]);
    // The ratio of tokens to our estimate is far from one, as with many models and texts.
    let world = fake.world(", context_length: 8192");
    world.configure("context_storage: {compression: {token_threshold: 100000}}");
    let ended = world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE, "{ended:?}");
    (fake.chats(), world)
}

#[test]
fn c15_an_answer_to_a_part_of_the_request_is_not_trusted() {
    for second in [
        // The whole window, to the last token.
        runs("touch wrong", 8192),
        Answer::json(500, &json!({ "error": "no user query found in messages" })),
        Answer::json(400, &json!({ "error": "the input length exceeds the context length" })),
    ] {
        let (chats, world) = asked_after(second);
        assert_eq!(chats.len(), 3, "asked again, once");
        let length = |chat: &Value| chat["messages"].to_string().len();
        assert!(length(&chats[2]) < length(&chats[1]), "with less");
        assert_eq!(world.history().replies(), 2, "what came of the part does not count");
    }
}

/// Two requests, the second of which goes on from the first: what comes of it when the server
/// counts so many tokens in each?
fn second_reply(window_tokens: u64, counted: [u64; 2]) -> Result<Reply> {
    let says = |count: u64| ollama_answer(json!({ "content": "text" }), count.into());
    let fake = FakeOllama::new(counted.map(says));
    let profile = ModelProfile {
        provider: "ollama".into(),
        model: OLLAMA_MODEL.into(),
        context_tokens: window_tokens,
        max_output_tokens: None,
    };
    let settings = OllamaSettings { endpoint: fake.endpoint(), needs_tools: true, profile };
    let mut model = Ollama::new(settings, HttpClient::new(HttpSettings::default(), false).unwrap());
    let call = ToolCall { id: "c1".into(), name: "run".into(), arguments: "{}".into(), extra: None };
    let history = [
        Message::text(Role::System, "s".repeat(400)),
        Message::text(Role::User, "u".repeat(3600)),
        Message::assistant("", vec![call.clone()]),
        Message::tool_result(&call, "r".repeat(1200)),
    ];
    let mut ask = |messages: &[Message]| {
        model.complete(&Request { task: TaskId::from_u128(1), phase: "loop", turn: 0, messages, tools: &[] })
    };
    ask(&history[..2]).unwrap();
    ask(&history)
}

#[test]
fn c15_a_count_that_falls_while_the_conversation_grows() {
    assert!(second_reply(2048, [1500, 900]).unwrap_err().is_too_large());
    assert!(second_reply(2048, [1500, 2048]).unwrap_err().is_too_large(), "the window is full");
    assert!(second_reply(2048, [1500, 1950]).is_ok());
    assert!(second_reply(32_768, [1500, 300]).is_ok(), "it all fits: only what was not cached is counted");
}

#[test]
fn c10_a_server_that_never_answers_is_asked_once() {
    let fake = FakeOllama::new([Answer::Hangs]);
    let world = fake.world(", timeout_seconds: 1");
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("did not answer in time"), "{ended:?}");
    assert_eq!(fake.chats().len(), 1, "no second try while the first may still be at work");
    fake.then([finishes()]);
    world.pass_time();
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
}

#[test]
fn answers_without_a_reply_are_tried_again() {
    let loaded =
        Answer::json(200, &json!({ "message": { "role": "assistant", "content": "" }, "done_reason": "load" }));
    for odd in [
        loaded,
        Answer::raw(200, "{}"),
        Answer::json(200, &json!({ "error": "llama runner process has terminated" })),
        Answer::json(503, &json!({ "error": "server busy, please try again" })),
    ] {
        let fake = FakeOllama::new([odd.at_once(), finishes()]);
        let world = fake.world("");
        world.run(&[]).expect(0);
        assert_eq!(world.history().replies(), 1);
    }
}

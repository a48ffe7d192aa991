//! Settings of single users: that they hold for their own tasks, for no other, and that no fault of the
//! API keeps a task from being worked on.

use std::net::TcpListener;
use std::path::Path;

use coding_agent::config::Config;
use serde_json::{Value, json};

use crate::support::http_server::HttpServer;
use crate::support::user_config_api::{API_KEY, UserConfigApi};
use crate::support::{Answer, Cassette, Ended, FakeModel, KEY, MODEL, World, finish, reply};

const USER_KEY: &str = "sk-user-abcdefghijklmnop";

fn finishing() -> FakeModel {
    FakeModel::new([reply(&finish("done", "Done."))])
}

/// A user's own model, with a key of his own.
fn own_model() -> FakeModel {
    let own = finishing();
    own.wants_key(USER_KEY);
    own
}

fn own_llm(own: &FakeModel) -> Value {
    json!({ "openai": { "base_url": own.base_url(), "api_key": USER_KEY } })
}

fn orders(chat: &Value) -> String {
    assert_eq!(chat["messages"][0]["role"], "system");
    chat["messages"][0]["content"].as_str().unwrap().to_owned()
}

/// An issue of somebody else.
fn issue_of(world: &World, name: &str, author: &str) {
    world.issue(name, "coding agent");
    let text = world.read(format!("tasks/{name}.md"));
    let author = if author.is_empty() { String::new() } else { format!("author: {author}\n") };
    world.write(&format!("tasks/{name}.md"), &text.replace("author: alice\n", &author));
}

fn files_with(dir: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with(&path, needle));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).contains(needle) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn settings_of_a_user_hold_for_his_task() {
    let (base, own, api) = (finishing(), own_model(), UserConfigApi::start());
    api.set_settings("alice", &json!({ "llm": own_llm(&own), "system_prompt": " Write in rhyme. ", "theme": "dark" }));
    let mut world = base.world();
    api.switch_on(&mut world);
    let ended = world.run(&[]).expect(0);
    assert_eq!(ended.stderr, "");
    assert_eq!(api.asked(), ["/api/config/local/alice"]);
    assert_eq!(own.requests(), ["GET /v1/models", "POST /v1/chat/completions"]);
    assert_eq!(base.requests(), ["GET /v1/models"], "only the probe");
    let orders = orders(&own.chats()[0]);
    assert!(orders.starts_with("You are a coding agent."), "the standing orders stay: {orders}");
    assert!(orders.ends_with("\n\nWrite in rhyme."), "{orders}");
    let uses: Vec<String> = world.query("SELECT model FROM llm_calls");
    assert_eq!(uses, [MODEL]);
}

#[test]
fn a_limit_of_turns_is_the_users() {
    let api = UserConfigApi::start();
    api.set_settings("alice", &json!({ "llm": null, "max_llm_process_num": 1 }));
    let mut world = World::with_task(&Cassette::new().runs("true").finishes("Done."));
    api.switch_on(&mut world);
    world.run(&[]).expect(1);
    assert!(world.comments("fix").contains("the limit of 1 model calls"), "{}", world.comments("fix"));
}

#[test]
fn a_window_of_the_users_model_sets_the_limits() {
    let (base, own, api) = (finishing(), own_model(), UserConfigApi::start());
    let mut llm = own_llm(&own);
    llm["openai"]["context_length"] = 2000.into();
    // Longer than a quarter of that window, shorter than one of the base's.
    api.set_settings("alice", &json!({ "llm": llm, "system_prompt": "word ".repeat(600) }));
    let mut world = base.world();
    api.switch_on(&mut world);
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains("longer than a quarter of the model's window"), "{ended:?}");
    assert!(own.chats().is_empty() && base.chats().len() == 1);
}

#[test]
fn calls_in_text_where_the_user_says_so() {
    let api = UserConfigApi::start();
    api.set_settings("alice", &json!({ "llm": { "function_calling": false } }));
    let fake = FakeModel::new([reply(&json!({ "content": "{\"comment\": \"Looked.\", \"done\": true}" }))]);
    let mut world = fake.world();
    api.switch_on(&mut world);
    world.run(&[]).expect(0);
    assert!(fake.chats()[0].get("tools").is_none(), "{}", fake.chats()[0]);
}

/// Runs one task of alice with this answer of the API; it is worked on all the same.
#[track_caller]
fn worked_on_all_the_same(answer: Answer, warning: &str) -> Ended {
    let api = UserConfigApi::start();
    api.set("alice", answer);
    let base = finishing();
    let mut world = base.world();
    api.switch_on(&mut world);
    let ended = world.run(&[]).expect(0);
    let line = format!("local/issue/fix: worked on with the base settings: {warning}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains(&line), "{ended:?} does not say: {line}");
    let chats = base.chats();
    assert_eq!(chats.len(), 1);
    assert!(!orders(&chats[0]).contains("in every task"), "nothing of the answer is used");
    assert_eq!(world.labels("fix"), ["coding agent done"]);
    ended
}

fn success(data: &Value) -> Answer {
    Answer::json(200, &json!({ "status": "success", "data": data }))
}

#[test]
fn no_fault_of_the_api_keeps_a_task_from_being_worked_on() {
    let api = "the user config API";
    let long = format!("{{\"status\":\"success\",\"data\":{{\"system_prompt\":\"{}\"}}}}", "x".repeat(300_000));
    for (answer, warning) in [
        (Answer::json(404, &json!({})), "does not know the user `alice` (404)"),
        (Answer::raw(401, "denied"), "refuses the key in USER_CONFIG_API_KEY (401)"),
        (Answer::raw(500, "Traceback: secret-in-a-trace"), "answers with status 500"),
        (Answer::raw(204, ""), "answers with status 204"),
        (Answer::raw(200, "<html>"), "does not answer with JSON"),
        (Answer::raw(200, ""), "does not answer with JSON"),
        (Answer::raw(200, "[]"), "answers without a status"),
        (Answer::json(200, &json!({ "data": {} })), "answers without a status"),
        (Answer::json(200, &json!({ "status": "error", "data": {} })), "answers `error`"),
        (Answer::json(200, &json!({ "status": "success" })), "answers without data"),
        (success(&json!([])), "answers without data"),
    ] {
        worked_on_all_the_same(answer, &format!("{api} {warning}"));
    }
    for (answer, warning) in [
        (Answer::Closes, "cannot reach"),
        (Answer::raw(200, "{\"status\"").cut(), "broke off"),
        (Answer::raw(200, long), "is longer than"),
        (Answer::raw(302, "").header("Location", "/api/config/local/nobody"), "does not know the user `alice` (404)"),
        (Answer::raw(301, "").header("Location", "http://other.example/x"), "redirects to another host"),
    ] {
        let ended = worked_on_all_the_same(answer, api);
        assert!(ended.stderr.contains(warning), "{ended:?} does not say: {warning}");
        assert!(!ended.stderr.contains("hint:"), "{ended:?}");
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused_as_a_whole() {
    let says = |what: &str| format!("the user config API says: {what}");
    let wrong = |key: &str| says(&format!("`{key}` is of the wrong type, or none of the choices"));
    for (data, warning) in [
        (json!({ "llm": "openai" }), says("`llm` is no section with keys")),
        (json!({ "llm": { "openai": [] } }), says("`llm.openai` is no section with keys")),
        (json!({ "llm": { "openai": { "modle": "x" } } }), says("there is no key `llm.openai.modle`")),
        (json!({ "llm": { "openai": { "model": 5 } } }), wrong("llm.openai.model")),
        (json!({ "llm": { "openai": { "api_key": 12_345_678 } } }), wrong("llm.openai.api_key")),
        (json!({ "llm": { "provider": "skynet" } }), wrong("llm.provider")),
        (json!({ "llm": { "function_calling": "yes" } }), wrong("llm.function_calling")),
        (json!({ "max_llm_process_num": -1 }), wrong("max_llm_process_num")),
        (json!({ "max_llm_process_num": 0 }), says("config: `max_llm_process_num` is 0; allowed: 1 or more")),
        (
            json!({ "llm": { "openai": { "context_length": 7 } } }),
            says("config: `llm.openai.context_length` is 7; allowed: 1024 or more"),
        ),
        (
            json!({ "llm": { "openai": { "base_url": "http://me:pass-in-url@h" } } }),
            says("config: `llm.openai.base_url` is no usable address"),
        ),
        (json!({ "llm": { "provider": "replay" } }), says("`llm.replay` is not for users")),
        (json!({ "llm": { "replay": { "file": "/etc/passwd" } } }), says("`llm.replay` is not for users")),
        (json!({ "system_prompt": ["x"] }), "the user config API says a `system_prompt` that is no text".into()),
        (
            json!({ "llm": { "provider": "ollama" } }),
            "the user config API names a model that cannot be used: no model is chosen: llm.ollama.model".into(),
        ),
        (
            json!({ "llm": { "openai": { "model": "unknown-model" } } }),
            "the user config API names a model that cannot be used: `http".into(),
        ),
    ] {
        let ended = worked_on_all_the_same(success(&data), &warning);
        for secret in ["12345678", "pass-in-url"] {
            assert!(!ended.stderr.contains(secret), "{ended:?}");
        }
    }
}

#[test]
fn an_api_that_is_away_or_silent_is_not_waited_for_long() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = HttpServer::start(None, std::sync::Arc::new(|_| Answer::Hangs));
    for (address, why) in [(closed, "cannot reach"), (silent.address, "did not answer in time")] {
        let base = finishing();
        let mut world = base.world();
        world.configure(&format!("user_config_api: {{enabled: true, url: 'http://{address}'}}"));
        world.set_env("NO_PROXY", "127.0.0.1");
        let ended = world.run(&[]).expect(0);
        assert!(ended.stderr.contains("worked on with the base settings: the user config API: "), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
        assert_eq!(base.chats().len(), 1);
    }
}

#[test]
fn settings_of_one_task_never_reach_the_next() {
    let (own, api) = (own_model(), UserConfigApi::start());
    // As strict about its key as the user's own: each server refuses the other's.
    let base = FakeModel::new([reply(&finish("done", "Done.")), reply(&finish("done", "Done."))]);
    api.set_settings(
        "alice",
        &json!({ "llm": own_llm(&own), "system_prompt": "Write in rhyme.", "max_llm_process_num": 1 }),
    );
    api.set("carol", Answer::raw(500, ""));
    let mut world = base.world();
    issue_of(&world, "g-bob", "bob");
    issue_of(&world, "h-carol", "carol");
    api.switch_on(&mut world);
    let ended = world.run(&[]).expect(0);
    assert_eq!(api.asked().len(), 3);
    assert_eq!(ended.stderr.matches("worked on with the base settings").count(), 2, "{ended:?}");
    assert_eq!((own.chats().len(), base.chats().len()), (1, 2));
    for chat in base.chats() {
        assert!(!chat.to_string().contains("rhyme"), "{chat}");
    }
    for name in ["fix", "g-bob", "h-carol"] {
        assert_eq!(world.labels(name), ["coding agent done"]);
    }
}

#[test]
fn a_key_of_a_user_is_masked_everywhere() {
    let (base, api) = (finishing(), UserConfigApi::start());
    let says_it = Cassette::new().runs(&format!("echo {USER_KEY}")).finishes(&format!("The key is {USER_KEY}."));
    let own = FakeModel::playing(&says_it);
    own.wants_key(USER_KEY);
    api.set_settings("alice", &json!({ "llm": own_llm(&own), "system_prompt": format!("Log in with {USER_KEY}.") }));
    let mut world = base.world();
    world.configure("debug: true");
    api.switch_on(&mut world);
    let ended = world.run(&["--verbose"]).expect(0);
    assert!(world.comments("fix").contains("The key is [secret]."), "{}", world.comments("fix"));
    assert!(orders(&own.chats()[0]).contains("Log in with [secret]."));
    for needle in [USER_KEY, API_KEY, KEY] {
        assert!(!ended.stderr.contains(needle) && !ended.stdout.contains(needle), "{ended:?}");
        assert_eq!(files_with(&world.path("."), needle), Vec::<String>::new());
    }
}

#[test]
fn the_operators_key_goes_to_no_server_of_a_user() {
    let (base, own, api) = (finishing(), finishing(), UserConfigApi::start());
    own.wants_no_key();
    api.set_settings("alice", &json!({ "llm": { "openai": { "base_url": own.base_url() } } }));
    let mut world = base.world();
    api.switch_on(&mut world);
    world.run(&[]).expect(0);
    assert_eq!(own.chats().len(), 1);
}

#[test]
fn names_are_encoded_once_and_without_one_nobody_is_asked() {
    let api = UserConfigApi::start();
    api.set_settings("al%20ice%2F%C3%A4%2525", &json!({}));
    let base = FakeModel::new((0..3).map(|_| reply(&finish("done", "Done."))));
    let mut world = base.world();
    api.switch_on(&mut world);
    issue_of(&world, "fix", "al ice/ä%25");
    issue_of(&world, "g", "");
    issue_of(&world, "h", "..");
    let ended = world.run(&[]).expect(0);
    assert_eq!(api.asked(), ["/api/config/local/al%20ice%2F%C3%A4%2525"]);
    assert!(ended.stderr.contains("g: worked on with the base settings: nobody is known for whom it is"), "{ended:?}");
    assert!(ended.stderr.contains("h: worked on with the base settings: `..` cannot be asked for"), "{ended:?}");
}

#[test]
fn a_resumed_task_keeps_its_orders_and_gets_the_settings_of_today() {
    let (base, own, api) = (finishing(), own_model(), UserConfigApi::start());
    api.set_settings("alice", &json!({ "system_prompt": "Write in rhyme." }));
    base.then([reply(&finish("done", "Done."))]);
    base.set_models(Answer::raw(404, ""));
    let mut world = base.world();
    api.switch_on(&mut world);
    world.run_to_crash(&[], "loop.replied");
    api.set_settings("alice", &json!({ "llm": own_llm(&own), "system_prompt": "Write in prose." }));
    world.run(&[]).expect(0);
    assert_eq!((api.asked().len(), base.chats().len(), own.chats().len()), (2, 1, 1));
    let orders = orders(&own.chats()[0]);
    assert!(orders.contains("Write in rhyme.") && !orders.contains("prose"), "{orders}");
}

#[test]
fn switched_off_nobody_is_asked_and_on_it_needs_an_address() {
    let (base, api) = (finishing(), UserConfigApi::start());
    let mut world = base.world();
    api.switch_on(&mut world);
    world.set_env("USE_USER_CONFIG_API", "false");
    world.run(&[]).expect(0);
    assert_eq!(api.asked(), Vec::<String>::new());
    world.set_env("USE_USER_CONFIG_API", "true");
    world.set_env("USER_CONFIG_API_URL", "");
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("`user_config_api.url` is not set"), "{ended:?}");
}

#[test]
fn a_users_model_that_turns_out_unusable_gives_way_to_the_base() {
    let (base, own, api) =
        (finishing(), FakeModel::new([Answer::json(404, &json!({ "error": "no such page" }))]), UserConfigApi::start());
    own.wants_key(USER_KEY);
    api.set_settings("alice", &json!({ "llm": own_llm(&own) }));
    let mut world = base.world();
    api.switch_on(&mut world);
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains("of the user cannot be used, the base model goes on"), "{ended:?}");
    assert_eq!((own.chats().len(), base.chats().len()), (1, 1));
    assert_eq!(world.labels("fix"), ["coding agent done"]);
}

#[test]
fn a_users_quota_puts_off_his_tasks_and_no_others() {
    let limited = Answer::json(429, &json!({ "error": { "message": "slow down" } })).header("Retry-After", "3600");
    let (base, own, api) = (finishing(), FakeModel::new([limited]), UserConfigApi::start());
    own.wants_key(USER_KEY);
    api.set_settings("alice", &json!({ "llm": own_llm(&own) }));
    let mut world = base.world();
    issue_of(&world, "g-alice", "alice");
    issue_of(&world, "h-bob", "bob");
    api.switch_on(&mut world);
    world.run(&[]).expect(75);
    assert_eq!(own.chats().len(), 1, "the second task did not ask");
    assert_eq!(world.labels("h-bob"), ["coding agent done"]);
    assert_eq!(world.names("spool/deferred").len(), 2);
    let due = |name: &String| name.split('.').next().unwrap().parse::<u64>().unwrap() / 60_000;
    let hour = world.names("spool/deferred").iter().map(due).collect::<Vec<_>>();
    assert!(hour[0].abs_diff(hour[1]) <= 1, "both until the end that was named: {hour:?}");
}

#[test]
fn nobody_but_the_operator_lets_the_agent_wait_longer() {
    let base = Config::default();
    for (wanted, got) in [(0, 600), (601, 600), (u64::MAX / 2, 600), (30, 30)] {
        let settings = json!({ "llm": { "openai": { "model": "m", "timeout_seconds": wanted } } });
        let config = base.with_user_settings(settings.as_object().unwrap());
        match config {
            Ok(config) => assert_eq!(config.llm.openai.timeout_seconds, got, "{wanted}"),
            Err(error) => assert!(wanted > 604_800, "{wanted}: {error}"),
        }
    }
}

#[test]
fn a_word_for_a_key_is_not_masked() {
    let (base, api) = (finishing(), UserConfigApi::start());
    let own = FakeModel::playing(&Cassette::new().runs("echo lm-studio").finishes("I use lm-studio."));
    own.wants_key("lm-studio");
    let llm = json!({ "openai": { "base_url": own.base_url(), "api_key": "lm-studio" } });
    api.set_settings("alice", &json!({ "llm": llm }));
    let mut world = base.world();
    api.switch_on(&mut world);
    world.run(&[]).expect(0);
    assert!(world.comments("fix").contains("I use lm-studio."), "{}", world.comments("fix"));
}

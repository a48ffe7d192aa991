//! Whole tasks with MCP servers: what the model sees, what people are told, and what is left afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use coding_agent::tools::mcp::{Session, Stdio};
use serde_json::{Value, json};

use crate::support::shell::{assert_none_left, processes_of};
use crate::support::{Cassette, FakeMcp, FakeModel, World, call, eventually, reply};

/// A world whose task is done with these replies and these entries of `mcp_servers`.
fn world(cassette: &Cassette, entries: &[String]) -> World {
    let world = World::with_task(cassette);
    world.configure(&format!("mcp_servers:\n{}", entries.concat()));
    world
}

/// Mark of the one finished task.
fn uuid(world: &World) -> String {
    world.context("completed").file_name().unwrap().to_str().unwrap().to_owned()
}

#[track_caller]
fn assert_nothing_runs(world: &World) {
    assert_none_left(uuid(world));
}

/// Results of tools, in order.
fn results(world: &World) -> Vec<String> {
    world.history().results().into_iter().map(str::to_owned).collect()
}

fn works(arguments: Value) -> Cassette {
    Cassette::new().then(call("docs_work", arguments))
}

/// The text of the tools and standing orders of the first request.
fn system(world: &World) -> String {
    world.history().0[0]["content"].as_str().unwrap().to_owned()
}

const ONE_TOOL: &str =
    r#"[[{"name":"work","description":"Does it.","inputSchema":{"oneOf":[{"properties":{"a":{}}}]}}]]"#;

fn one_tool(calls: Value) -> FakeMcp {
    FakeMcp::new(&json!({ "pages": serde_json::from_str::<Value>(ONE_TOOL).unwrap(), "calls": { "work": calls } }))
}

#[test]
fn a_model_calls_a_tool_of_a_server() {
    let fake = one_tool(json!([{}]));
    let model = FakeModel::playing(&works(json!({ "a": 1 })).finishes("Done."));
    let world = model.world();
    world.configure(&format!("mcp_servers:\n{}", fake.entry("docs", "")));
    world.run(&[]).expect(0);
    let tools = model.chats()[0]["tools"].clone();
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "docs_work").unwrap();
    assert_eq!(tool["function"]["parameters"], json!({ "type": "object", "properties": { "a": {} } }));
    assert_eq!(results(&world)[0], "{\"a\":1}");
    assert_eq!(fake.received()[3]["params"], json!({ "name": "work", "arguments": { "a": 1 } }));
    assert!(!world.comments("fix").contains("MCP"), "{}", world.comments("fix"));
    assert_nothing_runs(&world);
    // Its noise is in the log: the harness of the tests says what it runs.
    let log = world.read("logs/agent.log");
    assert!(log.contains("MCP server `docs`, stdout: running 1 test"), "{log}");
    assert!(log.contains("MCP server `docs` is fake 1, protocol 2025-06-18"), "{log}");
}

#[test]
fn a_model_that_writes_its_calls_as_text_uses_the_slash() {
    let fake = one_tool(json!([{}]));
    let says = |object: Value| json!({ "role": "assistant", "content": object.to_string() });
    let cassette = Cassette::new()
        .then(says(json!({ "command": { "tool": "docs/work", "args": { "a": 2 } } })))
        .then(says(json!({ "done": true, "comment": "Done." })));
    let mut world = world(&cassette, &[fake.entry("docs", "")]);
    world.set_env("FUNCTION_CALLING", "false");
    world.run(&[]).expect(0);
    assert_eq!(fake.received()[3]["params"]["arguments"], json!({ "a": 2 }));
    assert_eq!(results(&world)[0], "{\"a\":2}");
    assert_nothing_runs(&world);
}

#[test]
fn what_a_server_offers_besides_is_no_news_for_the_operator() {
    let fake = || {
        FakeMcp::new(&json!({ "pages": [[
            { "name": "work" }, { "name": "slow", "execution": { "taskSupport": "required" } },
        ]] }))
    };
    let done = Cassette::new().finishes("Done.");
    for (only, stderr) in [("", ""), (", tools: [work]", ""), (", tools: [slow, work]", "offers `slow` only as a task")]
    {
        let fake = fake();
        let ended = world(&done, &[fake.entry("docs", only)]).run(&[]).expect(0);
        assert!(ended.stderr.contains(stderr) && ended.stderr.is_empty() == stderr.is_empty(), "{only}: {ended:?}");
    }
}

#[test]
fn the_servers_of_a_task_are_those_of_its_configuration() {
    let (one, two) =
        (one_tool(json!([{ "result": { "content": "one" } }])), one_tool(json!([{ "result": { "content": "two" } }])));
    let other_forge = one_tool(json!([{}]));
    let cassette =
        Cassette::new().then(call("docs_a_work", json!({}))).then(call("docs_a_work_2", json!({}))).finishes("Done.");
    // Two names that become one on the wire.
    let entries = [one.entry("docs.a", ""), two.entry("docs/a", ""), other_forge.entry("gitlab", "")];
    let world = world(&cassette, &entries);
    world.run(&[]).expect(0);
    assert_eq!(results(&world)[..2], ["one", "two"]);
    assert_eq!(other_forge.starts(), Vec::<String>::new(), "it is no server for this task source");
}

#[test]
fn c37_a_server_that_does_not_start_is_told_and_the_task_goes_on() {
    let entry = "  - {mcp_server_name: docs, command: [sh, -c, \"echo 'no `token` @bob' >&2; exit 1\"]}\n".to_owned();
    let world = world(&works(json!({})).creates("a", "a\n").finishes("Done."), &[entry]);
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains("MCP server `docs` did not start: it ended with exit code 1"), "{ended:?}");
    let orders = system(&world);
    let missing = "The MCP server `docs` is not available, so its tools are missing (it ended with exit code 1). Go on";
    assert!(orders.contains(missing), "{orders}");
    let result = results(&world).remove(0);
    assert!(result.contains("There is no tool `docs_work`. The server `docs` is not available: it ended"), "{result}");
    let comment = world.comments("fix");
    let fact = "- The MCP server `docs` was not available: `it ended with exit code 1`.";
    assert!(comment.contains(fact), "{comment}");
    // What it said last may hold anything: it is the operator's.
    let told = [&orders, &result, &comment];
    assert!(told.into_iter().all(|text| !text.contains("@bob")), "{told:?}");
    assert!(world.read("logs/agent.log").contains("it said: no `token` @bob"), "the log has it");
    assert_eq!(world.file_on("coding-agent/issue-fix", "a"), "a");
    assert_nothing_runs(&world);
}

#[test]
fn c37_a_required_server_that_does_not_start_fails_the_task() {
    let fake = FakeMcp::new(&json!({ "hello": { "protocolVersion": "1999-01-01" } }));
    let world = world(&works(json!({})).finishes("Done."), &[fake.entry("docs", ", required: true")]);
    world.run(&[]).expect(1);
    let outcome = world.outcome();
    assert_eq!(outcome["outcome"], "failed");
    let reason = outcome["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the MCP server `docs`, which is required here, is not available: it speaks"),
        "{reason}"
    );
    assert!(
        reason.ends_with("whoever runs the agent can mend it or set `required: false` in `mcp_servers`"),
        "{reason}"
    );
    let comment = world.comments("fix");
    assert!(comment.contains("**Not done:** the MCP server `docs`, which is required here"), "{comment}");
    assert_eq!(comment.matches("1999-01-01").count(), 1, "said once: {comment}");
    assert_eq!(world.query("select count(*) from llm_calls"), ["0"], "no model was asked");
    assert_nothing_runs(&world);
}

#[test]
fn c37_a_server_that_dies_twice_is_told_and_a_required_one_ends_the_task() {
    for (more, code, outcome) in [("", 0, "completed"), (", required: true", 1, "failed")] {
        let fake = one_tool(json!([{ "exits": 3 }]));
        let cassette =
            works(json!({})).then(call("docs_work", json!({}))).then(call("docs_work", json!({}))).finishes("Done.");
        // Three failures in a row would end the task for another reason.
        let cassette = if code == 0 {
            works(json!({})).runs("true").then(call("docs_work", json!({}))).finishes("Done.")
        } else {
            cassette
        };
        let world = world(&cassette, &[fake.entry("docs", more)]);
        world.run(&[]).expect(code);
        assert_eq!((world.outcome()["outcome"].as_str().unwrap(), fake.starts().len()), (outcome, 2));
        let comment = world.comments("fix");
        assert!(comment.contains("MCP server `docs`") && comment.contains("it ended with exit code 3"), "{comment}");
        assert_nothing_runs(&world);
    }
}

#[test]
fn the_operators_choice_of_tools_is_all_there_is() {
    let tools = json!([[{ "name": "work" }, { "name": "delete_everything" }]]);
    let fake = FakeMcp::new(&json!({ "pages": tools }));
    let cassette = works(json!({})).then(call("docs_delete_everything", json!({}))).finishes("Done.");
    let world = world(&cassette, &[fake.entry("docs", ", tools: [work, wrok]")]);
    let ended = world.run(&[]).expect(0);
    let results = results(&world);
    assert!(results[1].contains("There is no tool `docs_delete_everything`"), "{}", results[1]);
    let told = "MCP server `docs` does not offer `wrok`, named in its `tools`; it has";
    assert!(ended.stderr.contains(told) && ended.stderr.contains("`delete_everything`"), "{ended:?}");
    assert_eq!(fake.methods().iter().filter(|method| *method == "tools/call").count(), 1);
}

#[test]
fn tools_that_eat_the_window_are_a_warning_with_its_remedy() {
    let tool = |name: &str, length: usize| json!({ "name": name, "inputSchema": { "properties": { "a": { "description": "x".repeat(length) } } } });
    let large = FakeMcp::new(&json!({ "pages": [[tool("one", 40_000), tool("two", 10_000)]] }));
    let small = FakeMcp::new(&json!({ "pages": [[tool("work", 4_000)]] }));
    let world = world(&Cassette::new().finishes("Done."), &[small.entry("small", ""), large.entry("large", "")]);
    let ended = world.run(&[]).expect(0);
    assert_eq!(ended.stderr.matches("the tools of MCP servers take about").count(), 1, "{ended:?}");
    let line = ended.stderr.lines().find(|line| line.contains("take about")).unwrap();
    assert!(line.contains("% of the model's window (`large` 12") && line.contains(", `small` 1"), "{line}");
    assert!(line.contains("name the tools that are needed in `tools` of these `mcp_servers`"), "{line}");
}

#[test]
fn tools_that_leave_no_room_for_a_task_are_blamed() {
    let tool =
        json!({ "name": "one", "inputSchema": { "properties": { "a": { "description": "x".repeat(60_000) } } } });
    let fake = FakeMcp::new(&json!({ "pages": [[tool]] }));
    let world = world(&Cassette::new().finishes("Done."), &[fake.entry("docs", "")]);
    let config = world.read("config.yaml").replace("file: replies.jsonl", "file: replies.jsonl, context_length: 8192");
    world.write("config.yaml", &config);
    let ended = world.run(&[]).expect(78);
    let line = ended.stderr.lines().find(|line| line.contains("parked: the tools take about ")).expect(&ended.stderr);
    assert!(line.contains(" tokens of a window of 8192, and no task fits beside them"), "{line}");
    assert!(ended.stderr.contains("name the tools that are needed in `tools` of `mcp_servers`"), "{ended:?}");
    assert_eq!((world.comments("fix").as_str(), world.names("spool/deferred").len()), ("", 1));
}

#[test]
fn more_tools_than_a_model_server_takes_are_a_warning_and_endless_ones_are_cut() {
    let tools = |count: usize| (0..count).map(|number| json!({ "name": format!("t{number}") })).collect::<Vec<_>>();
    for (count, warnings) in [(100, 0), (130, 1)] {
        let fake = FakeMcp::new(&json!({ "pages": [tools(count)] }));
        let world = world(&Cassette::new().finishes("Done."), &[fake.entry("docs", "")]);
        let ended = world.run(&[]).expect(0);
        assert_eq!(ended.stderr.matches("many model servers refuse more than 128").count(), warnings, "{ended:?}");
    }
    let fake = FakeMcp::new(&json!({ "pages": [tools(700), tools(700)], "cursors": ["next"] }));
    let line = Stdio::start("fake", &fake.program()).unwrap();
    let in_time = || Instant::now() + Duration::from_secs(60);
    let mut session = Session::start("fake", Box::new(line), Path::new("/tree"), in_time()).unwrap();
    assert_eq!(session.tools(in_time()).unwrap().len(), 1000);
    let large = |number: usize| json!({ "name": format!("t{number}"), "description": "x".repeat(1 << 20) });
    let fake = FakeMcp::new(&json!({
        "pages": [(0..10).map(large).collect::<Vec<_>>(), (10..20).map(large).collect::<Vec<_>>()], "cursors": ["next"],
    }));
    let line = Stdio::start("fake", &fake.program()).unwrap();
    let mut session = Session::start("fake", Box::new(line), Path::new("/tree"), in_time()).unwrap();
    assert_eq!(session.tools(in_time()).unwrap().len(), 15);
}

#[test]
fn c44_a_server_gets_its_own_variables_and_tells_no_secret() {
    let fake =
        one_tool(json!([{ "environment": true, "stderr": "my token is s3cret-of-docs, bye\n" }, { "exits": 1 }]));
    let mut world = world(
        &works(json!({})).then(call("docs_work", json!({}))).finishes("The token is s3cret-of-docs."),
        &[fake.entry_with_env("docs", ", DOCS_TOKEN: s3cret-of-docs, PLAIN: shown, LATER_KEY: \"\", UNSET: \"\"", "")],
    );
    world.set_env("OPENAI_API_KEY", "sk-TEST-1-of-another");
    world.set_env("LATER_KEY", "from-the-environment");
    world.set_env("UNRELATED", "nobody's business");
    world.run(&[]).expect(0);
    let results = results(&world);
    let mut names: Vec<&str> =
        results[0].lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.retain(|name| !name.starts_with("RUST_"));
    let wanted = ["CODING_AGENT_TASK", "DOCS_TOKEN", "FAKE_MCP_DIR", "HOME", "LANG", "LATER_KEY", "PATH", "PLAIN"];
    assert_eq!(names, wanted, "{}", results[0]);
    assert!(results[0].contains("DOCS_TOKEN=[secret]\n") && results[0].contains("\nPLAIN=shown"), "{}", results[0]);
    assert!(results[0].contains("LATER_KEY=[secret]\n"), "{}", results[0]);
    let context = world.context("completed");
    for file in ["messages.jsonl", "current.jsonl", "tools.jsonl", "outcome.json", "final_summary.txt"] {
        let text = std::fs::read_to_string(context.join(file)).unwrap();
        assert!(!text.contains("s3cret") && !text.contains("from-the-environment"), "{file}: {text}");
    }
    for text in [world.read("logs/agent.log"), world.comments("fix")] {
        assert!(!text.contains("s3cret") && text.contains("[secret]"), "{text}");
    }
}

#[test]
fn a_secret_in_what_a_server_offers_is_masked() {
    let tools = json!([[{ "name": "work", "description": "For s3cret-of-docs.", "inputSchema": { "properties": { "a": { "default": "s3cret-of-docs" } } } }]]);
    let fake = FakeMcp::new(&json!({ "pages": tools }));
    let model = FakeModel::playing(&Cassette::new().finishes("Done."));
    let world = model.world();
    world.configure(&format!("mcp_servers:\n{}", fake.entry_with_env("docs", ", DOCS_TOKEN: s3cret-of-docs", "")));
    world.run(&[]).expect(0);
    let request = model.chats()[0].to_string();
    assert!(request.contains("For [secret].") && !request.contains("s3cret"), "{request}");
}

#[test]
fn a_server_finds_the_tree_and_does_not_run_in_it() {
    // What a model or a stranger put into the tree would be found first by `npx` or `python -m`.
    let script = r#"read -r l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}'
        read -r l; read -r l; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"work"}]}}'
        read -r l; printf '{"jsonrpc":"2.0","id":3,"result":{"content":"%s, %s, %s"}}\n' "$PWD" "$1" "$(cat "$1/add.sh" | wc -l)""#;
    let world = world(&works(json!({})).runs("pwd").finishes("Done."), &[]);
    world.write("server.sh", script);
    world.configure("  - {mcp_server_name: docs, command: [sh, ./server.sh, \"{tree}\"]}");
    world.run(&[]).expect(0);
    let results = results(&world);
    let tree = serde_json::from_str::<Value>(&results[1]).unwrap()["stdout"].as_str().unwrap().trim().to_owned();
    let here = world.path(".").canonicalize().unwrap();
    assert_eq!(results[0], format!("{}, {tree}, 1", here.display()));
}

#[test]
fn c40_a_large_result_is_cut_for_the_model_and_kept_whole() {
    let fake = one_tool(json!([{ "bytes": 5 << 20 }]));
    let world = world(&works(json!({})).finishes("Done."), &[fake.entry("docs", "")]);
    world.run(&[]).expect(0);
    let result = results(&world).remove(0);
    assert!(result.len() < 400_000 && result.contains("characters left out; the whole is in "), "{}", result.len());
    let outputs = world.context("completed").join("outputs");
    let files: Vec<_> = std::fs::read_dir(outputs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(std::fs::metadata(&files[0]).unwrap().len(), 5 << 20);
}

#[test]
fn c40_an_endless_line_takes_no_more_memory_than_it_may() {
    let fake = one_tool(json!([{ "never_ends_a_line": true }, {}]));
    let world = world(
        &works(json!({})).then(call("docs_work", json!({ "a": 1 }))).finishes("Done."),
        &[fake.entry("docs", "")],
    );
    // 100 MiB come, and there is no room for so much.
    let program = world.command(&[]);
    let mut limited = std::process::Command::new("/bin/sh");
    limited.args(["-c", "ulimit -d 90000; exec \"$0\""]).arg(program.get_program()).current_dir(world.path("."));
    limited.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let results = results(&world);
    assert!(results[0].contains("too large: more than 16 MiB"), "{}", results[0]);
    assert_eq!(results[1], "{\"a\":1}");
}

#[test]
fn every_ending_ends_the_servers() {
    let fake = one_tool(json!([{}]));
    let pausing = works(json!({})).runs("touch ../../../contexts/pause_signal").finishes("Done.");
    for (cassette, code, place) in [
        (works(json!({})).then(crate::support::finish("blocked", "No.")), 1, "completed"),
        (pausing, 0, "paused"),
        (works(json!({})).fails("later", "down"), 75, "running"),
        (works(json!({})).fails("host", "no such model"), 78, "running"),
    ] {
        let world = world(&cassette, &[fake.entry("docs", "")]);
        world.run(&[]).expect(code);
        let uuid = world.names(&format!("contexts/{place}")).remove(0);
        assert_none_left(uuid);
    }
}

#[test]
fn a_killed_agent_leaves_servers_that_the_next_run_ends() {
    let fake = one_tool(json!([{}]));
    // It ends only when what it leaves is out of its group.
    let script = "setsid sh -c 'echo > up; exec sleep 600' > /dev/null 2>&1 & until test -e up; do :; done; exit 1";
    let leaver = format!("  - {{mcp_server_name: leaver, command: [sh, -c, \"{script}\"]}}\n");
    let world = world(&works(json!({})).finishes("Done."), &[fake.entry("docs", ""), leaver]);
    world.run_to_crash(&[], "loop.tool_ran");
    let uuid = world.names("contexts/running").remove(0);
    // The server itself dies with its parent; what made a session of its own lives on.
    eventually(|| (processes_of(&uuid).len() == 1).then_some(()));
    world.run(&[]).expect(0);
    assert_nothing_runs(&world);
    assert!(results(&world)[0].starts_with("Interrupted"), "{}", results(&world)[0]);
}

#[test]
fn sigterm_during_a_start_parks_the_task_and_fails_nothing() {
    let entry = "  - {mcp_server_name: slow, command: [sh, -c, \"echo up > up; exec sleep 600\"], required: true, start_timeout_seconds: 600}\n";
    let world = world(&Cassette::new().finishes("Done."), &[entry.to_owned()]);
    let child = world.spawn(&[]);
    eventually(|| world.path("up").exists().then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    assert_eq!(world.names("spool/deferred").len(), 1);
    let uuid = world.names("contexts/running").remove(0);
    assert_none_left(uuid);
}

#[test]
fn no_server_is_started_where_a_task_has_only_to_be_finished() {
    let fake = one_tool(json!([{}]));
    let world = world(&works(json!({})).finishes("Done."), &[fake.entry("docs", "")]);
    world.run_to_crash(&[], "finish.decided");
    assert_eq!(fake.starts().len(), 1);
    world.run(&[]).expect(0);
    assert_eq!((fake.starts().len(), world.outcome()["outcome"].as_str().unwrap()), (1, "completed"));
}

#[test]
fn a_model_hears_of_a_reply_as_plain_as_it_was_sent() {
    let fake = one_tool(
        json!([{ "result": { "content": [{ "type": "image", "mimeType": "image/png", "data": "AAAA" }], "isError": true } }]),
    );
    let model = FakeModel::new([reply(&call("docs_work", json!({}))), reply(&crate::support::finish("done", "Done."))]);
    let world = model.world();
    world.configure(&format!("mcp_servers:\n{}", fake.entry("docs", "")));
    world.run(&[]).expect(0);
    let tools = std::fs::read_to_string(world.context("completed").join("tools.jsonl")).unwrap();
    let record: Value = serde_json::from_str(tools.lines().next().unwrap()).unwrap();
    assert!(record["error"].as_str().unwrap().contains("image/png, 3 bytes"), "{record}");
}

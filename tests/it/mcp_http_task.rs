//! MCP servers over HTTP as a task has them: sessions that are forgotten (case C41), and whole tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coding_agent::chat::Arguments;
use coding_agent::ports::{ToolResult, ToolServer as _};
use coding_agent::text::Redactor;
use coding_agent::tools::mcp::{Http, McpServer, ServerSettings};
use serde_json::Value;

use crate::support::strict_mcp::{Asked, StrictMcp, error, event, notification, result, stream};
use crate::support::{Answer, Authority, Cassette, World, call, eventually};

fn server(mcp: &StrictMcp) -> McpServer {
    let settings = ServerSettings {
        name: "docs".into(),
        start_timeout: Duration::from_secs(60),
        timeout: Duration::from_secs(60),
        is_required: false,
        tools: Vec::new(),
        tree: "/work tree".into(),
    };
    let url = mcp.url();
    let open = move || Http::connect(&url, &[], None).map(|line| Box::new(line) as _);
    McpServer::start(settings, Box::new(open), &Redactor::default())
}

fn look(server: &mut McpServer) -> ToolResult {
    server.call("look", &Arguments::new())
}

/// A server whose one tool answers on a stream, with something else before.
fn seeing() -> StrictMcp {
    StrictMcp::new(|asked| match asked {
        Asked::Call { id, .. } => stream(&format!("{}{}", event("", &notification()), event("", &result(id, "seen")))),
        asked => panic!("{asked:?}"),
    })
}

const BEGINNING: [&str; 3] = ["initialize none", "notifications/initialized s1", "tools/list s1"];

#[test]
fn c41_a_forgotten_session_is_begun_anew_and_the_call_repeated() {
    let mcp = seeing();
    let mut server = server(&mcp);
    assert_eq!(look(&mut server), ToolResult::good("seen"));
    mcp.forget_sessions();
    assert_eq!(look(&mut server), ToolResult::good("seen"));
    drop(server);
    let after = [
        "tools/call s1",
        "tools/call s1",
        "initialize none",
        "notifications/initialized s2",
        "tools/call s2",
        "DELETE s2",
    ];
    assert_eq!(mcp.journal(), [&BEGINNING[..], &after].concat());
}

#[test]
fn c41_a_session_that_is_forgotten_at_once_is_an_error_and_no_loop() {
    let mcp = StrictMcp::new(|_| Answer::json(404, &error(&Value::Null, "Session not found")));
    let mut server = server(&mcp);
    let answer = look(&mut server);
    assert_eq!(
        (answer.text.as_str(), answer.is_error),
        ("`look` has no result: it knows our session no longer.", true)
    );
    let after = ["tools/call s1", "initialize none", "notifications/initialized s2", "tools/call s2"];
    assert_eq!(mcp.journal(), [&BEGINNING[..], &after].concat());
}

#[test]
fn c41_a_session_refused_in_another_way_is_named_and_the_next_call_begins_one() {
    let mcp = seeing();
    let mut server = server(&mcp);
    mcp.forget_sessions();
    mcp.answer_forgotten(Answer::json(400, &error(&Value::Null, "Bad Request: unknown session")));
    let answer = look(&mut server);
    let how = "does not take the session `s1` (400). The call was not repeated";
    assert!(answer.is_error && answer.text.contains(how), "{answer:?}");
    assert!(answer.text.contains("started again for the next call"), "{answer:?}");
    assert_eq!(look(&mut server), ToolResult::good("seen"));
}

#[test]
fn a_call_whose_stream_broke_off_is_not_repeated_when_the_session_is_gone() {
    let mcp = StrictMcp::new(|asked| match asked {
        Asked::Call { .. } => stream(&format!("retry: 1\n{}", event("1", &notification()))),
        // As a server that was started again meanwhile.
        Asked::Resume(_) => Answer::json(404, &error(&Value::Null, "Session not found")),
        asked => panic!("{asked:?}"),
    });
    let mut server = server(&mcp);
    let answer = look(&mut server);
    assert!(answer.is_error && answer.text.contains("broke off, and the session is gone"), "{answer:?}");
    assert!(answer.text.contains("The call was not repeated: it may have taken effect"), "{answer:?}");
    drop(server);
    assert_eq!(mcp.journal(), [&BEGINNING[..], &["tools/call s1", "GET 1 s1"]].concat());
}

#[test]
fn a_call_is_not_repeated_when_the_answer_to_a_ping_finds_no_session() {
    let mcp = StrictMcp::new(|asked| match asked {
        Asked::Call { .. } => {
            stream(&event("1", &serde_json::json!({ "jsonrpc": "2.0", "id": "p-1", "method": "ping" })))
        }
        Asked::Reply(_) => Answer::json(404, &error(&Value::Null, "Session not found")),
        asked => panic!("{asked:?}"),
    });
    let mut server = server(&mcp);
    let answer = look(&mut server);
    assert!(answer.is_error && answer.text.contains("broke off, and the session is gone"), "{answer:?}");
    drop(server);
    assert_eq!(mcp.journal(), [&BEGINNING[..], &["tools/call s1", "reply s1"]].concat());
}

/// A world whose task makes one call of `docs_look`.
fn world(url: &str, more: &str) -> World {
    let cassette = Cassette::new().then(call("docs_look", serde_json::json!({}))).finishes("Done.");
    let world = World::with_task(&cassette);
    world.configure(&format!("mcp_servers:\n  - {{mcp_server_name: docs, url: '{url}'{more}}}\n"));
    world
}

#[test]
fn a_model_calls_a_tool_over_http_and_its_headers_stay_a_secret() {
    let mcp = seeing();
    mcp.wants_header("authorization", "Bearer sk-TEST-1");
    let world = world(&mcp.url(), ", headers: {Authorization: 'Bearer sk-TEST-1'}");
    world.configure("debug: true");
    world.run(&[]).expect(0);
    assert_eq!(world.history().results()[0], "seen");
    assert_eq!(mcp.journal(), [&BEGINNING[..], &["tools/call s1", "DELETE s1"]].concat());
    let log = world.read("logs/agent.log");
    assert!(log.contains("MCP server `docs` is strict 1, protocol 2025-06-18"), "{log}");
    assert!(!log.contains("sk-TEST-1"), "{log}");
}

#[test]
fn a_server_that_cannot_be_reached_is_told_and_the_task_goes_on() {
    // Nobody listens on port 1.
    let world = world("http://127.0.0.1:1/mcp", "");
    world.run(&[]).expect(0);
    let comment = world.comments("fix");
    assert!(comment.contains("cannot reach `http://127.0.0.1:1`"), "{comment}");
    let mcp = seeing();
    mcp.wants_header("authorization", "Bearer sk-TEST-1");
    let world = self::world(&mcp.url(), ", required: true");
    world.run(&[]).expect(1);
    let comment = world.comments("fix");
    let said =
        format!("`http://127.0.0.1:{}` wants other credentials (401); mcp_servers[].headers sends them", mcp.port());
    assert!(comment.contains(&said) && !comment.contains("invalid_token"), "{comment}");
    assert_eq!(world.labels("fix"), ["coding agent failed"]);
}

#[test]
fn a_short_outage_of_a_required_server_parks_the_task() {
    let mcp = seeing();
    let world = world(&mcp.url(), ", required: true");
    for (status, body) in [(503, "starting, ask @bob"), (500, ""), (429, "slow down")] {
        mcp.refuse_introductions(Answer::raw(status, body));
        world.run(&[]).expect(75);
        world.pass_time();
    }
    assert_eq!((world.comments("fix").as_str(), world.labels("fix")), ("", vec!["coding agent processing".into()]));
    let parking: Value =
        serde_json::from_str(&std::fs::read_to_string(running(&world, "parking.json")).unwrap()).unwrap();
    assert_eq!(parking["count"], 3);
    // Back again, and nothing says that it was away.
    mcp.accept_introductions();
    world.run(&[]).expect(0);
    let history = world.history();
    assert_eq!(history.results()[0], "seen");
    let orders = history.0[0]["content"].as_str().unwrap();
    assert!(!orders.contains("is not available"), "{orders}");
    assert!(!world.comments("fix").contains("docs"), "{}", world.comments("fix"));
}

#[test]
fn a_required_server_that_stays_away_for_a_week_fails_the_task() {
    let world = world("http://127.0.0.1:1/mcp", ", required: true");
    world.run(&[]).expect(75);
    let week_ago = r#"{"since_ms":1,"count":9}"#;
    std::fs::write(running(&world, "parking.json"), week_ago).unwrap();
    world.pass_time();
    world.run(&[]).expect(1);
    let comment = world.comments("fix");
    let said =
        "waited seven days in vain: the MCP server `docs`, which is required here, is not available: cannot reach";
    assert!(comment.contains(said), "{comment}");
}

#[test]
fn a_required_server_that_goes_away_in_a_task_parks_it() {
    let mcp = Arc::new(Mutex::new(None::<StrictMcp>));
    let shared = mcp.clone();
    let server = StrictMcp::new(move |asked| match asked {
        Asked::Call { .. } => {
            shared.lock().unwrap().as_ref().unwrap().refuse_introductions(Answer::raw(503, ""));
            Answer::raw(502, "")
        }
        asked => panic!("{asked:?}"),
    });
    let url = server.url();
    *mcp.lock().unwrap() = Some(server);
    let cassette = Cassette::new()
        .then(call("docs_look", serde_json::json!({})))
        .then(call("docs_look", serde_json::json!({})))
        .finishes("Done.");
    let world = World::with_task(&cassette);
    world.configure(&format!("mcp_servers:\n  - {{mcp_server_name: docs, url: '{url}', required: true}}\n"));
    world.run(&[]).expect(75);
    assert_eq!(world.names("spool/deferred").len(), 1);
    let records = std::fs::read_to_string(running(&world, "tools.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 2, "the second call met a server that could not be started again: {records}");
    mcp.lock().unwrap().take();
}

/// A file of the one running task.
fn running(world: &World, file: &str) -> std::path::PathBuf {
    let task = world.names("contexts/running").remove(0);
    world.path(&format!("contexts/running/{task}/{file}"))
}

#[test]
fn ca_file_is_for_mcp_servers_too() {
    let authority = Authority::new();
    let mcp = StrictMcp::with_tls(Some(authority.server()), |asked| match asked {
        Asked::Call { id, .. } => Answer::json(200, &result(id, "seen")),
        asked => panic!("{asked:?}"),
    });
    let world = world(&format!("https://localhost:{}/mcp", mcp.port()), "");
    world.write("ca.pem", &authority.pem);
    world.configure("ca_file: ca.pem");
    world.run(&[]).expect(0);
    assert_eq!(world.history().results()[0], "seen");
}

#[test]
fn sigterm_while_a_server_is_silent_parks_the_task() {
    let authority = Authority::new();
    for (tls, what) in [(false, "headers"), (false, "events"), (true, "headers"), (true, "events")] {
        let called = Arc::new(AtomicBool::new(false));
        let calls = called.clone();
        let mcp = StrictMcp::with_tls(tls.then(|| authority.server()), move |asked| {
            assert!(matches!(asked, Asked::Call { .. }), "{asked:?}");
            calls.store(true, Ordering::Relaxed);
            if what == "headers" {
                return Answer::Hangs;
            }
            let (sender, answer) = Answer::flows("text/event-stream");
            std::mem::forget(sender);
            answer
        });
        let scheme = if tls { "https" } else { "http" };
        let world = world(&format!("{scheme}://localhost:{}/mcp", mcp.port()), ", timeout_seconds: 600");
        world.write("ca.pem", &authority.pem);
        world.configure("ca_file: ca.pem");
        let child = world.spawn(&[]);
        eventually(|| called.load(Ordering::Relaxed).then_some(()));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(75), "{what}: {output:?}");
        assert_eq!(world.names("spool/deferred").len(), 1, "{what}");
    }
}

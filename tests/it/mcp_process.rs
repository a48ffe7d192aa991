//! MCP servers as processes: how they begin, block, die, and what is left of them. Any program can be
//! named as a server, so these are shell scripts.

use std::time::Duration;

use coding_agent::ports::ToolServer as _;
use coding_agent::sys::process::Program;
use coding_agent::tools::command_executor::TASK_MARK;
use coding_agent::tools::mcp::McpServer;

use crate::support::fake_mcp::start_program;
use crate::support::shell::{assert_none_left, processes_of};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);

/// Answers to the two requests of a start, as a script prints them.
const HELLO: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}'
read -r line; read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"work"}]}}'
"#;

/// A server that is a shell script, and the mark of its processes.
fn script(text: &str, start_timeout: Duration) -> (McpServer, uuid::Uuid) {
    let task = uuid::Uuid::new_v4();
    let program = Program {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), text.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap()), (TASK_MARK.into(), task.to_string().into())],
        dir: "/".into(),
        timeout: None,
        output_limit_bytes: 0,
        ends_with_us: true,
    };
    (start_program(program, start_timeout, LONG), task)
}

/// Why the server cannot be used, as the operator is told.
fn trouble(server: &McpServer) -> String {
    server.trouble().expect("it should not be usable").explained
}

#[test]
fn c37_a_server_that_exits_at_its_start_says_why() {
    let (server, task) = script("echo 'missing token' >&2; exit 1", LONG);
    assert_eq!(trouble(&server), "it ended with exit code 1; it said: missing token");
    assert_eq!(server.tools(), []);
    assert_none_left(task);
    // What it said on stdout, where it said nothing else.
    let (server, _) = script("echo 'usage: server DIR'; exit 2", LONG);
    assert_eq!(trouble(&server), "it ended with exit code 2; it said: usage: server DIR");
    let (server, _) = script("kill -9 $$", LONG);
    assert_eq!(trouble(&server), "it was killed by signal 9");
    let (server, _) = script("exec /nonexistent/server", LONG);
    assert!(trouble(&server).contains("exit code 127"), "{}", trouble(&server));
}

#[test]
fn c37_a_program_that_does_not_exist_is_named() {
    let program = Program {
        program: "no-such-server".into(),
        args: Vec::new(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        dir: "/".into(),
        timeout: None,
        output_limit_bytes: 0,
        ends_with_us: true,
    };
    let why = trouble(&start_program(program, LONG, LONG));
    assert!(why.contains("cannot start `no-such-server`"), "{why}");
}

#[test]
fn c37_a_server_that_never_answers_is_waited_for_as_long_as_allowed() {
    let (server, task) = script("exec sleep 600", SHORT);
    assert_eq!(trouble(&server), "it did not get ready within 1 s");
    assert_none_left(task);
}

#[test]
fn c37_nothing_of_a_server_is_left() {
    // A wrapper that leaves the real server behind when it is killed; neither ends by itself.
    let (server, task) = script(&format!("sleep 600 & {HELLO} wait"), LONG);
    assert_eq!((server.trouble(), server.tools().len()), (None, 1));
    assert!(processes_of(task).len() >= 2);
    drop(server);
    assert_none_left(task);
    // One that will hear of no signal but the last.
    let (server, task) = script(&format!("trap '' TERM; {HELLO}\nwhile :; do sleep 600; done"), LONG);
    assert_eq!(server.trouble(), None);
    drop(server);
    assert_none_left(task);
}

#[test]
fn c37_the_end_of_a_server_is_seen_though_a_child_of_it_holds_the_pipe() {
    let (server, task) = script("sleep 600 & echo gone >&2; exit 4", LONG);
    assert_eq!(trouble(&server), "it ended with exit code 4; it said: gone");
    assert_none_left(task);
    // And that it hears and says nothing any more, though it runs.
    let (server, task) = script("exec >&- 2>&-; sleep 600", LONG);
    assert_eq!(trouble(&server), "it closed its output");
    assert_none_left(task);
}

#[test]
fn an_end_by_itself_is_given_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("said goodbye");
    let (server, _) = script(&format!("{HELLO} while read -r line; do :; done; echo > '{}'", file.display()), LONG);
    assert_eq!(server.trouble(), None);
    drop(server);
    assert!(file.exists(), "with its stdin closed it could end in its own way");
    // And so is one that takes SIGTERM for that.
    let file = dir.path().join("was told");
    let script_text = format!("trap 'echo > \"{}\"; exit' TERM; {HELLO} while :; do sleep 1; done", file.display());
    let (server, _) = script(&script_text, LONG);
    assert_eq!(server.trouble(), None);
    drop(server);
    assert!(file.exists());
}

#[test]
fn a_server_that_writes_before_it_reads_does_not_block_us() {
    // More than a pipe holds on both streams before each read, and a request that no pipe holds.
    let noise = "head -c 300000 /dev/zero | tr '\\0' x | fold; echo; head -c 300000 /dev/zero | tr '\\0' y | fold >&2;";
    let text = format!(
        "{noise} {} {noise} read -r line; echo '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"content\":\"'${{#line}}'\"}}}}'; {noise}",
        HELLO.replacen("read -r line; read -r line;", &format!("{noise} read -r line; read -r line;"), 1)
    );
    let (mut server, _) = script(&text, LONG);
    assert_eq!(server.trouble(), None);
    let arguments = serde_json::json!({ "a": "z".repeat(400_000) });
    let result = server.call("work", arguments.as_object().unwrap());
    let length: usize =
        result.text.parse().unwrap_or_else(|_| panic!("{}", coding_agent::text::head(&result.text, 300)));
    assert!(length > 400_000);
}

#[test]
fn a_last_line_without_an_end_counts() {
    let hello = HELLO.trim_end().trim_end_matches(|c| c != ';').to_owned();
    let text = format!(
        "{hello} printf '%s' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"tools\":[{{\"name\":\"work\"}}]}}}}'"
    );
    let (server, _) = script(&text, LONG);
    assert_eq!(server.tools().len(), 1);
}

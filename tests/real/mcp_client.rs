//! A client for the checks beside it: connects to one MCP server as the program does for a task, lists its
//! tools, makes the calls it reads from stdin, and ends.
//!
//! `mcp_client <url>` or `mcp_client <program> [argument ...]`; a line of stdin is `<tool> <arguments as JSON>`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::io::BufRead as _;
use std::process::ExitCode;
use std::time::Duration;

use coding_agent::chat::Arguments;
use coding_agent::ports::ToolServer as _;
use coding_agent::sys::launcher::{EXEC_SUBCOMMAND, exec_in_own_session};
use coding_agent::sys::process::Program;
use coding_agent::text::Redactor;
use coding_agent::tools::mcp::{Http, McpServer, Open, ServerSettings, Stdio};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(first) = words.next() else {
        eprintln!("usage: mcp_client <url> | mcp_client <program> [argument ...]");
        return ExitCode::from(2);
    };
    let words: Vec<String> = words.collect();
    // Children are started by way of this program, as by way of ours.
    if first == EXEC_SUBCOMMAND {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        eprintln!("{:#}", exec_in_own_session(&words));
        return ExitCode::from(127);
    }
    let open: Open = if first.starts_with("http") {
        Box::new(move || Ok(Box::new(Http::connect(&first, &[], None)?)))
    } else {
        let variables = ["PATH", "HOME", "LANG", "TMPDIR"];
        let env = variables.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?))).collect();
        let program = Program {
            program: first.into(),
            args: words.into_iter().map(Into::into).collect(),
            env,
            dir: ".".into(),
            timeout: None,
            output_limit_bytes: 0,
            ends_with_us: true,
        };
        Box::new(move || Ok(Box::new(Stdio::start("real", &program)?)))
    };
    let settings = ServerSettings {
        name: "real".into(),
        start_timeout: Duration::from_secs(60),
        timeout: Duration::from_secs(60),
        is_required: true,
        tools: Vec::new(),
        tree: std::env::current_dir().unwrap_or_default(),
    };
    let mut server = McpServer::start(settings, open, &Redactor::new([]));
    if let Some(trouble) = server.trouble() {
        println!("not started: {}", trouble.why);
        return ExitCode::FAILURE;
    }
    let names: Vec<String> = server.tools().into_iter().map(|tool| tool.wire_name).collect();
    println!("{} tools: {}", names.len(), names.join(" "));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (tool, arguments) = line.split_once(' ').unwrap_or((&line, "{}"));
        let Ok(arguments) = serde_json::from_str::<Arguments>(arguments) else {
            eprintln!("these are no arguments: {arguments}");
            return ExitCode::from(2);
        };
        let result = server.call(tool, &arguments);
        println!("{tool}: {}: {}", if result.is_error { "error" } else { "good" }, result.text);
    }
    ExitCode::SUCCESS
}

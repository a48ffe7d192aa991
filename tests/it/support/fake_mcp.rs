//! A strict MCP server over stdio, played by this test binary itself: what breaks the protocol is written
//! down and fails the test when its handle is dropped. What it answers is a scenario in a file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coding_agent::sys::process::{Program, use_launcher};
use coding_agent::text::Redactor;
use coding_agent::tools::command_executor::TASK_MARK;
use coding_agent::tools::mcp::{McpServer, ServerSettings, Stdio};
use serde_json::{Value, json};

use super::BINARY;

/// Variable that names the directory with the scenario.
const DIR: &str = "FAKE_MCP_DIR";
/// What the harness of this binary needs to run nothing but the server.
const ARGUMENTS: [&str; 3] = ["--exact", "support::fake_mcp::serve", "--nocapture"];

/// A server that is not started yet, or was.
pub struct FakeMcp {
    dir: tempfile::TempDir,
    /// Mark of what belongs to it.
    pub task: uuid::Uuid,
}

impl FakeMcp {
    /// A server that plays `scenario`: `hello` (fields of its introduction), `hello_error`, `noise` (lines
    /// before it), `before_hello` (messages), `pages` of tools, `cursors` between them, and `calls`: for each
    /// tool what its calls give one after the other, the last one again and again.
    pub fn new(scenario: &Value) -> Self {
        use_launcher(BINARY);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("scenario.json"), scenario.to_string()).unwrap();
        Self { dir, task: uuid::Uuid::new_v4() }
    }

    /// One tool `work`, whose calls give these one after the other.
    pub fn with_calls(calls: Value) -> Self {
        Self::new(&json!({ "pages": [[{ "name": "work" }]], "calls": { "work": calls } }))
    }

    /// As a command line.
    pub fn command() -> Vec<String> {
        let binary = std::env::current_exe().unwrap().display().to_string();
        std::iter::once(binary).chain(ARGUMENTS.map(str::to_owned)).collect()
    }

    /// As an entry of `mcp_servers`, with more keys in YAML's flow style.
    pub fn entry(&self, name: &str, more: &str) -> String {
        self.entry_with_env(name, "", more)
    }

    pub fn entry_with_env(&self, name: &str, env: &str, more: &str) -> String {
        let command = Value::from(Self::command());
        let dir = self.dir.path().display();
        format!("  - {{mcp_server_name: {name}, command: {command}, env: {{{DIR}: \"{dir}\"{env}}}{more}}}\n")
    }

    pub fn program(&self) -> Program {
        let mut command = Self::command().into_iter().map(OsString::from);
        let task = self.task.to_string();
        let env = [(DIR, self.dir.path().as_os_str().to_owned()), (TASK_MARK, task.into())];
        Program {
            program: command.next().unwrap(),
            args: command.collect(),
            env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            dir: self.dir.path().to_path_buf(),
            timeout: None,
            output_limit_bytes: 0,
            ends_with_us: true,
        }
    }

    /// Started, with all its tools and far more time than it needs.
    pub fn start(&self) -> McpServer {
        self.start_with(Duration::from_secs(60), Duration::from_secs(60))
    }

    pub fn start_with(&self, start_timeout: Duration, timeout: Duration) -> McpServer {
        start_program(self.program(), start_timeout, timeout)
    }

    /// What the server got, in order.
    pub fn received(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("received.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The methods of what it got; an answer of ours is `-`.
    pub fn methods(&self) -> Vec<String> {
        self.received().iter().map(|message| message["method"].as_str().unwrap_or("-").to_owned()).collect()
    }

    /// Process ids of its starts.
    pub fn starts(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for FakeMcp {
    fn drop(&mut self) {
        let complaints = std::fs::read_to_string(self.dir.path().join("complaints")).unwrap_or_default();
        if !std::thread::panicking() {
            assert_eq!(complaints, "", "the MCP server objects");
        }
    }
}

/// A server that is any program.
pub fn start_program(program: Program, start_timeout: Duration, timeout: Duration) -> McpServer {
    use_launcher(BINARY);
    let settings = ServerSettings {
        name: "fake".into(),
        start_timeout,
        timeout,
        is_required: false,
        tools: Vec::new(),
        tree: PathBuf::from("/work tree"),
    };
    let open = move || Stdio::start("fake", &program).map(|line| Box::new(line) as _);
    McpServer::start(settings, Box::new(open), &Redactor::default())
}

/// The server itself: does nothing in an ordinary run of the tests.
#[test]
fn serve() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let mut server = Server::new(Path::new(&dir));
    // The harness has begun a line of its own.
    say("\n");
    server.run();
    std::process::exit(0);
}

fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // The client may be gone, which is its right.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

struct Server {
    dir: PathBuf,
    scenario: Value,
    lines: std::io::Lines<std::io::StdinLock<'static>>,
    ids: HashSet<String>,
    /// Requests of the client that have no answer.
    open: HashSet<String>,
    is_introduced: bool,
    is_ready: bool,
    calls: HashMap<String, usize>,
    /// Answers to calls that were kept back.
    late: Vec<Value>,
    next_page: usize,
}

impl Server {
    fn new(dir: &Path) -> Self {
        let server = Self {
            dir: dir.to_path_buf(),
            scenario: serde_json::from_slice(&std::fs::read(dir.join("scenario.json")).unwrap()).unwrap(),
            lines: std::io::stdin().lock().lines(),
            ids: HashSet::new(),
            open: HashSet::new(),
            is_introduced: false,
            is_ready: false,
            calls: HashMap::new(),
            late: Vec::new(),
            next_page: 0,
        };
        server.note("starts", &std::process::id().to_string());
        server
    }

    fn note(&self, file: &str, line: &str) {
        let file = std::fs::File::options().create(true).append(true).open(self.dir.join(file));
        file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn object_to(&self, what: &str, message: &Value) -> ! {
        self.note("complaints", &format!("{what}: {message}"));
        std::process::exit(99);
    }

    fn run(&mut self) {
        for line in self.scenario["noise"].as_array().cloned().unwrap_or_default() {
            say(&format!("{}\n", line.as_str().unwrap()));
        }
        while let Some(message) = self.next_message() {
            if message.get("method").is_some() {
                self.take(&message);
            }
        }
    }

    /// The next message, with everything the protocol asks of any message checked.
    fn next_message(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| self.object_to("no JSON", &line.clone().into()));
        self.note("received.jsonl", &message.to_string());
        if !message.is_object() || message["jsonrpc"] != "2.0" {
            self.object_to("no message of JSON-RPC 2.0", &message);
        }
        if message.get("params").is_some_and(|params| !params.is_object()) {
            self.object_to("`params` is no object", &message);
        }
        let is_request = message.get("method").is_some();
        if !is_request && message.get("result").is_some() == message.get("error").is_some() {
            self.object_to("neither a result nor an error, or both", &message);
        }
        match message.get("id") {
            Some(id) if id.is_null() || id.is_object() || id.is_array() => self.object_to("a bad id", &message),
            Some(id) if is_request && !self.ids.insert(id.to_string()) => self.object_to("an id twice", &message),
            None if !is_request => self.object_to("an answer to nothing", &message),
            _ => {}
        }
        Some(message)
    }

    fn take(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap();
        let id = message.get("id");
        if !self.is_introduced && method != "initialize" {
            self.object_to("the introduction comes first", message);
        }
        if self.is_introduced && !self.is_ready && method != "notifications/initialized" {
            self.object_to("`notifications/initialized` comes next", message);
        }
        if let Some(id) = id {
            if !self.open.is_empty() {
                self.object_to("a request while another one is open", message);
            }
            self.open.insert(id.to_string());
        }
        match (method, id) {
            ("initialize", Some(id)) => self.introduce(id, message),
            ("notifications/initialized", None) if !self.is_ready => self.is_ready = true,
            ("notifications/cancelled", None) => {
                if !self.open.remove(&message["params"]["requestId"].to_string()) {
                    self.object_to("nothing to cancel", message);
                }
            }
            ("tools/list", Some(id)) => self.list(id, message),
            ("tools/call", Some(id)) => self.call(id, message),
            _ => self.object_to("not a message for a server", message),
        }
    }

    fn introduce(&mut self, id: &Value, message: &Value) {
        let params = &message["params"];
        let is_whole = params["protocolVersion"].is_string()
            && params["capabilities"].is_object()
            && params["clientInfo"]["name"].is_string()
            && params["clientInfo"]["version"].is_string();
        if !is_whole || (self.is_introduced && !self.is_ready) {
            self.object_to("no introduction", message);
        }
        for message in self.scenario["before_hello"].as_array().cloned().unwrap_or_default() {
            self.send(&message);
        }
        let refused = self.scenario.get("hello_error").filter(|error| error["for"] == params["protocolVersion"]);
        if let Some(error) = refused {
            return self.answer(id, "error", error["error"].clone());
        }
        self.is_introduced = true;
        let mut hello = json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        });
        for (name, value) in self.scenario["hello"].as_object().cloned().unwrap_or_default() {
            hello[name] = value;
        }
        if let Some(bytes) = self.scenario["hello_bytes"].as_u64() {
            hello["instructions"] = "x".repeat(bytes as usize).into();
        }
        self.answer(id, "result", hello);
    }

    fn list(&mut self, id: &Value, message: &Value) {
        let cursors = self.scenario["cursors"].as_array().cloned().unwrap_or_default();
        let expected = self.next_page.checked_sub(1).map(|last| cursors[last.min(cursors.len() - 1)].clone());
        if message["params"].get("cursor") != expected.as_ref() {
            self.object_to(&format!("not the page {expected:?}"), message);
        }
        let pages = self.scenario["pages"].as_array().unwrap();
        let mut page = json!({ "tools": pages[self.next_page.min(pages.len() - 1)] });
        if let Some(cursor) =
            cursors.get(self.next_page).or(cursors.last().filter(|_| self.scenario["endless"] == true))
        {
            page["nextCursor"] = cursor.clone();
        }
        self.next_page += 1;
        self.answer(id, "result", page);
    }

    fn call(&mut self, id: &Value, message: &Value) {
        let name = message["params"]["name"].as_str().unwrap_or_default().to_owned();
        let known = self.scenario["pages"].as_array().unwrap().iter().flat_map(|page| page.as_array().unwrap());
        if !known.into_iter().any(|tool| tool["name"] == *name) || !message["params"]["arguments"].is_object() {
            self.object_to("no call of a tool of mine", message);
        }
        for answer in std::mem::take(&mut self.late) {
            say(&format!("{answer}\n"));
        }
        let number = self.calls.entry(name.clone()).or_insert(0);
        let script = self.scenario["calls"][&name].as_array().cloned().unwrap_or_else(|| vec![json!({})]);
        let step = script[(*number).min(script.len() - 1)].clone();
        *number += 1;
        for line in step["says"].as_array().cloned().unwrap_or_default() {
            say(&format!("{}\n", line.as_str().unwrap()));
        }
        for message in step["sends"].as_array().cloned().unwrap_or_default() {
            self.send(&message);
        }
        if let Some(words) = step["stderr"].as_str() {
            std::io::stderr().write_all(words.as_bytes()).unwrap();
        }
        if let Some(code) = step["exits"].as_i64() {
            std::process::exit(i32::try_from(code).unwrap());
        }
        if step["never_ends_a_line"] == true {
            say(&format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "valid" } })
            ));
            let piece = "x".repeat(1 << 20);
            (0..100).for_each(|_| say(&piece));
            say("\n");
            // That was the answer.
            self.open.remove(&id.to_string());
            return;
        }
        let result = if let Some(error) = step.get("error") {
            return self.answer(id, "error", error.clone());
        } else if step["environment"] == true {
            let environment: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            json!({ "content": [{ "type": "text", "text": environment.join("\n") }] })
        } else if let Some(bytes) = step["bytes"].as_u64() {
            json!({ "content": [{ "type": "text", "text": "0123456789abcde ".repeat(bytes as usize / 16) }] })
        } else {
            step.get("result").cloned().unwrap_or_else(
                || json!({ "content": [{ "type": "text", "text": message["params"]["arguments"].to_string() }] }),
            )
        };
        if step["late"] == true {
            self.late.push(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            return;
        }
        let id = if step["id_as_text"] == true { Value::from(id.to_string()) } else { id.clone() };
        self.answer(&id, "result", result);
    }

    fn answer(&mut self, id: &Value, field: &str, value: Value) {
        self.open.remove(id.to_string().trim_matches('"'));
        say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, field: value })));
    }

    /// Sends a message of its own; a request must be answered before anything else happens.
    fn send(&mut self, message: &Value) {
        say(&format!("{message}\n"));
        let Some(id) = message.get("id").filter(|id| !id.is_null() && message.get("method").is_some()) else { return };
        match self.next_message() {
            Some(answer) if answer.get("method").is_none() && answer["id"] == *id => {}
            other => self.object_to("that is no answer", &json!([message, other])),
        }
    }
}

//! Measures; prints figures and asserts nothing about time. `make bench`.
//!
//! Every figure is the median of several runs on a real disk; the spool, the stores and the loop are
//! measured through the library, starting up and memory through the built program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coding_agent::chat::{Message, Role, ToolCall};
use coding_agent::context::{CompressionSettings, Compressor, Contexts, Metadata, Room, TaskDb};
use coding_agent::error::Result;
use coding_agent::ports::{FinishReason, Llm, ModelProfile, Publisher, Reply, Request, TaskQueue};
use coding_agent::prompts::Prompts;
use coding_agent::queue::Spool;
use coding_agent::sys::file::Sync;
use coding_agent::task::{OutcomeKind, TaskId, TaskKey, TaskMessage};
use coding_agent::text::Redactor;

const BINARY: &str = env!("CARGO_BIN_EXE_coding-agent");

fn main() {
    println!("{:<58} {:>12}", "what", "median");
    start();
    first_request();
    turns();
    history();
    compression();
    inheritance();
    spool();
    size();
}

fn median(runs: usize, mut measure: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..runs).map(|_| measure()).collect();
    times.sort();
    times[times.len() / 2]
}

fn row(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<58} {figure:>12}");
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn us(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// A directory on the disk of the build, not on a tmpfs: fsync must cost what it costs.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

fn program(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).current_dir(dir).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// An installation with `issues` labelled issues on a small repository.
fn installation(issues: usize, replies: &str) -> tempfile::TempDir {
    let dir = scratch();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("tasks")).unwrap();
    std::fs::create_dir(path("widgets")).unwrap();
    std::fs::write(
        path("config.yaml"),
        "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl, context_length: 100000000}}\ncommand_executor: {enabled: false}\n",
    )
    .unwrap();
    std::fs::write(path("replies.jsonl"), replies).unwrap();
    std::fs::write(path("widgets/README"), "widgets\n").unwrap();
    for args in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "--all"],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "start"],
    ] {
        assert!(Command::new("git").args(args).current_dir(path("widgets")).status().unwrap().success());
    }
    for number in 0..issues {
        std::fs::write(
            path(&format!("tasks/issue{number:05}.md")),
            "---\ntitle: t\nlabels: [coding agent]\nauthor: a\nrepository: ../widgets\n---\nDo it.\n",
        )
        .unwrap();
    }
    dir
}

fn call_line(name: &str, arguments: &str) -> String {
    let arguments = serde_json::Value::from(arguments);
    format!(
        r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"a","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}]}}"#
    ) + "\n"
}

fn finish_line() -> String {
    call_line("finish", r#"{"status":"done","summary":"x"}"#)
}

/// Whole runs of passes that do just this much and no more.
fn start() {
    let dir = installation(1, &finish_line());
    let timed = |args: &[&str]| {
        let started = Instant::now();
        assert!(program(dir.path(), args).status().unwrap().success());
        started.elapsed()
    };
    row("exec to exit, --version", ms(median(20, || timed(&["--version"]))));
    // The issue is not labelled any more after the first pass: candidates are listed, none is queued.
    timed(&["--mode", "producer"]);
    row("exec to exit, producer pass with nothing new", ms(median(20, || timed(&["--mode", "producer"]))));
    row("exec to exit, status", ms(median(20, || timed(&["status"]))));
    let idle = installation(0, &finish_line());
    let started = || {
        let started = Instant::now();
        assert!(program(idle.path(), &[]).status().unwrap().success());
        started.elapsed()
    };
    row("exec to exit, default mode with nothing to do", ms(median(20, started)));
    let measured = median(5, || {
        let dir = installation(1, &finish_line());
        let started = Instant::now();
        assert!(program(dir.path(), &[]).status().unwrap().success());
        started.elapsed()
    });
    row("exec to exit, one task of one turn with git", ms(measured));
}

/// From a claim to the point where the first request would go out, without git.
fn first_request() {
    let measured = median(20, || {
        let dir = scratch();
        let mut spool = Spool::open(&dir.path().join("spool"), 3).unwrap();
        publish(&mut spool, 1);
        let contexts = Contexts::new(&dir.path().join("contexts"), Sync::Now, true);
        let started = Instant::now();
        let claim = spool.claim().unwrap().unwrap();
        let mut context = contexts.create(Metadata::new(claim.message.clone(), "r".into(), false)).unwrap();
        context.messages.add(Message::text(Role::System, "orders"), None).unwrap();
        context.messages.add(Message::text(Role::User, "task"), None).unwrap();
        started.elapsed()
    });
    row("claim to first model request, without git", ms(measured));
}

/// What a turn costs us: a reply with one call, its result, with and without sync.
fn turns() {
    for sync in [Sync::Now, Sync::Later] {
        for count in [5u32, 50, 200] {
            let measured = median(5, || {
                let dir = scratch();
                let contexts = Contexts::new(dir.path(), sync, true);
                let mut context = contexts.create(Metadata::new(message(0), "r".into(), false)).unwrap();
                context.messages.add(Message::text(Role::User, "task"), None).unwrap();
                let started = Instant::now();
                for turn in 0..count {
                    let call =
                        ToolCall { id: format!("c{turn:08}"), name: "t".into(), arguments: "{}".into(), extra: None };
                    context.messages.add(Message::assistant("thinking", vec![call.clone()]), None).unwrap();
                    context.messages.add(Message::tool_result(&call, "x".repeat(500)), None).unwrap();
                }
                started.elapsed() / count
            });
            let how = if sync == Sync::Now { "synced" } else { "not synced" };
            row(&format!("stores per turn, {count} turns, {how}"), us(measured));
        }
    }
    // The whole program, git and start-up included; the difference of two lengths is the turns alone.
    let whole = |turns: usize| {
        let view = call_line("text-editor_text_editor", r#"{"command":"view","path":"README"}"#);
        let replies = view.repeat(turns) + &finish_line();
        median(5, || {
            let dir = installation(1, &replies);
            let started = Instant::now();
            assert!(program(dir.path(), &[]).status().unwrap().success());
            started.elapsed()
        })
    };
    let (short, middle, long) = (whole(5), whole(50), whole(200));
    row("program per turn, between 5 and 50 turns, synced", us(middle.saturating_sub(short) / 45));
    row("program per turn, between 50 and 200 turns, synced", us(long.saturating_sub(middle) / 150));
}

/// The lines of one turn with one call: a reply and its result of 500 characters.
fn turn(number: u64) -> [Message; 2] {
    let call = ToolCall { id: format!("c{number:08}"), name: "t".into(), arguments: "{}".into(), extra: None };
    [Message::assistant("thinking", vec![call.clone()]), Message::tool_result(&call, "x".repeat(500))]
}

/// What a message costs in a long history, and what taking one up again costs: `archive` lines of
/// which the last hundred are sent.
fn history() {
    for sync in [Sync::Later, Sync::Now] {
        for archive in [100u64, 10_000, 100_000] {
            let dir = scratch();
            let (contexts, entry) = long_history(dir.path(), sync, archive);
            let mut context = contexts.resume(&entry).unwrap();
            let count: u32 = if sync == Sync::Now { 50 } else { 1000 };
            let measured = median(5, || {
                let messages: Vec<Message> = (0..count).map(|_| Message::assistant("x".repeat(500), vec![])).collect();
                let started = Instant::now();
                for message in messages {
                    context.messages.add(message, None).unwrap();
                }
                started.elapsed() / count
            });
            let how = if sync == Sync::Now { "synced" } else { "not synced" };
            row(&format!("add_message behind {archive} messages, {how}"), us(measured));
        }
    }
    for archive in [100u64, 10_000, 100_000] {
        let dir = scratch();
        let (contexts, entry) = long_history(dir.path(), Sync::Later, archive);
        let before = own_kib("VmRSS:");
        let mut grown = 0;
        let measured = median(5, || {
            let started = Instant::now();
            let context = contexts.resume(&entry).unwrap();
            let elapsed = started.elapsed();
            assert_eq!((context.messages.count_messages(), context.messages.current().len()), (archive, 101));
            grown = own_kib("VmRSS:").saturating_sub(before);
            elapsed
        });
        row(&format!("opening with {archive} messages in the archive"), ms(measured));
        row(&format!("  memory that takes, {archive} messages"), format!("{grown} KiB"));
    }
}

/// A context whose archive has so many lines, all but the last hundred summed up.
fn long_history(dir: &Path, sync: Sync, archive: u64) -> (Contexts, TaskMessage) {
    let contexts = Contexts::new(dir, sync, true);
    let entry = message(0);
    let context = contexts.create(Metadata::new(entry.clone(), "r".into(), false)).unwrap();
    let line = |seq: u64, message: &Message, is_archive: bool| {
        let calls: Vec<_> = message
            .tool_calls
            .iter()
            .map(|call| serde_json::json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}))
            .collect();
        let mut line = serde_json::json!({"seq": seq, "role": message.role.name(), "content": message.content, "tool_calls": calls});
        if is_archive {
            line["timestamp"] = "2024-12-07T03:00:00+00:00".into();
            line["tokens"] = message.estimated_tokens().into();
        }
        if let Some(id) = &message.tool_call_id {
            line["tool_call_id"] = id.as_str().into();
        }
        format!("{line}\n")
    };
    let (mut whole, mut current) = (String::new(), String::new());
    let head = [Message::text(Role::System, "orders"), Message::text(Role::User, "task")];
    let tail = archive - 98;
    let messages = head.into_iter().chain((0..archive / 2).flat_map(turn)).take(usize::try_from(archive).unwrap());
    for (seq, message) in (1..).zip(messages) {
        whole += &line(seq, &message, true);
        if seq == tail {
            // Also where nothing came before: the same number of lines for every archive.
            current += &format!("{{\"role\":\"system\",\"content\":\"notes\",\"through_seq\":{tail}}}\n");
        }
        if seq <= 2 || seq > tail {
            current += &line(seq, &message, false);
        }
    }
    std::fs::write(context.dir().join("messages.jsonl"), whole).unwrap();
    std::fs::write(context.dir().join("current.jsonl"), current).unwrap();
    (contexts, entry)
}

/// A line of our own `/proc/self/status`, in KiB.
fn own_kib(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A model that sums up everything in one line.
struct Summarizer(ModelProfile);

impl Llm for Summarizer {
    fn model(&self) -> &ModelProfile {
        &self.0
    }

    fn probe(&mut self) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _request: &Request<'_>) -> Result<Reply> {
        let content = "All of it was looked at, and none of it is needed.".into();
        Ok(Reply { content, tool_calls: vec![], reasoning: None, finish: FinishReason::Ended, usage: None })
    }
}

/// What a compression costs us, the model aside.
fn compression() {
    let prompts = Prompts::load(None).unwrap();
    let settings = CompressionSettings { threshold_tokens: 1000, keep_recent: 10, min_to_compress: 5 };
    let profile =
        ModelProfile { provider: "bench".into(), model: "m".into(), context_tokens: 1 << 30, max_output_tokens: None };
    let measured = median(5, || {
        let dir = scratch();
        let contexts = Contexts::new(dir.path(), Sync::Later, true);
        let mut context = contexts.create(Metadata::new(message(0), "r".into(), false)).unwrap();
        context.messages.add(Message::text(Role::User, "task"), None).unwrap();
        for message in (0..1000).flat_map(turn) {
            context.messages.add(message, None).unwrap();
        }
        let mut llm = Summarizer(profile.clone());
        let room = Room { tail_tokens: 10_000, request_tokens: 1 << 29 };
        let mut compressor =
            Compressor { llm: &mut llm, prompts: &prompts, redactor: &Redactor::new(["no-such-secret"]), settings };
        let started = Instant::now();
        compressor.compress(&mut context, room).unwrap();
        let elapsed = started.elapsed();
        assert_eq!(context.messages.current().len(), 12);
        elapsed
    });
    row("compress 2000 messages, without the model", ms(measured));
}

/// The newest of 10,000 finished tasks of one repository, ten of each item.
fn inheritance() {
    const TASKS: u64 = 10_000;
    let dir = scratch();
    let contexts = Contexts::new(dir.path(), Sync::Later, true);
    let path = dir.path().join("tasks.db");
    let mut db = TaskDb::open(&path);
    let of_item = |number: u64| {
        let key = TaskKey::local(format!("issue-{}", number % (TASKS / 10))).unwrap();
        let message = TaskMessage { key, uuid: TaskId::from_u128(number.into()), ..message(0) };
        Metadata::new(message, "widgets".into(), false)
    };
    let fill = rusqlite::Connection::open(&path).unwrap();
    fill.execute_batch("BEGIN").unwrap();
    for number in 0..TASKS {
        let metadata = of_item(number);
        fill.execute(
            "INSERT INTO tasks (uuid, status, task_type, task_identifier, repository, user, created_at, completed_at)
             VALUES (?1, 'completed', 'local_issue', ?2, 'widgets', ?3, 'x', ?4)",
            rusqlite::params![
                metadata.message.uuid.to_string(),
                metadata.message.key.identifier(),
                metadata.message.user,
                format!("2026-01-01T00:00:{number:05}")
            ],
        )
        .unwrap();
    }
    fill.execute_batch("COMMIT").unwrap();
    db.register(&of_item(TASKS + 1));
    let time = median(20, || {
        let started = Instant::now();
        assert_eq!(db.find_previous_contexts(&of_item(TASKS + 1)).len(), 10);
        started.elapsed()
    });
    assert!(contexts.inheritance_context(&db, &of_item(TASKS + 1), 4000).is_none(), "no directory is there");
    row("find_previous_contexts over 10,000 tasks", ms(time));
}

fn message(number: usize) -> TaskMessage {
    TaskMessage {
        key: TaskKey::local(format!("issue{number}")).unwrap(),
        uuid: TaskId::new_v4(),
        user: None,
        enqueued_at: "2024-12-07T03:00:00+00:00".into(),
        paused_context_path: None,
    }
}

fn publish(spool: &mut Spool, count: usize) -> Duration {
    let started = Instant::now();
    let messages: Vec<TaskMessage> = (0..count).map(message).collect();
    let done = spool.produce(&mut |publisher: &mut dyn Publisher| {
        messages.iter().try_for_each(|message| publisher.publish(message, &mut || Ok(true)))
    });
    assert!(done.unwrap());
    started.elapsed()
}

fn spool() {
    for count in [100usize, 10_000] {
        let dir = scratch();
        let mut spool = Spool::open(dir.path(), 3).unwrap();
        let per = u32::try_from(count).unwrap();
        row(&format!("publish, {count} entries, each"), us(publish(&mut spool, count) / per));
        let started = Instant::now();
        let mut claims = Vec::new();
        while let Some(mut claim) = spool.claim().unwrap() {
            // Handed back at once: ten thousand open files are none of the program's business.
            claim.receipt.lock = None;
            claims.push(claim);
        }
        assert_eq!(claims.len(), count);
        row(&format!("claim, {count} entries, each"), us(started.elapsed() / per));
        let started = Instant::now();
        for claim in claims {
            spool.remove(claim).unwrap();
        }
        row(&format!("finish, {count} entries, each"), us(started.elapsed() / per));
    }
    let dir = scratch();
    let contexts = Contexts::new(dir.path(), Sync::Now, true);
    let measured = median(20, || {
        let context = contexts.create(Metadata::new(message(0), "r".into(), false)).unwrap();
        let started = Instant::now();
        context.leave(OutcomeKind::Completed).unwrap();
        started.elapsed()
    });
    row("moving a context to completed/", us(measured));
}

fn size() {
    let release = PathBuf::from(BINARY);
    let bytes = std::fs::metadata(&release).unwrap().len();
    row("size of the stripped binary", format!("{:.2} MB", bytes as f64 / 1e6));
    row("peak memory of one task of 200 turns", format!("{:.1} MB", peak_kib() as f64 * 1024.0 / 1e6));
    let tree = Command::new("cargo")
        .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none", "--no-dedupe"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&tree.stdout).into_owned();
    let mut crates: Vec<&str> = text.lines().filter_map(|line| line.split(" (").next()).collect();
    crates.sort_unstable();
    crates.dedup();
    row("crates in the binary, ourselves included", crates.len());
    if std::env::var_os("BENCH_BUILD").is_some() {
        let dir = scratch();
        let started = Instant::now();
        let built = Command::new("cargo")
            .args(["build", "--release", "--locked", "--offline", "--quiet", "--target-dir"])
            .arg(dir.path())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success());
        row("release build from nothing", format!("{:.0} s", started.elapsed().as_secs_f64()));
    }
}

/// Highest `VmHWM` seen while the program works on a long task.
fn peak_kib() -> u64 {
    let view = call_line("text-editor_text_editor", r#"{"command":"view","path":"README"}"#);
    let dir = installation(1, &(view.repeat(200) + &finish_line()));
    let mut child = program(dir.path(), &[]).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        peak = peak.max(kib);
    }
    peak
}

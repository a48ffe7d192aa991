//! `show`: what a person sees of a task, and what a script gets.

use std::os::unix::fs::PermissionsExt as _;

use coding_agent::text::{Paint, Style};
use serde_json::{Value, json};

use crate::support::{BINARY, Cassette, World, call, calls, finish, says};

/// Replies that use every kind of call.
fn busy() -> Cassette {
    Cassette::new()
        .creates("fixed.txt", "one\ntwo\n")
        .runs("cat fixed.txt; exit 3")
        .then(call("text-editor_text_editor", json!({ "command": "view", "path": "absent" })))
        .finishes("I fixed it.")
}

fn uuid(world: &World, place: &str) -> String {
    world.context(place).file_name().unwrap().to_str().unwrap().to_owned()
}

/// Every file below `dir` with its bytes and when it was written.
#[cfg(feature = "faults")]
fn snapshot(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let modified = std::fs::metadata(&dir).unwrap().modified().unwrap();
        found.push((dir.clone(), Vec::new(), modified));
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
                found.push((path.clone(), std::fs::read(&path).unwrap(), modified));
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn assert_lines(text: &str, expected: &[&str]) {
    let mut rest = text.lines();
    for wanted in expected {
        assert!(rest.any(|line| line == *wanted), "`{wanted}` is missing, or not after the line before it:\n{text}");
    }
}

/// Times and durations replaced, so that the rest can be compared.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split("  ").collect();
        let part = |part: &str| {
            let digits =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let is_time = part.len() == 19 && part.as_bytes()[10] == b' ' && part.starts_with("20");
            let is_duration = part.strip_suffix(" ms").or(part.strip_suffix(" s")).is_some_and(digits);
            if is_time {
                "TIME".to_owned()
            } else if is_duration {
                "LONG".to_owned()
            } else {
                part.to_owned()
            }
        };
        words.push(parts.iter().map(|one| part(one)).collect::<Vec<_>>().join("  "));
    }
    words.join("\n") + "\n"
}

#[test]
fn a_finished_task_from_head_to_cost() {
    let world = World::with_task(&busy());
    world.run(&[]).expect(0);
    let uuid = uuid(&world, "completed");
    let ended = world.run(&["show", &uuid]).expect(0);
    assert_eq!(ended.stderr, "");
    let text = without_times(&ended.stdout);
    let sha = world.outcome()["sha"].as_str().unwrap().to_owned();
    let begin = [
        format!("Task {uuid}"),
        "  item         local/issue/fix".to_owned(),
        "  repository   ../widgets".to_owned(),
        "  user         alice".to_owned(),
        "  state        completed".to_owned(),
    ];
    assert!(text.starts_with(&begin.join("\n")), "{text}");
    assert_lines(
        &text,
        &[
            "  branch       coding-agent/issue-fix",
            &format!("  commit       {sha}"),
            "  model        replay replies.jsonl",
            &format!("  directory    contexts/completed/{uuid}"),
            "#1 system  TIME",
            "#2 user  TIME",
            "    request: add.sh subtracts.",
            "    title: Fix fix",
            "#3 model  TIME  100 tokens in, 10 out",
            "    calls  text-editor_text_editor",
            "        command: create",
            "        file_text:",
            "          one",
            "          two",
            "        path: fixed.txt",
            "#4 result  text-editor_text_editor  TIME  LONG",
            "#5 model  TIME  100 tokens in, 10 out",
            "    calls  command-executor_execute_command",
            "        command: cat fixed.txt; exit 3",
            "#6 result  command-executor_execute_command  TIME  exit code 3  LONG",
            "    stdout:",
            "      one",
            "      two",
            "#8 result  text-editor_text_editor  TIME  ERROR  LONG",
            "#9 model  TIME  100 tokens in, 10 out",
            "    calls  finish",
            "        status: done",
            "        summary: I fixed it.",
            "#10 result  finish  TIME",
            "Ending",
            "  outcome      completed",
            "  comment      c1",
            "  steps done   commit, push, pull_request, summary, comment, labels",
            "    I fixed it.",
            "Cost",
        ],
    );
    let costs = "4 calls, 400 tokens in (0 cached), 40 out, ";
    assert!(text.contains(&format!("\n  model        {costs}")), "{text}");
    assert!(text.contains(&format!("\n  phase        loop with replay replies.jsonl: {costs}")), "{text}");
    assert!(text.contains("\n  tools        3 calls (1 failed), "), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("!!"), "no colours where nobody looks, and no damage: {text}");
    // Our orders are the same in every task.
    assert!(text.contains("lines left out; --full shows them"), "{text}");
    let full = world.run(&["show", &uuid, "--full"]).expect(0).stdout;
    assert!(!full.contains("left out") && full.len() > ended.stdout.len(), "{full}");
}

#[test]
fn every_way_to_name_a_task() {
    let world = World::with_task(&busy());
    world.run(&[]).expect(0);
    let uuid = uuid(&world, "completed");
    let whole = world.run(&["show", &uuid]).expect(0).stdout;
    for name in [&uuid[..1], &uuid[..8], &uuid.to_uppercase()[..9]] {
        assert_eq!(world.run(&["show", name]).expect(0).stdout, whole, "{name}");
    }
    for path in [format!("contexts/completed/{uuid}"), format!("./contexts/completed/{uuid}/")] {
        let text = world.run(&["show", &path]).expect(0).stdout;
        assert!(text.contains("state        completed") && text.contains("loop with replay"), "{text}");
    }
    // Elsewhere, with its database two levels higher and another configuration.
    let other = World::new();
    other.write("other.yaml", &(other.read("config.yaml") + "context_storage: {base_dir: elsewhere}\n"));
    let path = world.context("completed");
    let text = other.run(&["show", path.to_str().unwrap(), "--config", "other.yaml"]).expect(0).stdout;
    assert!(text.contains("loop with replay"), "{text}");

    let ended = world.run(&["show", "zzz"]).expect(2);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        (
            "",
            "coding-agent: there is no task `zzz` in `running`, `paused` or `completed` of `contexts`\n\
             hint: `coding-agent status` lists the tasks; one that still waits has nothing to show\n"
        )
    );
    for wrong in ["./contexts/nowhere", "contexts/tasks.db"] {
        let ended = world.run(&["show", wrong]).expect(2);
        assert!(ended.stderr.starts_with(&format!("coding-agent: there is no directory `{wrong}`\n")), "{ended:?}");
    }
    // A second task whose UUID begins alike.
    let alike = format!("{}-and-more", &uuid[..8]);
    std::fs::create_dir(world.path(format!("contexts/running/{alike}"))).unwrap();
    let ended = world.run(&["show", &uuid[..8]]).expect(2);
    let told = format!("`{}` begins the UUID of 2 tasks: ", &uuid[..8]);
    assert!(ended.stderr.contains(&told) && ended.stderr.contains(&alike), "{ended:?}");
    assert!(ended.stderr.ends_with("\nhint: type more of it\n"), "{ended:?}");
    world.run(&["show", &uuid]).expect(0);
}

#[test]
fn a_failed_task_and_why() {
    let world = World::with_task(&Cassette::new().creates("half.txt", "x\n").then(finish("blocked", "No such API.")));
    world.run(&[]).expect(1);
    let text = world.run(&["show", &uuid(&world, "completed")]).expect(0).stdout;
    assert_lines(
        &text,
        &[
            "  state        failed",
            "  reason       the model says it is blocked",
            "  branch       coding-agent/issue-fix",
            "Ending",
            "  outcome      failed",
            "    No such API.",
        ],
    );
}

#[test]
fn work_that_could_not_be_pushed() {
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").finishes("x"));
    std::fs::write(world.path("widgets/.git/hooks/pre-receive"), "#!/bin/sh\necho no >&2; exit 1\n").unwrap();
    let hook = world.path("widgets/.git/hooks/pre-receive");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let code = world.run(&[]).code;
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    let text = world.run(&["show", &uuid(&world, "completed")]).expect(0).stdout;
    assert_lines(&text, &["  also there   work.patch", "Ending", "  patch        work.patch"]);
    assert!(text.contains("\n  refused      "), "{text}");
}

#[test]
fn a_paused_task_and_one_taken_up_again() {
    let pauses = Cassette::new().runs("touch ../../../contexts/pause_signal").runs("true").finishes("x");
    let world = World::with_task(&pauses);
    world.run(&[]).expect(0);
    let uuid = uuid(&world, "paused");
    let text = world.run(&["show", &uuid]).expect(0).stdout;
    assert_lines(&text, &["  state        paused", "Ending", "  outcome      paused"]);
    std::fs::remove_file(world.path("contexts/pause_signal")).unwrap();
    world.run(&["--mode", "producer"]).expect(0);
    let text = world.run(&["show", &uuid]).expect(0).stdout;
    assert_lines(&text, &["  state        paused, waits in the queue"]);
    world.run(&[]).expect(0);
    let text = world.run(&["show", &uuid]).expect(0).stdout;
    assert_lines(&text, &["  state        completed", "  resumed      1×"]);
}

#[test]
fn a_task_that_is_put_off() {
    let world = World::with_task(&Cassette::new().runs("true").fails("later", "the model is away"));
    world.run(&[]).expect(75);
    let uuid = uuid(&world, "running");
    let text = world.run(&["show", &uuid]).expect(0).stdout;
    assert!(text.contains("\n  state        running, put off until 20"), "{text}");
    assert!(text.contains("2 calls (1 failed)") || text.contains("(1 failed), "), "{text}");
    let shown: Value = serde_json::from_str(&world.run(&["show", &uuid, "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&shown["state"], &shown["queue"]["state"]), (&json!("running"), &json!("deferred")));
    assert_eq!(shown["cost"]["failed_calls"].as_u64().unwrap() + 1, shown["cost"]["calls"].as_u64().unwrap());
}

#[test]
fn a_running_task_is_shown_by_its_own_command_and_nothing_is_written() {
    let look = format!(
        "cd ../../.. && for form in --full --json; do '{BINARY}' show \"$(ls contexts/running)\" $form > shown$form; done"
    );
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").runs(&look).finishes("x"));
    world.run(&[]).expect(0);
    let text = world.read("shown--full");
    assert_lines(
        &text,
        &[
            "  state        running",
            "  model        replay replies.jsonl",
            "    calls  command-executor_execute_command",
            "Cost",
        ],
    );
    // Rows of a living writer are seen: they are in the write-ahead log only.
    assert!(text.contains("\n  model        2 calls, 200 tokens in (0 cached), 20 out, "), "{text}");
    assert!(!text.contains("Ending") && !text.contains("!!"), "{text}");
    let shown: Value = serde_json::from_str(&world.read("shown--json")).unwrap();
    assert_eq!((&shown["queue"]["worker_alive"], &shown["ending"]), (&json!(true), &Value::Null));
}

#[cfg(feature = "faults")]
#[test]
fn looking_leaves_no_trace() {
    let world = World::with_task(&busy());
    world.run_to_crash(&[], "loop.tool_ran");
    let uuid = uuid(&world, "running");
    assert!(!world.names("contexts").iter().all(|name| name != "tasks.db-wal"), "{:?}", world.names("contexts"));
    // What a kill in the middle of a write leaves; the strict store would cut it off.
    let messages = world.context("running").join("messages.jsonl");
    let whole = std::fs::read_to_string(&messages).unwrap();
    std::fs::write(&messages, format!("{whole}{{\"seq\":9,\"ro")).unwrap();
    let before = snapshot(&world.path("."));
    for line in [&["show", &uuid][..], &["show", &uuid, "--json"], &["status"], &["status", "--json"]] {
        let ended = world.run(line).expect(0);
        let told = ["its worker is gone", "worker_alive"].iter().any(|told| ended.stdout.contains(told));
        assert!(told, "{line:?}: {}", ended.stdout);
        assert!(snapshot(&world.path(".")) == before, "{line:?} wrote something");
    }
    let text = world.run(&["show", &uuid]).expect(0).stdout;
    assert!(text.contains("!! line 4 of messages.jsonl cannot be read: it is torn off"), "{text}");
    assert!(text.contains("\n  model        1 call, 100 tokens in"), "the killed writer's row is seen: {text}");
    // And a task that is finished with no process around.
    let world = World::with_task(&busy());
    world.run(&[]).expect(0);
    let before = snapshot(&world.path("."));
    assert!(world.run(&["show", &self::uuid(&world, "completed")]).expect(0).stdout.contains("4 calls"));
    world.run(&["status"]).expect(0);
    assert!(snapshot(&world.path(".")) == before, "something was written");
}

#[test]
fn a_long_result_names_the_file_that_has_it_whole() {
    let world = World::with_task(&Cassette::new().runs("seq 1 60000").finishes("x"));
    world.write(
        "config.yaml",
        "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl, context_length: 8192}}\ncommand_executor: {backend: host}\n",
    );
    world.run(&[]).expect(0);
    let uuid = uuid(&world, "completed");
    let note = format!("    [the whole is in contexts/completed/{uuid}/outputs/4.txt]");
    assert!(world.path(format!("contexts/completed/{uuid}/outputs/4.txt")).is_file());
    for form in [&["show", &uuid][..], &["show", &uuid, "--full"]] {
        let text = world.run(form).expect(0).stdout;
        assert_lines(&text, &[&note]);
    }
    let shown: Value = serde_json::from_str(&world.run(&["show", &uuid, "--json"]).expect(0).stdout).unwrap();
    assert_eq!(shown["entries"][3]["output_file"], "outputs/4.txt");
}

#[test]
fn the_json_object() {
    let world = World::with_task(
        &Cassette::new()
            .then(calls(&[
                ("command-executor_execute_command", json!({ "command": "exit 3" })),
                ("text-editor_text_editor", json!({ "command": "view", "path": "absent" })),
            ]))
            .then(says("I wonder."))
            .finishes("Done."),
    );
    world.run(&[]).expect(0);
    let uuid = uuid(&world, "completed");
    let ended = world.run(&["show", "--json", &uuid]).expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names.join(" "),
        "began cost damage directory ended ending entries final_summary item models other_files place put_off queue \
         reason repository resumes state task_identifier task_type user uuid version"
    );
    let head = ["uuid", "item", "task_type", "task_identifier", "repository", "user", "state", "place"];
    let values: Vec<&str> = head.iter().map(|name| shown[name].as_str().unwrap()).collect();
    let expected =
        [uuid.as_str(), "local/issue/fix", "local_issue", "fix", "../widgets", "alice", "completed", "completed"];
    assert_eq!(values, expected);
    assert_eq!((&shown["version"], &shown["resumes"], &shown["damage"]), (&json!(1), &json!(0), &json!([])));
    assert_eq!(shown["models"], json!([{ "provider": "replay", "model": "replies.jsonl" }]));
    let entries = shown["entries"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["type"] == "message"), "{entries:?}");
    let roles: Vec<&str> = entries.iter().map(|entry| entry["role"].as_str().unwrap()).collect();
    assert_eq!(roles.join(" "), "system user assistant tool tool assistant user assistant tool");
    assert_eq!(
        entries[2]["calls"],
        json!([
            { "name": "command-executor_execute_command", "arguments": { "command": "exit 3" } },
            { "name": "text-editor_text_editor", "arguments": { "command": "view", "path": "absent" } },
        ])
    );
    assert_eq!(entries[2]["usage"], json!({ "prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 0 }));
    assert_eq!((&entries[3]["record"]["exit_code"], &entries[3]["record"]["is_error"]), (&json!(3), &json!(false)));
    assert_eq!((&entries[4]["record"]["exit_code"], &entries[4]["record"]["is_error"]), (&json!(null), &json!(true)));
    assert!(entries[3]["record"]["duration_ms"].is_u64() && entries[8]["record"].is_null(), "{entries:?}");
    assert_eq!(entries[5]["usage"], Value::Null, "the server told nothing");
    assert_eq!((&shown["ending"]["outcome"], &shown["ending"]["summary"]), (&json!("completed"), &json!("Done.")));
    let cost = &shown["cost"];
    assert_eq!(
        (&cost["source"], &cost["calls"], &cost["estimated_calls"]),
        (&json!("llm_calls"), &json!(3), &json!(1))
    );
    assert_eq!((&cost["tool_calls"], &cost["tool_errors"]), (&json!(2), &json!(1)));
    assert_eq!((&cost["phases"][0]["phase"], &cost["phases"][0]["calls"]), (&json!("loop"), &json!(3)));
    assert!(cost["model_ms"].is_u64() && cost["tool_ms"].is_u64(), "{cost}");
    // Without the database the history has to do; it knows no times.
    std::fs::remove_file(world.path("contexts/tasks.db")).unwrap();
    let shown: Value = serde_json::from_str(&world.run(&["show", "--json", &uuid]).expect(0).stdout).unwrap();
    let cost = &shown["cost"];
    assert_eq!((&cost["source"], &cost["calls"], &cost["prompt_tokens"]), (&json!("messages"), &json!(3), &json!(200)));
    assert_eq!((&cost["estimated_calls"], &cost["model_ms"], &cost["phases"]), (&json!(1), &Value::Null, &json!([])));
    assert!(!world.path("contexts/tasks.db").exists(), "looking makes none");
    let text = world.run(&["show", &uuid]).expect(0).stdout;
    assert!(text.contains("\n  model        3 calls, 200 tokens in (0 cached), 20 out (not told for 1)\n"), "{text}");
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let world = World::with_task(&Cassette::new().runs("seq 1 100000").finishes("x"));
    world.run(&[]).expect(0);
    let uuid = uuid(&world, "completed");
    for form in [&["show", &uuid, "--full"][..], &["show", &uuid, "--json"]] {
        let mut child = world.spawn(form);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    }
    // A disk that is full is one.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = world.command(&["show", &uuid]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}

#[test]
fn foreign_text_cannot_play_with_the_terminal() {
    let hostile = "\x1b[2J\x1b]0;owned\x07 \u{9b}31m \u{202e}gnp.exe \0 \r\nEnding\n  outcome      completed";
    let world = World::with_task(
        &Cassette::new()
            .then(call(
                "text-editor_text_editor",
                json!({ "command": "create", "path": hostile, "file_text": hostile }),
            ))
            .then(finish("blocked", hostile)),
    );
    let issue = world.read("tasks/fix.md").replace("add.sh subtracts.", hostile);
    world.write("tasks/fix.md", &issue);
    world.run(&[]).expect(1);
    let uuid = uuid(&world, "completed");
    for form in [&["show", &uuid, "--full"][..], &["show", &uuid], &["show", &uuid, "--json"]] {
        let text = world.run(form).expect(0).stdout;
        let harmful = |character: char| character != '\n' && character.is_control();
        assert!(!text.contains(harmful), "{form:?}: {text:?}");
        assert!(text.contains("owned"), "it is told");
    }
    let text = world.run(&["show", &uuid, "--full"]).expect(0).stdout;
    assert!(!text.contains('\u{202e}'), "{text}");
    assert_eq!(text.matches("\nEnding\n").count(), 1, "a line of ours begins at the margin, no other does: {text}");
    assert_eq!(text.matches("\n  outcome      ").count(), 1, "{text}");
}

#[test]
fn secrets_are_masked_in_what_older_programs_wrote() {
    const SECRET: &str = "sk-proj-0123456789abcdef";
    let mut world = World::new();
    world.set_env("OPENAI_API_KEY", SECRET);
    std::fs::create_dir_all(world.path("contexts/completed/old")).unwrap();
    let dir = "contexts/completed/old";
    world.write(&format!("{dir}/metadata.json"), &json!({ "uuid": "old", "user": SECRET }).to_string());
    let line = json!({ "seq": 1, "role": "user", "content": format!("key {SECRET}"), "tool_calls": [{ "function": { "name": "x", "arguments": json!({ "key": SECRET }).to_string() } }] });
    world.write(&format!("{dir}/messages.jsonl"), &format!("{line}\n"));
    world.write(&format!("{dir}/planning.jsonl"), &format!("{}\n", json!({ "plan_content": { "do": SECRET } })));
    world.write(&format!("{dir}/final_summary.txt"), SECRET);
    for form in [&["show", "old"][..], &["show", "old", "--json"]] {
        let text = world.run(form).expect(0).stdout;
        assert!(!text.contains("0123456789abcdef") && text.matches("[secret]").count() >= 4, "{text}");
    }
}

#[test]
fn colours_are_for_a_terminal() {
    let styles = [Style::Title, Style::Name, Style::Faint, Style::Good, Style::Bad];
    for style in styles {
        let painted = Paint::new(true).paint(style, "x");
        assert!(painted.starts_with("\x1b[") && painted.ends_with("mx\x1b[0m"), "{painted:?}");
        assert_eq!(Paint::new(false).paint(style, "x"), "x");
        assert_eq!(Paint::new(true).paint(style, ""), "");
    }
    assert_eq!(Paint::new(true).paint(Style::Plain, "x"), "x");
    let rows = [
        (true, None, Some("xterm"), true),
        (true, Some(""), Some("xterm"), true),
        (true, Some("1"), Some("xterm"), false),
        (true, None, Some("dumb"), false),
        (true, None, Some(""), false),
        (true, None, None, false),
        (false, None, Some("xterm"), false),
    ];
    for (is_terminal, no_color, term, expected) in rows {
        let paint = Paint::for_terminal(is_terminal, no_color.map(str::as_ref), term.map(str::as_ref));
        assert_eq!(paint, Paint::new(expected), "{is_terminal} {no_color:?} {term:?}");
    }
    let mut world = World::with_task(&busy());
    world.run(&[]).expect(0);
    world.set_env("TERM", "xterm");
    assert!(!world.run(&["show", &uuid(&world, "completed")]).expect(0).stdout.contains('\x1b'));
}

//! `show` on whatever lies there: damaged directories, directories of the earlier program, databases
//! that are locked, broken or not ours, and histories of any length.

use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{BINARY, Cassette, Random, World};

/// A world with the context directory `old`, empty.
fn with_directory() -> World {
    let world = World::new();
    std::fs::create_dir_all(world.path("contexts/completed/old")).unwrap();
    world
}

fn write(world: &World, name: &str, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    world.write(&format!("contexts/completed/old/{name}"), &text);
}

fn write_bytes(world: &World, name: &str, bytes: &[u8]) {
    std::fs::write(world.path(format!("contexts/completed/old/{name}")), bytes).unwrap();
}

#[track_caller]
fn text(world: &World) -> String {
    let ended = world.run(&["show", "old"]).expect(0);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[track_caller]
fn shown(world: &World) -> Value {
    let ended = world.run(&["show", "old", "--json"]).expect(0);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
}

/// Types of the entries, messages with their numbers.
fn outline(shown: &Value) -> String {
    let entries = shown["entries"].as_array().unwrap().iter();
    let outline = entries.map(|entry| match entry["type"].as_str().unwrap() {
        "message" => entry["seq"].to_string(),
        other => other.to_owned(),
    });
    outline.collect::<Vec<_>>().join(" ")
}

fn said(seq: u64, role: &str, text: &str, at: &str) -> Value {
    json!({ "seq": seq, "role": role, "content": text, "timestamp": at, "tokens": 1 })
}

const AT: &str = "2024-12-07T03:00:00+00:00";

#[test]
fn a_directory_of_the_earlier_program() {
    let world = with_directory();
    let metadata = json!({
        "uuid": "old", "created_at": "2024-12-07T03:00:00.123456", "task_type": "gitlab_mr", "task_identifier": 123,
        "repository": "team/app", "user": null
    });
    world.write("contexts/completed/old/metadata.json", &format!("{metadata:#}"));
    write(
        &world,
        "messages.jsonl",
        &[
            said(1, "system", "orders", "2024-12-07T03:00:00"),
            said(2, "user", "work", "2024-12-07T03:00:01+00:00"),
            said(
                3,
                "assistant",
                r#"{"comment": "I look", "command": {"tool": "github/get_issue", "args": {"number": 1}}}"#,
                "2024-12-07 03:00:02",
            ),
            json!({ "seq": 4, "role": "tool", "content": "{\"title\": \"x\"}", "timestamp": "2024-12-07T03:00:04", "tokens": 2, "tool_name": "github/get_issue" }),
            said(5, "assistant", "done", "2024-12-07T03:00:09"),
        ],
    );
    write(
        &world,
        "tools.jsonl",
        &[
            json!({ "seq": 1, "tool_name": "github/get_issue", "arguments": { "number": 1 }, "result": { "title": "x" }, "error": null, "timestamp": "2024-12-07T03:00:03" }),
            json!({ "seq": 2, "tool_name": "command/run", "arguments": { "command": "make" }, "result": null, "error": "no make", "timestamp": "2024-12-07T03:00:05" }),
        ],
    );
    write(
        &world,
        "summaries.jsonl",
        &[
            json!({ "id": 1, "start_seq": 1, "end_seq": 2, "summary": "what was", "original_tokens": 900, "summary_tokens": 100, "ratio": 0.11, "timestamp": "2024-12-07T03:00:08" }),
        ],
    );
    write(
        &world,
        "planning.jsonl",
        &[
            json!({ "id": 1, "plan_type": "initial", "plan_content": { "goal": "mend it", "steps": ["look", "mend"] }, "created_at": "2024-12-07T03:00:06" }),
        ],
    );
    world.write("contexts/completed/old/final_summary.txt", "It was mended.\n");
    // The database of that program, in its journal mode and without our table.
    let connection = Connection::open(world.path("contexts/tasks.db")).unwrap();
    let schema = "CREATE TABLE tasks (uuid TEXT PRIMARY KEY, status TEXT NOT NULL, task_type TEXT NOT NULL,
        task_identifier TEXT, repository TEXT, user TEXT, created_at TEXT NOT NULL, updated_at TEXT, completed_at TEXT,
        metadata TEXT, total_messages INTEGER DEFAULT 0, total_summaries INTEGER DEFAULT 0,
        total_tool_calls INTEGER DEFAULT 0, final_token_count INTEGER, final_message_count INTEGER, error_message TEXT);
        INSERT INTO tasks (uuid, status, task_type, created_at, completed_at, error_message)
        VALUES ('old', 'failed', 'gitlab_mr', '2024-12-07T03:00:00', '2024-12-07T03:10:00', 'no key');";
    connection.execute_batch(schema).unwrap();

    let text = text(&world);
    for line in [
        "  item         gitlab_mr 123",
        "  repository   team/app",
        "  state        failed",
        "  reason       no key",
        "  began        2024-12-07 03:00:00",
        "  ended        2024-12-07 03:10:00",
        "#1 system  2024-12-07 03:00:00",
        "#3 model  2024-12-07 03:00:02",
        "      tool: github/get_issue",
        "#4 result  github/get_issue  2024-12-07 03:00:04",
        "call 2  command/run  2024-12-07 03:00:05  ERROR",
        "        command: make",
        "    no make",
        "summary 1  2024-12-07 03:00:08  stands for messages #1 to #2, saves 800 tokens",
        "    what was",
        "plan 1  initial  2024-12-07 03:00:06",
        "    goal: mend it",
        "      - mend",
        "    It was mended.",
        "  model        2 calls, 0 tokens in (0 cached), 0 out (not told for 2)",
    ] {
        assert!(text.lines().any(|shown| shown == line), "`{line}` is missing: {text}");
    }
    assert!(!text.contains("!!"), "nothing is damaged: {text}");
    let shown = shown(&world);
    assert_eq!(outline(&shown), "1 2 summary 3 4 call plan 5");
    assert_eq!(shown["entries"][4]["record"]["seq"], 1, "a result that is an object goes with its message");
    assert_eq!(
        (&shown["state"], &shown["task_identifier"], &shown["user"]),
        (&json!("failed"), &json!("123"), &Value::Null)
    );
    let status = world.run(&["status"]).expect(0).stdout;
    assert!(status.contains("  2024-12-07T03:10:00  failed     gitlab_mr   old: no key\n"), "{status}");
}

#[test]
fn an_empty_directory_and_files_that_are_none() {
    let world = with_directory();
    let text = text(&world);
    assert!(text.starts_with("Task old\n  state        completed\n  directory    contexts/completed/old\n"), "{text}");
    for missing in ["metadata.json", "messages.jsonl"] {
        assert!(text.contains(&format!("\n!! {missing} cannot be read: it is not there\n")), "{text}");
    }
    assert_eq!(shown(&world)["damage"].as_array().unwrap().len(), 2);
    let names =
        ["metadata.json", "messages.jsonl", "tools.jsonl", "summaries.jsonl", "outcome.json", "final_summary.txt"];
    for name in names {
        std::fs::create_dir(world.path(format!("contexts/completed/old/{name}"))).unwrap();
    }
    // A pipe that nobody writes to must not be waited for.
    let pipe = world.path("contexts/completed/old/planning.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", world.path("contexts/completed/old/parking.json")).unwrap();
    let text = self::text(&world);
    for name in names.iter().chain(&["planning.jsonl", "parking.json"]) {
        assert!(text.contains(&format!("!! {name} cannot be read: it is no regular file\n")), "{name}: {text}");
    }
    shown(&world);
}

#[test]
fn bad_lines_are_marked_and_the_rest_goes_on() {
    let world = with_directory();
    let line = |seq: u64| said(seq, "user", &format!("text {seq}"), AT).to_string().into_bytes();
    let mut bytes = Vec::new();
    for part in [&line(1)[..], b"{\"seq\":2", b"[1]", b"\xff\xfe", &line(3), b"", &[0; 512], b"7", &line(4)] {
        bytes.extend_from_slice(part);
        bytes.push(b'\n');
    }
    // Zeros before a good line, text that is no UTF-8, fields of the wrong kind, and a torn end.
    bytes.extend_from_slice(&[0; 100]);
    bytes.extend_from_slice(&line(5));
    bytes.extend_from_slice(b"\n{\"seq\":6,\"role\":\"user\",\"content\":\"a\xffb\",\"timestamp\":\"never\"}\n");
    bytes.extend_from_slice(
        br#"{"seq":"7","role":7,"content":{"a":1},"timestamp":[],"tokens":-1,"tool_calls":{},"usage":[]}"#,
    );
    bytes.extend_from_slice(b"\n{}\n");
    bytes.extend_from_slice(
        br#"{"seq":8,"role":"assistant","content":null,"tool_calls":[1,{"function":{"name":3,"arguments":"{"}}]}"#,
    );
    bytes.extend_from_slice(b"\n{\"seq\":9,\"role\":\"us");
    write_bytes(&world, "messages.jsonl", &bytes);
    let text = text(&world);
    for told in [
        "!! lines 2 to 4 of messages.jsonl cannot be read: it is no JSON from column 8 on\n",
        "!! lines 7 to 8 of messages.jsonl cannot be read: it holds zero bytes only\n",
        "!! line 15 of messages.jsonl cannot be read: it is torn off\n",
        "#6 user  never\n    a\u{fffd}b\n",
        "#7 7  []\n    a: 1\n",
        "#? nobody\n",
        "    calls  a tool without a name\n",
    ] {
        assert!(text.contains(told), "`{told}` is missing: {text}");
    }
    assert_eq!(outline(&shown(&world)), "1 damage 3 damage 4 5 6 7 null 8 damage");
}

#[test]
fn records_and_messages_that_lost_each_other() {
    let world = with_directory();
    let result = |seq: u64, text: &str| json!({ "seq": seq, "role": "tool", "content": text, "timestamp": AT, "tokens": 1, "tool_name": "run" });
    let record = |seq: u64, text: &str| json!({ "seq": seq, "tool_name": "run", "arguments": {}, "result": text, "error": null, "timestamp": AT, "exit_code": seq, "duration_ms": 5 });
    // Message `b` is lost, and the record of `d`; `e` never had one.
    write(&world, "messages.jsonl", &[result(1, "a"), result(3, "c"), result(4, "d"), result(5, "e"), result(6, "f")]);
    write(&world, "tools.jsonl", &[record(1, "a"), record(2, "b"), record(3, "c"), record(6, "f"), record(7, "g")]);
    let shown = shown(&world);
    assert_eq!(outline(&shown), "1 call 3 4 5 6 call");
    let codes: Vec<String> =
        shown["entries"].as_array().unwrap().iter().map(|entry| entry["record"]["exit_code"].to_string()).collect();
    assert_eq!(codes, ["1", "null", "3", "null", "null", "6", "null"]);
    assert_eq!((&shown["entries"][1]["result"], &shown["entries"][6]["result"]), (&json!("b"), &json!("g")));
    assert_eq!((&shown["cost"]["tool_calls"], &shown["cost"]["tool_ms"]), (&json!(5), &json!(25)));
    // The exit code in the result itself does where the record is lost.
    std::fs::remove_file(world.path("contexts/completed/old/tools.jsonl")).unwrap();
    write(&world, "messages.jsonl", &[result(1, r#"{"exit_code":4,"stdout":""}"#)]);
    assert!(
        text(&world)
            .contains(&format!("#1 result  run  {}  exit code 4\n", AT.replace('T', " ").replace("+00:00", "")))
    );
}

#[test]
fn summaries_stand_where_they_belong() {
    let world = with_directory();
    let messages: Vec<Value> = (1..=5).map(|seq| said(seq, "user", "x", AT)).collect();
    write(&world, "messages.jsonl", &messages);
    let summary = |id: u64, through: Option<u64>| json!({ "id": id, "summary": "s", "compressed_message_count": 2, "tokens_saved": 7, "created_at": AT, "through_seq": through });
    write(&world, "summaries.jsonl", &[summary(1, Some(2)), summary(2, Some(4)), summary(3, None)]);
    assert_eq!(outline(&shown(&world)), "1 2 summary 3 4 summary 5 summary");
    let text = text(&world);
    assert!(text.contains("stands for 2 messages up to #4, saves 7 tokens"), "{text}");
}

#[test]
fn a_database_that_is_missing_broken_or_locked() {
    let world = with_directory();
    write(&world, "messages.jsonl", &[said(1, "assistant", "x", AT)]);
    let database = world.path("contexts/tasks.db");
    std::fs::write(&database, "this is no database; ".repeat(500)).unwrap();
    let told = "!! tasks.db cannot be read: file is not a database";
    assert!(text(&world).contains(told), "{}", text(&world));
    assert_eq!(shown(&world)["cost"]["source"], "messages");
    let status = world.run(&["status"]).expect(0).stdout;
    assert!(status.ends_with("what it cost is missing: file is not a database\n"), "{status}");
    std::fs::write(&database, "").unwrap();
    assert!(text(&world).contains("1 call, 0 tokens in"));
    std::fs::remove_file(&database).unwrap();
    std::fs::create_dir(&database).unwrap();
    assert!(text(&world).contains("!! tasks.db cannot be read: "), "{}", text(&world));
    std::fs::remove_dir(&database).unwrap();
    // Somebody writes for a long time, in either mode.
    for mode in ["DELETE", "WAL"] {
        let connection = Connection::open(&database).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE IF NOT EXISTS tasks (uuid, status, task_type, task_identifier, repository, created_at, completed_at, error_message);
                 DELETE FROM tasks; INSERT INTO tasks VALUES ('old', 'stopped', 'x', 1, 'r', 't', 'u', NULL);
                 BEGIN EXCLUSIVE; UPDATE tasks SET status = 'changed'; CREATE TABLE more AS SELECT randomblob(100000);",
            )
            .unwrap();
        assert!(text(&world).contains("state        stopped"), "{mode}: {}", text(&world));
        drop(connection);
        std::fs::remove_file(&database).unwrap();
    }
}

#[test]
fn rows_with_anything_in_them() {
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").finishes("x"));
    world.run(&[]).expect(0);
    let uuid = world.names("contexts/completed").remove(0);
    let connection = Connection::open(world.path("contexts/tasks.db")).unwrap();
    connection
        .execute_batch(&format!(
            "UPDATE tasks SET completed_at = x'ff00', error_message = 3.5, task_identifier = NULL, repository = x'c3';
             INSERT INTO tasks (uuid, status, task_type, created_at, completed_at) VALUES (7, x'fe', 1.5, 'x', 9);
             INSERT INTO llm_calls VALUES ('{uuid}', 5, x'ff', 1, 2.5, 'many', -5, NULL, 'no', 9223372036854775807, x'00');
             INSERT INTO llm_calls VALUES ('{uuid}', '2024-12-07T03:00:00+00:00', 'loop', 'p', 'm', 9223372036854775807, 1, 2, 1, 9223372036854775807, NULL);
             INSERT INTO llm_calls VALUES ('{uuid}', '2024-12-07T03:00:00+00:00', 'loop', 'p', 'm', 9223372036854775807, 1, 2, 1, 9223372036854775807, NULL);
             INSERT INTO llm_calls VALUES ('unknown', '', '', '', '', 1, 1, 1, 0, 1, NULL);"
        ))
        .unwrap();
    drop(connection);
    let shown: Value = serde_json::from_str(&world.run(&["show", &uuid, "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&shown["cost"]["calls"], &shown["cost"]["failed_calls"]), (&json!(5), &json!(1)));
    assert_eq!(shown["cost"]["completion_tokens"], 22);
    world.run(&["show", &uuid]).expect(0);
    world.run(&["status"]).expect(0);
    let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&status["totals"]["all"]["calls"], &status["database_problem"]), (&json!(6), &Value::Null));
    let days: Vec<&Value> = status["totals"]["per_day"].as_array().unwrap().iter().map(|day| &day["day"]).collect();
    assert!(days.contains(&&json!("2024-12-07")) && days.contains(&&json!("5")), "{days:?}");
    assert_eq!(status["last_finished"].as_array().unwrap().len(), 2);
}

/// Does one kind of harm to a file.
fn damage(random: &mut Random, path: &Path) {
    let mut bytes = std::fs::read(path).unwrap_or_default();
    let place = random.below(bytes.len());
    match random.below(9) {
        0 => drop(std::fs::remove_file(path)),
        1 => bytes.truncate(place),
        2 => {
            for _ in 0..=random.below(8) {
                let place = random.below(bytes.len());
                bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte = random.next() as u8);
            }
        }
        3 => drop(bytes.splice(place..place, vec![0; random.below(5000)])),
        4 => drop(bytes.splice(place..place, (0..random.below(300)).map(|_| random.next() as u8).collect::<Vec<_>>())),
        5 => {
            let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let one = random.below(lines.len());
            if !lines.is_empty() && random.below(2) == 0 {
                lines.remove(one);
            } else if !lines.is_empty() {
                let two = random.below(lines.len());
                lines.swap(one, two);
            }
            bytes = lines.concat();
        }
        6 => {
            let value = random.one_of(&["null", "[]", "{}", "-1", "1e400", "\"x\"", "true", "9999999999999999999999"]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let colons: Vec<usize> = text.match_indices("\":").map(|(at, _)| at + 2).collect();
            if let Some(at) = colons.get(random.below(colons.len())) {
                let end = text[*at..].find([',', '}']).map_or(text.len(), |end| at + end);
                bytes = format!("{}{value}{}", &text[..*at], &text[end..]).into_bytes();
            }
        }
        7 => bytes = "[".repeat(random.below(10_000)).into_bytes(),
        _ => bytes = bytes.iter().copied().filter(|byte| *byte != b'\n').collect(),
    }
    if path.exists() {
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn whatever_is_damaged_show_shows_the_rest() {
    let world = World::with_task(
        &Cassette::new().creates("a.txt", "a\nb\n").runs("echo 終わり; exit 2").runs("true").finishes("x"),
    );
    world.run(&[]).expect(0);
    let uuid = world.names("contexts/completed").remove(0);
    let dir = world.path(format!("contexts/completed/{uuid}"));
    let summary = json!({ "id": 1, "summary": "s", "compressed_message_count": 2, "tokens_saved": 7, "created_at": AT, "through_seq": 4 });
    std::fs::write(dir.join("summaries.jsonl"), format!("{summary}\n")).unwrap();
    let plan = json!({ "id": 1, "plan_type": "initial", "plan_content": { "a": [1, { "b": "c" }] }, "created_at": AT });
    std::fs::write(dir.join("planning.jsonl"), format!("{plan}\n")).unwrap();
    std::fs::write(dir.join("parking.json"), r#"{"since_ms":1000,"count":9}"#).unwrap();
    let mut names = world.names(&format!("contexts/completed/{uuid}"));
    names.push("../../tasks.db".to_owned());
    let good: Vec<Vec<u8>> = names.iter().map(|name| std::fs::read(dir.join(name)).unwrap()).collect();
    let mut random = Random::new(77);
    for round in 0..150 {
        for (name, bytes) in names.iter().zip(&good) {
            std::fs::write(dir.join(name), bytes).unwrap();
        }
        for _ in 0..=random.below(4) {
            let name = &names[random.below(names.len())];
            damage(&mut random, &dir.join(name));
        }
        let form: &[&str] = if round % 2 == 0 { &["show", &uuid] } else { &["show", &uuid, "--full"] };
        let text = world.run(form).expect(0);
        assert!(text.stdout.starts_with("Task ") && text.stderr.is_empty(), "{round}: {text:?}");
        let ended = world.run(&["show", &uuid, "--json"]).expect(0);
        let shown: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{round}: {error}: {ended:?}"));
        assert!(shown["cost"]["calls"].is_u64() && shown["entries"].is_array(), "{round}");
        let status = world.run(&["status", "--json"]).expect(0).stdout;
        assert!(serde_json::from_str::<Value>(&status).is_ok(), "{round}: {status}");
    }
}

#[test]
fn memory_does_not_grow_with_the_history() {
    let world = with_directory();
    // Address space in KiB. An empty directory needs some 18,000; these histories held in memory would
    // need twice the rest.
    let limited = |form: &str, limit_kib: u32| {
        let script = format!("ulimit -v {limit_kib}; exec '{BINARY}' show old {form}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(world.path(".")).env_clear();
        let output = command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap();
        assert!(output.status.success(), "{form}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let history = |count: usize| {
        let line = |seq: usize| {
            let role = ["assistant", "user"][seq % 2];
            format!("{{\"seq\":{seq},\"role\":\"{role}\",\"content\":\"m\",\"timestamp\":\"{AT}\"}}\n")
        };
        world.write("contexts/completed/old/messages.jsonl", &(1..=count).map(line).collect::<String>());
    };
    history(100_000);
    let text = limited("", 40_000);
    assert!(text.contains("\n#100000 model  ") && text.contains("  50000 calls, "), "to its end");
    history(40_000);
    let json = limited("--json", 28_000);
    assert_eq!(json.lines().filter(|line| line.starts_with("{\"at\":")).count(), 40_000);
    // One line that alone is larger than the whole limit.
    world.write("contexts/completed/old/messages.jsonl", &"x".repeat(45_000_000));
    assert!(limited("", 40_000).contains("!! line 1 of messages.jsonl cannot be read: it is longer than 8 MiB"));
}

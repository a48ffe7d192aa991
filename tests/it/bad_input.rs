//! What is wrong on the outside: one clear sentence each, the right outcome, nothing lost.

use crate::support::{Cassette, World, says};

fn fixing() -> Cassette {
    Cassette::new().creates("fixed.txt", "fixed\n").finishes("Fixed.")
}

#[test]
fn no_git() {
    let world = World::with_task(&fixing());
    let ended = world.command(&[]).env("PATH", world.path("home")).output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(78), "{stderr}");
    assert!(stderr.contains("cannot find the program `git`"), "{stderr}");
    assert!(stderr.contains("hint: install git"), "{stderr}");
    assert_eq!(world.names("spool/queue").len(), 1, "no attempt was spent");
    assert!(world.names("spool/queue")[0].contains(".a0."));
    world.run(&[]).expect(0);
    world.assert_settled();
}

#[test]
fn no_repository() {
    let world = World::with_task(&fixing());
    let text = world.read("tasks/fix.md").replace("../widgets", "../gone");
    world.write("tasks/fix.md", &text);
    world.run(&[]).expect(1);
    world.assert_settled();
    let comment = world.comments("fix");
    assert!(comment.contains("there is no such repository, or we may not see it"), "{comment}");
    assert!(!comment.contains("fatal:"), "no raw chain: {comment}");
    assert_eq!(world.labels("fix"), ["coding agent failed"]);
}

#[test]
fn an_issue_without_a_repository_line() {
    let world = World::with_task(&fixing());
    let text = world.read("tasks/fix.md").replace("repository: ../widgets\n", "");
    world.write("tasks/fix.md", &text);
    world.run(&[]).expect(1);
    world.assert_settled();
    assert!(world.comments("fix").contains("repository"), "{}", world.comments("fix"));
}

#[test]
fn c50_a_repository_without_commits() {
    let world = World::with_task(&fixing());
    std::fs::remove_dir_all(world.path("widgets")).unwrap();
    std::fs::create_dir(world.path("widgets")).unwrap();
    crate::support::git(&world.path("widgets"), &["init", "--quiet"]);
    world.run(&[]).expect(1);
    world.assert_settled();
    assert!(world.comments("fix").contains("has no commits yet"), "{}", world.comments("fix"));
}

#[test]
fn an_unreadable_issue_file_stops_nobody_else() {
    let world = World::with_task(&fixing());
    world.write("tasks/broken.md", "---\nlabels: [coding agent\n---\n");
    std::fs::write(world.path("tasks/latin.md"), b"---\ntitle: caf\xe9\n---\n").unwrap();
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains("broken.md") && ended.stderr.contains("latin.md"), "{ended:?}");
    assert_eq!(world.labels("fix"), ["coding agent done"]);
    assert_eq!(world.read("tasks/broken.md"), "---\nlabels: [coding agent\n---\n", "untouched");
}

#[test]
fn an_issue_file_that_breaks_while_it_waits() {
    let world = World::with_task(&fixing());
    world.run(&["--mode", "producer"]).expect(0);
    world.write("tasks/fix.md", "now it is no issue at all\n");
    world.run(&["--mode", "consumer"]).expect(1);
    world.assert_settled();
    assert_eq!(world.read("tasks/fix.md"), "now it is no issue at all\n");
    assert_eq!(world.query("SELECT status FROM tasks"), ["failed"]);
    assert_eq!(world.final_comments("fix"), 1, "told where it can be told");
    assert!(world.outcome()["refusals"].to_string().contains("fix.md"), "{}", world.outcome());
}

#[test]
fn no_tasks_directory() {
    let world = World::new();
    world.replies(&fixing());
    std::fs::remove_dir(world.path("tasks")).unwrap();
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("local.tasks_dir"), "{ended:?}");
}

#[test]
fn no_cassette() {
    let world = World::with_task(&fixing());
    std::fs::remove_file(world.path("replies.jsonl")).unwrap();
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("there is no such file"), "{ended:?}");
    assert_eq!(world.labels("fix"), ["coding agent processing"]);
    assert_eq!(world.names("spool/queue").len(), 1);
    world.replies(&fixing());
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), ["coding agent done"]);
}

#[test]
fn a_cassette_that_ends_early() {
    let world = World::with_task(&Cassette::new().creates("half.txt", "half\n"));
    world.run(&[]).expect(1);
    world.assert_settled();
    let comment = world.comments("fix");
    assert!(comment.contains("end after 1 turns"), "{comment}");
    assert_eq!(world.file_on("coding-agent/issue-fix", "half.txt"), "half");
}

#[test]
fn an_empty_reply_is_no_end() {
    let world = World::with_task(&Cassette::new().then(says("")).creates("fixed.txt", "x\n").finishes("Fixed."));
    world.run(&[]).expect(0);
    assert_eq!(world.file_on("coding-agent/issue-fix", "fixed.txt"), "x");
}

#[test]
fn a_task_directory_that_cannot_be_written() {
    let world = World::with_task(&fixing());
    world.write("contexts", "a file where the directory should be\n");
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("`contexts`") || ended.stderr.contains("contexts/"), "{ended:?}");
    std::fs::remove_file(world.path("contexts")).unwrap();
    world.run(&[]).expect(0);
    world.assert_settled();
}

#[test]
fn c46_strange_things_in_the_spool() {
    let world = World::with_task(&fixing());
    world.run(&["--mode", "producer"]).expect(0);
    let good = world.names("spool/queue").remove(0);
    let text = world.read(format!("spool/queue/{good}"));
    let named = |uuid: &str, ms: u64| format!("{ms:013}-0123456789abcdef-{uuid}.a0.json");
    let uuids: Vec<String> = (1..=5).map(|digit| format!("00000000-0000-4000-8000-00000000000{digit}")).collect();
    world.write("spool/tmp/1.json.tmp", "{");
    world.write(&format!("spool/queue/{}", named(&uuids[0], 1)), "");
    world.write(&format!("spool/queue/{}", named(&uuids[1], 2)), &text.replace("\"version\":1", "\"version\":7"));
    world.write(&format!("spool/queue/{}", named(&uuids[2], 3)), &text);
    world.write("spool/queue/notes.txt", "a person's notes");
    world.write(&format!("spool/running/{}", named(&uuids[3], 4)), &text[..text.len() / 2]);
    world.write("spool/deferred/0.nonsense.json", "x");
    let ended = world.run(&[]).expect(0);
    for name in [&named(&uuids[0], 1), &named(&uuids[1], 2), &named(&uuids[2], 3), &named(&uuids[3], 4)] {
        assert!(world.names("spool/corrupt").contains(name), "{name}: {:?}", world.names("spool/corrupt"));
        assert!(ended.stderr.contains(name.as_str()), "{name}: {ended:?}");
    }
    assert!(world.names("spool/corrupt").contains(&"notes.txt".to_owned()));
    assert_eq!(world.labels("fix"), ["coding agent done"], "the good one is done all the same");
    assert_eq!(world.final_comments("fix"), 1);
    let status = world.run(&["status"]).expect(0).stdout;
    assert!(status.contains("Unreadable: 6"), "{status}");
    assert_eq!(world.names("spool/tmp"), ["1.json.tmp"], "young: it may belong to a living producer");
}

#[test]
fn ten_kinds_of_mistakes_in_the_configuration() {
    let rows = [
        ("task_sorce: local\n", "task_source"),
        ("task_source: jira\n", "task_source"),
        ("queue: {max_attempts: zero}\n", "queue.max_attempts"),
        ("queue: {max_attempts: 0}\n", "queue.max_attempts"),
        ("github: {bot_label: }\n", "github.bot_label"),
        ("llm: {provider: replay, replay: {file: replies.jsonl, fle: x}}\n", "file"),
        ("text_editor_mcp: {enabled: \"false\"}\n", "text_editor_mcp.enabled"),
        ("queue: {dir: a}\nqueue: {dir: b}\n", "queue"),
        ("local:\n\ttasks_dir: x\n", "tab"),
        (
            "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl}}\nplanning: {enabled: true}\n",
            "planning.enabled",
        ),
        ("- a list\n", "config.yaml"),
    ];
    for (yaml, named) in rows {
        let world = World::with_task(&fixing());
        world.write("config.yaml", yaml);
        let ended = world.run(&[]).expect(78);
        let lines: Vec<&str> = ended.stderr.lines().filter(|line| !line.starts_with("hint:")).collect();
        assert_eq!(lines.len(), 1, "{yaml:?}: one sentence: {}", ended.stderr);
        assert!(lines[0].contains(named) && lines[0].contains("config.yaml"), "{yaml:?}: {}", lines[0]);
        assert_eq!(world.labels("fix"), ["coding agent"], "nothing was touched");
        assert!(!world.path("spool").exists(), "nothing was made");
    }
}

#[test]
fn a_full_disk_is_told_with_its_remedy() {
    let world = World::with_task(&fixing());
    let output = world.command(&[]).env("CODING_AGENT_FAULT_IO", "12+:ENOSPC").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{stderr}");
    assert!(stderr.contains("the disk is full") && stderr.contains("free some space"), "{stderr}");
    world.run(&[]).expect(0);
    world.assert_settled();
}

#[test]
fn a_task_of_another_source_is_kept_and_not_failed() {
    let world = World::with_task(&fixing());
    world.run(&["status"]).expect(0);
    world.run(&["--mode", "producer"]).expect(0);
    let github = include_str!("../fixtures/spool_entries.jsonl").lines().next().unwrap();
    let uuid = "5f2b6a52-6a0c-4c7e-9d0e-0f1f5a3c1b01";
    world.write(&format!("spool/queue/{:013}-0123456789abcdef-{uuid}.a0.json", 1), github);
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains("it belongs to task_source github"), "{ended:?}");
    assert_eq!(world.labels("fix"), ["coding agent done"]);
    let deferred = world.names("spool/deferred");
    assert!(deferred.len() == 1 && deferred[0].contains(uuid), "{deferred:?}");
}

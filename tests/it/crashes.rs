//! The crash table: the process dies at a named point, is started again, and the end is the same as
//! if it had not died. Nothing lost, nothing doubled, no command run twice by us.

use crate::support::{Cassette, History, World, check_strictly, eventually, git, says};

const BRANCH: &str = "coding-agent/issue-fix";

/// Every command leaves one line outside the tree, so that we can count how often it ran.
fn counting() -> Cassette {
    Cassette::new()
        .runs("echo one >> ../../../ran; echo 1 > one.txt")
        .runs("echo two >> ../../../ran; echo 2 > two.txt")
        .finishes("Both files are there.")
}

/// What must hold after recovery, whatever happened before.
#[track_caller]
fn assert_right_in_the_end(world: &World, what: &str) {
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent done"], "{what}");
    assert_eq!(world.final_comments("fix"), 1, "{what}: {}", world.comments("fix"));
    assert_eq!(world.branches(), [BRANCH], "{what}");
    assert_eq!(world.names("contexts/completed").len(), 1, "{what}");
    assert_eq!(world.names("contexts/paused").len(), 0, "{what}");
    assert_eq!(world.names("workspaces").len(), 0, "{what}");
    assert_eq!(world.query("SELECT status FROM tasks"), ["completed"], "{what}");
    let history = world.history();
    check_strictly(&history);
    check_strictly(&History::read(&world.context("completed").join("current.jsonl")));
    assert_eq!(history.replies(), 3, "{what}: no turn was paid twice");
    let ran = std::fs::read_to_string(world.path("ran")).unwrap_or_default();
    for (word, index) in [("one", 0), ("two", 1)] {
        let times = ran.lines().filter(|line| *line == word).count();
        let interrupted = history.results()[index].starts_with("Interrupted");
        assert!(times <= 1, "{what}: `{word}` ran {times} times");
        assert!(times == 1 || interrupted, "{what}: `{word}` never ran and was not said to be interrupted");
        if !interrupted {
            let digit = if word == "one" { "1" } else { "2" };
            assert_eq!(world.file_on(BRANCH, &format!("{word}.txt")), digit, "{what}");
        }
    }
}

/// Dies at the n-th passing of `point`, for every n there is, and recovers.
fn dies_at_every(point: &str, at_least: u32) {
    for nth in 1.. {
        let world = World::with_task(&counting());
        let report = world.path("fired");
        let output = world
            .command(&[])
            .env("CODING_AGENT_FAULT_POINT", format!("{point}:{nth}"))
            .env("CODING_AGENT_FAULT_REPORT", &report)
            .output()
            .unwrap();
        if !report.exists() {
            assert_eq!(output.status.code(), Some(0));
            assert!(nth > at_least, "`{point}` was passed only {} times", nth - 1);
            return;
        }
        assert_eq!(output.status.code(), None, "killed");
        world.run(&[]).expect(0);
        assert_right_in_the_end(&world, &format!("{point}:{nth}"));
    }
}

#[test]
fn before_the_link_the_temporary_is_removed_when_it_is_old() {
    let world = World::with_task(&counting());
    world.run_to_crash(&[], "spool.publish.written");
    assert_eq!(world.labels("fix"), ["coding agent"], "nobody has it");
    let left = world.names("spool/tmp");
    assert_eq!(left.len(), 1);
    world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(world.names("spool/tmp"), left, "a young one may belong to a living producer");
    world.age_temporaries();
    world.run(&[]).expect(0);
    assert_right_in_the_end(&world, "before the link");
}

#[test]
fn between_link_and_label_the_consumer_sets_the_label() {
    let world = World::with_task(&counting());
    world.run_to_crash(&["--mode", "producer"], "spool.publish.linked");
    assert_eq!((world.names("spool/queue").len(), world.labels("fix")), (1, vec!["coding agent".to_owned()]));
    // A producer that comes by does not queue it twice.
    world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(world.names("spool/queue").len(), 1);
    world.run(&["--mode", "consumer"]).expect(0);
    assert_right_in_the_end(&world, "between link and label");
}

#[test]
fn after_the_claim() {
    dies_at_every("spool.claimed", 1);
    dies_at_every("context.opened", 1);
}

#[test]
fn while_cloning() {
    let world = World::with_task(&counting());
    world.run_to_crash(&[], "workspace.repo.part");
    let uuid = world.names("workspaces").remove(0);
    assert!(world.path(format!("workspaces/{uuid}/repo.git.part")).exists());
    world.run(&[]).expect(0);
    assert_right_in_the_end(&world, "while cloning");
    dies_at_every("workspace.tree.part", 1);
}

#[test]
fn inside_an_append() {
    for cut in [1, 2, 30, 200] {
        for file in ["messages.jsonl", "current.jsonl"] {
            let world = World::with_task(&counting());
            world.run_to_crash(&[], "loop.turn:2");
            let path = world.context("running").join(file);
            let bytes = std::fs::read(&path).unwrap();
            let last_line = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            let keep = (bytes.len() - cut).max(last_line + 1);
            std::fs::write(&path, &bytes[..keep]).unwrap();
            if file == "messages.jsonl" {
                // The archive is written first: what it lacks, current.jsonl lacks too.
                let current = world.context("running").join("current.jsonl");
                let text = std::fs::read_to_string(&current).unwrap();
                let whole: Vec<&str> = text.lines().collect();
                std::fs::write(&current, whole[..whole.len() - 1].join("\n") + "\n").unwrap();
            }
            world.run(&[]).expect(0);
            assert!(world.context("completed").join(format!("{file}.torn")).exists(), "{file} - {cut}");
            assert_right_in_the_end(&world, &format!("{file} cut by {cut}"));
        }
    }
}

#[test]
fn between_archive_and_current() {
    dies_at_every("context.archived", 8);
}

#[test]
fn after_a_tool_ran_and_before_its_result() {
    dies_at_every("loop.tool_ran", 2);
}

#[test]
fn around_a_turn() {
    dies_at_every("loop.replied", 3);
    dies_at_every("loop.turn", 3);
}

#[test]
fn a_killed_command_leaves_no_process_and_no_lock() {
    let world = World::with_task(
        &Cassette::new().runs("touch .git/index.lock ready; sleep 300 & sleep 300").runs("git status").finishes("x"),
    );
    let mut child = world.spawn(&[]);
    let ready =
        || world.names("workspaces").iter().any(|uuid| world.path(format!("workspaces/{uuid}/tree/ready")).exists());
    eventually(|| ready().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    world.run(&[]).expect(0);
    world.assert_settled();
    let history = world.history();
    assert!(history.results()[0].starts_with("Interrupted"));
    assert!(history.results()[1].contains("\"exit_code\":0"), "{}", history.results()[1]);
    let uuid = &world.names("contexts/completed")[0];
    let mark = format!("CODING_AGENT_TASK={uuid}");
    for entry in std::fs::read_dir("/proc").unwrap() {
        let environ = std::fs::read(entry.unwrap().path().join("environ")).unwrap_or_default();
        assert!(!environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()), "a process is left");
    }
}

#[test]
fn between_any_two_steps_of_finishing() {
    for point in [
        "finish.decided",
        "finish.commit",
        "workspace.pushed",
        "finish.push",
        "finish.pull_request",
        "finish.summary",
        "finish.comment",
        "finish.label_added",
        "workspace.unmarked",
        "finish.labels",
    ] {
        dies_at_every(point, 1);
    }
}

#[test]
fn after_the_row_and_after_the_move() {
    for point in ["finish.row", "finish.workspace_removed", "finish.moved"] {
        let world = World::with_task(&counting());
        world.run_to_crash(&[], point);
        assert_eq!(world.query("SELECT status FROM tasks"), ["completed"], "{point}");
        let place = if point == "finish.moved" { "completed" } else { "running" };
        assert_eq!(world.names(&format!("contexts/{place}")).len(), 1, "{point}");
        world.run(&[]).expect(0);
        assert_right_in_the_end(&world, point);
    }
}

#[test]
fn inside_every_replaced_file() {
    dies_at_every("file.replace.written", 10);
}

#[test]
fn twice_in_a_row_at_different_places() {
    for (first, second) in
        [("loop.turn", "loop.tool_ran"), ("finish.push", "finish.comment"), ("finish.comment", "finish.moved")]
    {
        let world = World::with_task(&counting());
        world.run_to_crash(&[], first);
        world.run_to_crash(&[], second);
        world.run(&[]).expect(0);
        assert_right_in_the_end(&world, &format!("{first}, {second}"));
    }
}

#[test]
fn while_pausing_and_while_resuming() {
    for point in ["finish.decided", "finish.comment", "finish.labels", "finish.moved"] {
        let world = World::with_task(
            &Cassette::new()
                .runs("echo one >> ../../../ran; echo 1 > one.txt")
                .runs("touch ../../../contexts/pause_signal")
                .finishes("x"),
        );
        world.run_to_crash(&[], point);
        // The operator wants it paused: the next run changes nothing while the signal is up.
        world.run(&[]).expect(0);
        std::fs::remove_file(world.path("contexts/pause_signal")).unwrap();
        for _ in 0..3 {
            world.run(&[]).expect(0);
        }
        world.assert_settled();
        assert_eq!(world.names("contexts/paused").len(), 0, "{point}");
        assert_eq!(world.labels("fix"), ["coding agent done"], "{point}");
        assert_eq!(world.final_comments("fix"), 1, "{point}");
        assert_eq!(world.comments("fix").matches(":paused-").count(), 1, "{point}: {}", world.comments("fix"));
        assert_eq!(world.history().replies(), 3, "{point}");
        assert_eq!(world.read("ran"), "one\n", "{point}");
    }
}

#[test]
fn a_continued_branch_is_not_lost_when_its_push_was_not_noted() {
    let world = World::with_task(&counting());
    world.run_to_crash(&[], "workspace.pushed");
    let pushed = git(&world.path("widgets"), &["rev-parse", BRANCH]);
    world.run(&[]).expect(0);
    assert_eq!(git(&world.path("widgets"), &["rev-parse", BRANCH]), pushed, "the same commit, not another one");
    assert_right_in_the_end(&world, "pushed");
}

#[test]
fn locks_that_a_killed_git_left_in_either_repository_are_removed() {
    let world = World::with_task(&counting());
    world.run_to_crash(&[], "finish.commit");
    let workspace = world.path(format!("workspaces/{}", world.names("workspaces")[0]));
    std::fs::create_dir_all(workspace.join("repo.git/refs/coding-agent")).unwrap();
    for lock in [
        "repo.git/refs/coding-agent/work.lock",
        "repo.git/packed-refs.lock",
        "tree/.git/index.lock",
        "tree/.git/HEAD.lock",
    ] {
        std::fs::write(workspace.join(lock), "").unwrap();
    }
    world.run(&[]).expect(0);
    assert_right_in_the_end(&world, "stale locks");
}

#[test]
fn a_comment_made_in_work_is_posted_once_whenever_the_process_dies() {
    for point in ["loop.turn", "loop.said", "loop.tool_ran"] {
        let call =
            r#"{"comment":"I begin.","command":{"tool":"command-executor/execute_command","args":{"command":"true"}}}"#;
        let cassette = Cassette::new().then(says(call)).then(says(r#"{"done":true,"comment":"Done."}"#));
        let mut world = World::with_task(&cassette);
        world.set_env("FUNCTION_CALLING", "false");
        world.run_to_crash(&[], point);
        world.run(&[]).expect(0);
        world.assert_settled();
        let comments = world.comments("fix");
        assert_eq!(comments.matches("> I begin.").count(), 1, "{point}: {comments}");
    }
}

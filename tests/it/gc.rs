//! `gc`: what is old goes, what is not finished stays, and the database can be made again.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::{Cassette, World, finish};

fn fixing() -> Cassette {
    Cassette::new().creates("fixed.txt", "fixed\n").finishes("I fixed it.")
}

/// Makes a file or directory with all in it last touched so many days ago.
fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400 + 60);
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            age(&entry.unwrap().path(), days);
        }
    }
    std::fs::File::open(path).unwrap().set_modified(then).unwrap();
}

fn names_below(world: &World) -> Vec<String> {
    let mut names = Vec::new();
    let mut left = vec![world.path("")];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            names.push(path.display().to_string());
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
            }
        }
    }
    // The lock and what SQLite makes while it is open say nothing.
    names.retain(|name| !name.contains("/gc.") && !name.contains("tasks.db-"));
    names.sort();
    names
}

/// One finished task, one that failed with a workspace that was kept.
fn with_finished_tasks() -> World {
    let world = World::with_task(&fixing());
    world.run(&[]).expect(0);
    world.write("widgets/.git/hooks/pre-receive", "#!/bin/sh\nexit 1\n");
    make_executable(&world.path("widgets/.git/hooks/pre-receive"));
    world.issue("other", "coding agent");
    world.run(&[]).expect(1);
    assert_eq!((world.names("contexts/completed").len(), world.names("workspaces").len()), (2, 1));
    world
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_old_goes_and_what_is_young_stays() {
    let world = with_finished_tasks();
    let out = world.run(&["gc"]).expect(0).stdout;
    assert!(out.contains("nothing is old enough to be removed") && out.contains("compacted the database"), "{out}");
    age(&world.path("contexts/completed"), 29);
    age(&world.path("workspaces"), 29);
    world.run(&["gc"]).expect(0);
    assert_eq!((world.names("contexts/completed").len(), world.names("workspaces").len()), (2, 1));
    age(&world.path("contexts/completed"), 30);
    age(&world.path("workspaces"), 30);
    // One file that was written lately makes the whole directory young.
    let kept = world.names("contexts/completed")[0].clone();
    age(&world.path(format!("contexts/completed/{kept}/messages.jsonl")), 2);
    let out = world.run(&["gc"]).expect(0).stdout;
    assert!(out.contains("removed the finished context `contexts/completed/"), "{out}");
    assert!(out.contains("removed the workspace `workspaces/") && out.contains("removed 2 things, "), "{out}");
    assert_eq!(world.names("contexts/completed"), [kept]);
    assert_eq!(world.names("workspaces"), [""; 0]);
    assert_eq!(world.query("SELECT count(*) FROM tasks"), ["2"], "the record stays");
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let world = with_finished_tasks();
    age(&world.path("contexts/completed"), 31);
    age(&world.path("workspaces"), 31);
    let before = names_below(&world);
    let out = world.run(&["gc", "--dry-run"]).expect(0).stdout;
    assert!(out.contains("would remove 3 things, "), "{out}");
    assert_eq!(out.matches("would remove the finished context").count(), 2, "{out}");
    assert_eq!(names_below(&world), before);
}

#[test]
fn what_is_not_finished_is_never_touched() {
    let pause = "touch ../../../contexts/pause_signal";
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").runs(pause).finishes("Done."));
    world.run(&[]).expect(0);
    std::fs::remove_file(world.path("contexts/pause_signal")).unwrap();
    world.issue("other", "coding agent");
    // The paused task goes on with the third reply.
    world.replies(&Cassette::new().creates("fixed.txt", "fixed\n").runs("true").finishes("I fixed it."));
    std::fs::rename(world.path("contexts/paused"), world.path("aside")).unwrap();
    world.run_to_crash(&[], "loop.turn");
    std::fs::rename(world.path("aside"), world.path("contexts/paused")).unwrap();
    for dir in ["contexts/running", "contexts/paused", "workspaces", "spool"] {
        age(&world.path(dir), 400);
    }
    let before = names_below(&world);
    let out = world.run(&["gc"]).expect(0).stdout;
    assert!(out.contains("nothing is old enough"), "{out}");
    assert_eq!(names_below(&world), before);
    world.run(&[]).expect(0);
    world.assert_settled();
}

#[test]
fn a_finished_task_with_an_entry_keeps_its_context() {
    let world = World::with_task(&fixing());
    world.run_to_crash(&[], "finish.moved");
    age(&world.path("contexts/completed"), 90);
    world.run(&["gc"]).expect(0);
    assert_eq!(world.names("contexts/completed").len(), 1, "without it the task would be done again");
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.final_comments("fix"), 1);
    age(&world.path("contexts/completed"), 90);
    world.run(&["gc"]).expect(0);
    assert_eq!(world.names("contexts/completed"), [""; 0]);
}

#[test]
fn given_up_entries_go_and_strangers_stay() {
    let world = World::with_task(&fixing());
    world.configure("context_storage: {cleanup_days: 2}");
    world.run(&["--mode", "producer"]).expect(0);
    let name = world.names("spool/queue").remove(0);
    std::fs::create_dir_all(world.path("spool/gave_up")).unwrap();
    std::fs::rename(world.path(format!("spool/queue/{name}")), world.path(format!("spool/gave_up/{name}"))).unwrap();
    world.write("spool/gave_up/notes.txt", "mine\n");
    for dir in ["contexts/completed/mine", "workspaces/mine"] {
        std::fs::create_dir_all(world.path(dir)).unwrap();
    }
    std::os::unix::fs::symlink(world.path("home"), world.path("workspaces/5f2b6a52-6a0c-4c7e-9d0e-0f1f5a3c1b01"))
        .unwrap();
    for dir in ["spool/gave_up", "contexts/completed", "home"] {
        age(&world.path(dir), 3);
    }
    world.run(&["gc"]).expect(0);
    assert_eq!(world.names("spool/gave_up"), ["notes.txt"]);
    assert_eq!(world.names("contexts/completed"), ["mine"]);
    assert_eq!(world.names("workspaces").len(), 2);
    assert!(world.path("home").is_dir());
}

#[test]
fn it_runs_by_itself_once_a_day() {
    let world = with_finished_tasks();
    age(&world.path("contexts/completed"), 31);
    world.run(&[]).expect(0);
    assert_eq!(world.names("contexts/completed").len(), 2, "it has run today");
    age(&world.path("contexts/gc.stamp"), 1);
    world.run(&[]).expect(0);
    assert_eq!(world.names("contexts/completed").len(), 0);
    assert!(world.read("logs/agent.log").contains("gc: removed 2 things"));
    age(&world.path("contexts/gc.stamp"), 1);
    world.run(&["--mode", "producer"]).expect(0);
    assert!(world.read("logs/agent.log").contains("gc: nothing is old enough"), "a producer alone as well");
}

#[test]
fn the_database_is_made_again_from_the_directories() {
    let world = with_finished_tasks();
    let facts = || {
        [
            "SELECT uuid || ' ' || status || ' ' || task_type || ' ' || task_identifier || ' ' || repository || ' ' || user
               || ' ' || created_at || ' ' || COALESCE(error_message, '-') FROM tasks ORDER BY uuid",
            "SELECT total_messages || ' ' || total_summaries || ' ' || total_tool_calls || ' ' || final_token_count
               || ' ' || final_message_count FROM tasks ORDER BY uuid",
            "SELECT uuid || ' ' || count(*) || ' ' || sum(prompt_tokens) || ' ' || sum(completion_tokens)
               FROM llm_calls GROUP BY uuid ORDER BY uuid",
        ]
        .map(|sql| world.query(sql))
    };
    let before = facts();
    assert_eq!(before[0].len(), 2);
    // Where it is whole nothing changes.
    let out = world.run(&["gc", "--rebuild-db"]).expect(0).stdout;
    assert!(out.contains("made the database's rows of 2 tasks again"), "{out}");
    assert_eq!(facts(), before);
    let out = world.run(&["gc", "--dry-run"]).expect(0).stdout;
    assert!(!out.contains("damaged"), "{out}");
    for damage in ["gone", "garbage", "cut"] {
        let path = world.path("contexts/tasks.db");
        match damage {
            "gone" => std::fs::remove_file(&path).unwrap(),
            "garbage" => std::fs::write(&path, "no database".repeat(1000)).unwrap(),
            _ => std::fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap(),
        }
        if damage != "gone" {
            let out = world.run(&["gc"]).expect(0).stdout;
            assert!(out.contains("the database is damaged; `coding-agent gc --rebuild-db`"), "{damage}: {out}");
        }
        world.run(&["gc", "--rebuild-db"]).expect(0);
        assert_eq!(facts(), before, "{damage}");
        assert_eq!(world.path("contexts/tasks.db.broken").exists(), damage != "gone", "{damage}");
    }
}

#[test]
fn directories_of_the_earlier_program_get_rows_too() {
    let world = World::new();
    let uuid = "5f2b6a52-6a0c-4c7e-9d0e-0f1f5a3c1b01";
    let dir = format!("contexts/completed/{uuid}");
    std::fs::create_dir_all(world.path(&dir)).unwrap();
    world.write(
        &format!("{dir}/metadata.json"),
        "{\"task_type\": \"github_issue\", \"task_identifier\": \"7\", \"repository\": \"a/b\", \"user\": \"c\"}",
    );
    world.write(
        &format!("{dir}/messages.jsonl"),
        "{\"seq\":1,\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"2024-12-07T03:00:00\"}\n{broken\n",
    );
    world.run(&["gc", "--rebuild-db"]).expect(0);
    assert_eq!(
        world.query("SELECT uuid || ' ' || status || ' ' || task_identifier || ' ' || completed_at || ' ' || total_messages FROM tasks"),
        [format!("{uuid} completed 7 2024-12-07T03:00:00+00:00 1")]
    );
}

#[test]
fn a_task_that_gave_up_has_the_same_row_again() {
    let world = World::with_task(&Cassette::new().then(finish("blocked", "No idea.")));
    world.run(&[]).expect(1);
    let sql = "SELECT status || ' ' || error_message FROM tasks";
    let before = world.query(sql);
    std::fs::remove_file(world.path("contexts/tasks.db")).unwrap();
    world.run(&["gc", "--rebuild-db"]).expect(0);
    assert_eq!(world.query(sql), before);
}

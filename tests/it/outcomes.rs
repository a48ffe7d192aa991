//! Every row of the outcome table, end to end with the built program.

use crate::support::{Cassette, World, call, check_strictly, eventually, finish, git, says};
use serde_json::json;

const DONE: &[&str] = &["coding agent done"];
const FAILED: &[&str] = &["coding agent failed"];
const PROCESSING: &[&str] = &["coding agent processing"];
const BRANCH: &str = "coding-agent/issue-fix";

fn fixing() -> Cassette {
    Cassette::new().creates("fixed.txt", "fixed\n").runs("cat fixed.txt").finishes("I fixed it.")
}

#[test]
fn tokens_that_the_server_does_not_tell_are_estimated() {
    let mut reply = finish("done", "Done.");
    reply.as_object_mut().unwrap().remove("usage");
    let world = World::with_task(&Cassette::new().creates("a", "a\n").then(reply));
    world.run(&[]).expect(0);
    let sum = |column: &str| world.query(&format!("SELECT sum({column}) FROM llm_calls")).concat();
    let (read, written) = (sum("prompt_tokens"), sum("completion_tokens"));
    assert!(read.parse::<u64>().unwrap() > 100, "{read}");
    let comment = world.comments("fix");
    assert!(comment.contains(&format!("about {read} tokens read and about {written} written")), "{comment}");
}

#[test]
fn completed() {
    let world = World::with_task(&fixing());
    let ended = world.run(&[]).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""), "silent on success");
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.file_on(BRANCH, "fixed.txt"), "fixed");
    assert_eq!(world.file_on(BRANCH, "README"), "widgets");
    let sha = git(&world.path("widgets"), &["rev-parse", BRANCH]);
    let comment = world.comments("fix");
    assert!(comment.contains(&format!("The work is on the branch `{BRANCH}` at {sha}.")), "{comment}");
    assert!(comment.contains("`cat fixed.txt` ended with exit code 0"), "{comment}");
    assert!(comment.contains("> I fixed it."), "{comment}");
    assert_eq!(world.final_comments("fix"), 1);
    let context = world.context("completed");
    for file in ["metadata.json", "messages.jsonl", "current.jsonl", "tools.jsonl", "outcome.json", "final_summary.txt"]
    {
        assert!(context.join(file).exists(), "{file}");
    }
    let summary = std::fs::read_to_string(context.join("final_summary.txt")).unwrap();
    let expected = format!(
        "local/issue/fix: completed\nTitle: Fix fix\nBranch: {BRANCH}\nCommand (exit code 0): cat fixed.txt\n\nI fixed it.\n"
    );
    assert_eq!(summary, expected);
    check_strictly(&world.history());
    assert_eq!(world.query("SELECT status FROM tasks"), ["completed"]);
    assert_eq!(world.query("SELECT total_messages FROM tasks"), ["8"]);
    assert_eq!(world.query("SELECT total_tool_calls FROM tasks"), ["2"]);
    assert_eq!(world.query("SELECT count(*) FROM llm_calls"), ["3"]);
    assert_eq!(world.names("workspaces"), Vec::<String>::new(), "the tree goes when the remote has the commit");
    assert!(world.names("contexts/completed").iter().all(|name| name.len() == 36));
    // A second run finds nothing to do and changes nothing.
    world.run(&[]).expect(0);
    assert_eq!(world.final_comments("fix"), 1);
}

#[test]
fn completed_without_a_change() {
    let world = World::with_task(&Cassette::new().runs("true").finishes("Nothing had to be changed."));
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.branches(), Vec::<String>::new());
    assert!(world.comments("fix").contains("**Done.** No file was changed."));
    assert_eq!(world.outcome()["branch"], json!(null));
}

#[test]
fn a_reply_without_calls_is_reminded_once_and_the_second_counts_as_done() {
    let world = World::with_task(&Cassette::new().then(says("I think about it.")).then(says("All is well as it is.")));
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
    assert!(world.comments("fix").contains("> All is well as it is."));
    let history = world.history();
    assert!(history.0[3]["content"].as_str().unwrap().contains("You called no tool"));
    assert_eq!(history.replies(), 2);
}

#[test]
fn failed_by_the_model() {
    let world = World::with_task(
        &Cassette::new().creates("half.txt", "half\n").then(finish("blocked", "The API to call does not exist.")),
    );
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.labels("fix"), FAILED);
    assert_eq!(world.file_on(BRANCH, "half.txt"), "half", "the branch of a failed issue task is pushed");
    let comment = world.comments("fix");
    assert!(comment.contains("**Not done:** the model says it is blocked."), "{comment}");
    assert!(comment.contains("> The API to call does not exist."), "{comment}");
    assert!(comment.contains("To try again, set the label `coding agent`."), "{comment}");
    assert_eq!(world.query("SELECT status FROM tasks"), ["failed"]);
    assert_eq!(world.query("SELECT error_message FROM tasks"), ["the model says it is blocked"]);
}

#[test]
fn failed_at_the_turn_limit() {
    let world = World::with_task(&Cassette::new().runs("true").runs("true").runs("true").runs("true"));
    world.configure("max_llm_process_num: 3");
    world.run(&[]).expect(1);
    assert_eq!(world.history().replies(), 3);
    assert!(world.comments("fix").contains("the limit of 3 model calls for one task is reached"));
}

#[test]
fn failed_after_three_errors_of_one_tool_in_a_row() {
    let view = || call("text-editor_text_editor", json!({ "command": "view", "path": "absent" }));
    let good = || call("text-editor_text_editor", json!({ "command": "view", "path": "README" }));
    let world = World::with_task(
        &Cassette::new().then(view()).then(view()).then(good()).then(view()).then(view()).then(view()).then(view()),
    );
    world.run(&[]).expect(1);
    assert_eq!(world.history().replies(), 6, "a success resets the count");
    assert!(world.comments("fix").contains("the tool `text-editor_text_editor` failed 3 times in a row"));
}

#[test]
fn failed_when_the_window_is_full_and_nothing_may_be_compressed() {
    let long = "seq 100000 | head -c 200000";
    let world = World::with_task(&Cassette::new().runs(long).runs(long).runs(long).runs(long).finishes("x"));
    world.write(
        "config.yaml",
        "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl, context_length: 2048}}\ncommand_executor: {backend: host}\ncontext: {compression: {enabled: false}}\n",
    );
    world.run(&[]).expect(1);
    let comment = world.comments("fix");
    assert!(comment.contains("no longer fits the model's window of 2048 tokens"), "{comment}");
    // Each result was capped at a quarter of the window and kept whole in a file.
    let history = world.history();
    let longest = history.results().iter().map(|result| result.chars().count()).max().unwrap();
    assert!(longest <= 512 * 4, "{longest}");
    assert!(history.results()[0].contains("/outputs/4.txt"), "{}", history.results()[0]);
    assert!(std::fs::read_to_string(world.context("completed").join("outputs/4.txt")).unwrap().len() > 190_000);
}

#[test]
fn a_command_that_fails_is_a_result_and_no_error() {
    let world =
        World::with_task(&Cassette::new().runs("exit 3").runs("exit 3").runs("exit 3").runs("exit 3").finishes("x"));
    world.run(&[]).expect(0);
    assert!(world.comments("fix").contains("`exit 3` ended with exit code 3"));
}

#[test]
fn paused_by_the_signal_file_and_resumed() {
    let world = World::with_task(
        &Cassette::new()
            .creates("part1.txt", "1\n")
            .runs("touch ../../../contexts/pause_signal")
            .creates("part2.txt", "2\n")
            .finishes("Both parts."),
    );
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), ["coding agent paused"]);
    assert_eq!(world.entries(), Vec::<String>::new());
    assert_eq!(world.names("contexts/paused").len(), 1);
    assert_eq!(world.query("SELECT status FROM tasks"), ["paused"]);
    assert!(world.comments("fix").contains("**Paused**"));
    assert_eq!(world.file_on(BRANCH, "part1.txt"), "1", "what was done is pushed on a pause");
    // While the signal is up nothing moves.
    world.run(&[]).expect(0);
    assert_eq!(world.names("contexts/paused").len(), 1);
    assert_eq!(world.entries(), Vec::<String>::new());
    std::fs::remove_file(world.path("contexts/pause_signal")).unwrap();
    world.run(&["--mode", "producer"]).expect(0);
    world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(world.entries().len(), 1, "queued once, however many passes");
    world.run(&["--mode", "consumer"]).expect(0);
    world.assert_settled();
    assert_eq!(world.names("contexts/paused"), Vec::<String>::new());
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.file_on(BRANCH, "part1.txt") + &world.file_on(BRANCH, "part2.txt"), "12");
    assert_eq!(world.history().replies(), 4, "no turn was paid twice");
    check_strictly(&world.history());
    assert!(world.comments("fix").contains("Interrupted and taken up again: 1×."));
    assert_eq!(world.query("SELECT status FROM tasks"), ["completed"]);
}

#[test]
fn stopped_when_the_bot_is_unassigned() {
    let world = World::with_task(
        &Cassette::new()
            .creates("part.txt", "1\n")
            .runs("sed -i 's/^assignees:.*/assignees: []/' ../../../tasks/fix.md")
            .runs("true")
            .runs("true")
            .finishes("never reached"),
    );
    world.write(
        "tasks/fix.md",
        "---\ntitle: t\nlabels: [coding agent]\nauthor: alice\nassignees: [Coding-Agent]\nrepository: ../widgets\n---\nx\n",
    );
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent stopped"]);
    assert!(world.comments("fix").contains("**Stopped**"));
    assert_eq!(world.query("SELECT status FROM tasks"), ["stopped"]);
    assert_eq!(world.file_on(BRANCH, "part.txt"), "1");
    assert_eq!(world.history().replies(), 3, "two readings, then the end");
}

#[test]
fn a_bot_that_was_never_assigned_is_not_stopped() {
    let world = World::with_task(&fixing());
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
}

#[test]
fn cancelled_when_closed_while_in_work() {
    let world = World::with_task(
        &Cassette::new()
            .creates("part.txt", "kept\n")
            .runs("sed -i 's/^state:.*/state: closed/' ../../../tasks/fix.md")
            .finishes("never handed back"),
    );
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), Vec::<String>::new());
    assert_eq!(world.comments("fix"), "", "no comment");
    assert_eq!(world.branches(), Vec::<String>::new(), "no branch");
    let patch = std::fs::read_to_string(world.context("completed").join("work.patch")).unwrap();
    assert!(patch.contains("+kept"), "{patch}");
    assert_eq!(world.query("SELECT status FROM tasks"), ["stopped"]);
}

#[test]
fn cancelled_when_the_processing_label_is_taken_away() {
    let world = World::with_task(
        &Cassette::new().runs("sed -i 's/^labels:.*/labels: []/' ../../../tasks/fix.md").runs("true").finishes("x"),
    );
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), Vec::<String>::new());
    assert_eq!(world.outcome()["outcome"], "cancelled");
    assert_eq!(world.history().replies(), 1);
}

#[test]
fn c30_closed_after_the_model_said_done_gets_no_branch() {
    let close = "sed -i 's/^state:.*/state: closed/' ../../../tasks/fix.md";
    // The last tool call closes it; the next look happens only before handing back.
    let world = World::with_task(&Cassette::new().creates("x.txt", "x\n").runs(close).finishes("done"));
    world.run(&[]).expect(0);
    assert_eq!(world.branches(), Vec::<String>::new());
    assert_eq!(world.outcome()["outcome"], "cancelled");
}

#[test]
fn parked_while_the_model_is_away_and_finished_later() {
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").fails("later", "the model is away"));
    world.run(&[]).expect(75);
    assert_eq!(world.labels("fix"), PROCESSING, "labels unchanged");
    assert_eq!(world.comments("fix"), "", "no comment");
    let deferred = world.names("spool/deferred");
    assert_eq!(deferred.len(), 1);
    assert!(deferred[0].ends_with(".a0.json"), "parking does not count: {}", deferred[0]);
    assert_eq!(world.query("SELECT status FROM tasks"), ["running"]);
    // Not due yet: nothing happens.
    world.run(&[]).expect(0);
    assert_eq!(world.names("spool/deferred"), deferred);
    let status = world.run(&["status"]).expect(0).stdout;
    assert!(status.contains("Put off: 1") && status.contains("not before 20"), "{status}");
    world.replies(&Cassette::new().creates("a.txt", "a\n").finishes("Done at last."));
    world.pass_time();
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.history().replies(), 2);
}

#[test]
fn short_trouble_of_the_model_is_waited_out() {
    let world = World::with_task(&Cassette::new().fails_shortly("busy", 2).creates("a.txt", "a\n").finishes("x"));
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.query("SELECT count(*) FROM llm_calls WHERE error IS NULL"), ["2"]);
}

#[test]
fn waiting_times_double_and_seven_days_in_vain_are_enough() {
    let world = World::with_task(&fixing());
    // Nobody listens on port 1: the remote cannot be reached, and nobody knows how long.
    let text = world.read("tasks/fix.md").replace("../widgets", "http://127.0.0.1:1/widgets.git");
    world.write("tasks/fix.md", &text);
    let mut waits = Vec::new();
    for _ in 0..9 {
        let before_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        world.run(&[]).expect(75);
        let due_ms: u64 = world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap();
        waits.push((due_ms - before_ms) / 60_000);
        world.pass_time();
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 360, 360]);
    let parking = world.context("running").join("parking.json");
    std::fs::write(&parking, r#"{"since_ms":1000,"count":9}"#).unwrap();
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.labels("fix"), FAILED);
    assert!(world.comments("fix").contains("waited seven days in vain: cannot clone"));
}

#[test]
fn a_host_fault_met_in_work_parks_ends_the_pass_and_says_so() {
    let world = World::with_task(&Cassette::new().fails("host", "the key was refused"));
    world.issue("second", "coding agent");
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("the key was refused"), "{ended:?}");
    assert_eq!(world.comments("fix"), "");
    assert_eq!(world.names("spool/queue").len(), 1, "the second task is not tried");
    assert_eq!(world.names("spool/deferred").len(), 1);
    world.replies(&fixing());
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!((world.labels("fix"), world.labels("second")), (vec![DONE[0].into()], vec![DONE[0].into()]));
}

#[test]
fn gave_up_after_three_deaths_at_the_same_place() {
    let world = World::with_task(&fixing());
    for _ in 0..3 {
        world.run_to_crash(&[], "context.opened");
    }
    world.run(&[]).expect(1);
    assert_eq!(world.labels("fix"), FAILED);
    assert!(world.comments("fix").contains("the process died 3 times at the same place"));
    assert_eq!(world.names("spool/gave_up").len(), 1);
    assert_eq!(world.query("SELECT status FROM tasks"), ["failed"]);
    assert!(world.run(&["status"]).expect(0).stdout.contains("Given up: 1"));
    // Nothing more happens by itself; a fresh label replaces the entry.
    world.run(&[]).expect(0);
    assert_eq!(world.final_comments("fix"), 1);
    world.issue("fix", "coding agent failed, coding agent");
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
    world.assert_settled();
}

#[test]
fn a_completed_turn_resets_the_attempts() {
    let world = World::with_task(&Cassette::new().runs("true").runs("true").runs("true").runs("true").finishes("x"));
    for _ in 0..4 {
        world.run_to_crash(&[], "loop.tool_ran");
    }
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.history().results()[..4], [interrupted(); 4], "a crash between run and result");
}

fn interrupted() -> &'static str {
    include_str!("../../prompts/interrupted.md").trim()
}

#[test]
fn skipped_when_the_label_went_before_work_began() {
    let world = World::with_task(&fixing());
    world.run(&["--mode", "producer"]).expect(0);
    world.issue("fix", "");
    world.run(&["--mode", "consumer"]).expect(0);
    world.assert_settled();
    assert_eq!(world.names("contexts/completed"), Vec::<String>::new());
    assert_eq!(world.query("SELECT count(*) FROM tasks"), ["0"], "no row");
    assert_eq!(world.comments("fix"), "");
}

#[test]
fn skipped_when_closed_before_work_began() {
    let world = World::with_task(&fixing());
    world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(world.labels("fix"), PROCESSING);
    let text = world.read("tasks/fix.md").replace("state: open", "state: closed");
    world.write("tasks/fix.md", &text);
    world.run(&["--mode", "consumer"]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), Vec::<String>::new(), "the processing label is taken off");
}

#[test]
fn a_label_set_again_while_in_work_is_a_new_request_for_afterwards() {
    let world = World::with_task(
        &Cassette::new()
            .runs("sed -i 's/^labels:.*/labels: [coding agent processing, coding agent]/' ../../../tasks/fix.md")
            .finishes("first"),
    );
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), ["coding agent", "coding agent done"]);
    world.replies(&Cassette::new().finishes("second"));
    world.run(&[]).expect(0);
    assert_eq!(world.final_comments("fix"), 2);
    assert_eq!(world.labels("fix"), DONE);
    assert_eq!(world.names("contexts/completed").len(), 2);
}

#[test]
fn the_memory_queue_does_the_same_job_in_default_mode() {
    let world = World::with_task(&fixing());
    world.issue("second", "coding agent");
    let config = world.read("config.yaml").replace("max_consumers: 8", "backend: memory");
    world.write("config.yaml", &config);
    world.run_to_crash(&[], "loop.turn");
    world.run(&[]).expect(0);
    assert_eq!((world.labels("fix"), world.labels("second")), (vec![DONE[0].into()], vec![DONE[0].into()]));
    assert_eq!(world.names("contexts/running"), Vec::<String>::new());
    assert_eq!(world.names("contexts/completed").len(), 2);
    let ended = world.run(&["--mode", "consumer"]).expect(78);
    assert!(ended.stderr.contains("queue.backend memory works only without --mode"), "{ended:?}");
}

#[test]
fn without_context_storage_nothing_but_the_row_is_kept() {
    let world = World::with_task(&fixing());
    world.configure("context_storage: {enabled: false}");
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.names("contexts/completed"), Vec::<String>::new());
    assert_eq!(world.query("SELECT status FROM tasks"), ["completed"]);
    assert_eq!(world.labels("fix"), DONE);
}

#[test]
fn sigterm_parks_at_the_next_checkpoint() {
    let world = World::with_task(&Cassette::new().runs("touch ready; sleep 60").runs("true").finishes("x"));
    let child = world.spawn(&[]);
    let ready = |uuid: &String| world.path(format!("workspaces/{uuid}/tree/ready")).exists();
    eventually(|| world.names("workspaces").first().is_some_and(ready).then_some(()));
    terminate(child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(75), "{ended:?}");
    assert_eq!(world.labels("fix"), PROCESSING, "nothing outside is touched");
    assert_eq!(world.names("spool/deferred").len(), 1);
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    check_strictly(&world.history());
    assert!(world.history().results()[0].contains("killed: the agent was asked to stop"));
}

fn terminate(pid: u32) {
    let status = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

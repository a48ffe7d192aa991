//! Merge requests as tasks: worked on where they are, with all that was said about them, and never
//! touched where that is not allowed.

use serde_json::{Value, json};

use crate::support::fake_gitlab::{DEVELOPER, request};
use crate::support::github_job::fixing;
use crate::support::gitlab_job::{Job, LABEL, PROJECT};
use crate::support::{Cassette, finish};

const HEAD: &str = "feature";
const FORK: &str = "carol/widgets";

/// The task as the model read it.
fn task(job: &Job) -> Value {
    serde_json::from_str(job.world.history().0[1]["content"].as_str().unwrap()).unwrap()
}

/// On its branch and nowhere else, told once.
#[track_caller]
fn assert_done(job: &Job, iid: u64, project: &str, what: &str) {
    job.world.assert_settled();
    let notes = job.final_notes(request(PROJECT, iid));
    assert_eq!(job.fake.labels(request(PROJECT, iid)), ["coding agent done"], "{what}: {notes:?}");
    let sha = job.fake.branch(project, HEAD).unwrap();
    assert_eq!(job.fake.git(project, &["show", &format!("{HEAD}:fixed.txt")]).trim_end(), "fixed", "{what}");
    assert_eq!(job.fake.git(project, &["show", &format!("{HEAD}:work")]).trim_end(), "half", "{what}: added to");
    assert_eq!(job.fake.git(PROJECT, &["branch", "--list", "coding-agent/*"]), "", "{what}: no branch of our own");
    assert_eq!(job.fake.requests(PROJECT), [iid], "{what}: no other merge request");
    assert_eq!(notes.len(), 1, "{what}: {notes:?}");
    assert!(notes[0].contains(&format!("The work is on the branch `{HEAD}` at {sha}.")), "{what}: {}", notes[0]);
}

#[test]
fn a_labelled_merge_request_is_worked_on_in_its_own_branch() {
    for list in [format!("[{PROJECT}]"), "[]".to_owned(), "[\"acme/*\"]".to_owned()] {
        let (job, iid) = Job::with_request(&fixing(), PROJECT, HEAD);
        job.reconfigure(&format!("repositories: [{PROJECT}]"), &format!("repositories: {list}"));
        let main = job.fake.branch(PROJECT, "main");
        let ended = job.world.run(&[]).expect(0);
        assert_eq!(ended.stderr, "");
        assert_done(&job, iid, PROJECT, "own branch");
        assert_eq!(job.fake.branch(PROJECT, "main"), main);
        let task = task(&job);
        assert_eq!((&task["kind"], &task["branch"]), (&json!("gitlab_merge_request"), &json!(HEAD)));
    }
}

#[test]
fn an_issue_and_a_merge_request_of_the_same_number_are_two_tasks() {
    let (job, iid) = Job::with_request(&fixing(), PROJECT, HEAD);
    assert_eq!(job.iid, iid);
    job.fake.label(job.issue(), LABEL, true, "alice");
    job.world.run(&["--mode", "producer"]).expect(0);
    assert_eq!(job.world.names("spool/queue").len(), 2);
    job.world.run(&["--mode", "consumer"]).expect(0);
    assert_eq!(job.labels(), ["coding agent done"]);
    assert_eq!(job.fake.labels(request(PROJECT, iid)), ["coding agent done"]);
}

#[test]
fn remarks_on_lines_are_in_the_task_and_a_whole_review_is_the_request() {
    let (job, iid) = Job::with_request(&fixing(), PROJECT, HEAD);
    let place = request(PROJECT, iid);
    job.fake.set_role(PROJECT, "alice", DEVELOPER);
    job.fake.note(place, "bystander", "first");
    job.fake.remark(place, "mallory", "work", Some(1), "second");
    job.fake.remark(place, "alice", "work", Some(1), "say whole");
    job.fake.remark(place, "alice", "gone.txt", None, "and this");
    job.fake.note(place, "bystander", "last");
    job.world.run(&[]).expect(0);
    assert_done(&job, iid, PROJECT, "remarks");
    let task = task(&job);
    let request = task["request"].as_str().unwrap();
    assert!(request.starts_with("It is half done.\n\n") && request.contains("`work`, line 1:\n"), "{request}");
    assert!(request.contains("say whole") && request.contains("`gone.txt`:\n"), "{request}");
    assert!(request.ends_with("and this"), "{request}");
    let earlier = task["earlier_comments"].as_array().unwrap();
    assert_eq!(earlier.len(), 3, "system notes are left out: {earlier:?}");
    let remark = &earlier[1]["remarks"][0];
    assert_eq!((&remark["path"], &remark["line"]), (&json!("work"), &json!(1)));
    assert!(remark["body"].as_str().unwrap().contains("second"), "{remark}");
}

#[test]
fn c33_a_fork_that_takes_no_pushes_is_noticed_before_the_model_is_asked() {
    for gone in [false, true] {
        let (job, iid) = Job::with_request(&fixing(), FORK, HEAD);
        if gone {
            job.fake.delete_project(FORK);
        }
        job.world.run(&[]).expect(1);
        job.world.assert_settled();
        assert_eq!(job.world.query("SELECT count(*) FROM llm_calls"), ["0"]);
        assert_eq!(job.fake.labels(request(PROJECT, iid)), ["coding agent failed"]);
        let note = &job.final_notes(request(PROJECT, iid))[0];
        let reason = if gone { "the branch `feature` is gone" } else { "Allow commits from members who can merge" };
        assert!(note.contains(reason), "{note}");
    }
}

#[test]
fn a_fork_that_lets_members_in_gets_the_work() {
    let (job, iid) = Job::with_request(&fixing(), FORK, HEAD);
    job.fake.change_item(request(PROJECT, iid), |item| item.lets_in = true);
    job.world.run(&[]).expect(0);
    assert_done(&job, iid, FORK, "fork");
    assert_eq!(job.fake.branch(PROJECT, HEAD), None, "not in the target project");
}

#[test]
fn c30_closed_or_merged_meanwhile_is_cancelled_and_kept() {
    for state in ["closed", "merged"] {
        let (job, iid) = Job::with_request(&fixing(), PROJECT, HEAD);
        job.world.run_to_crash(&[], "loop.turn");
        job.fake.set_state(request(PROJECT, iid), state);
        let before = job.fake.branch(PROJECT, HEAD);
        job.world.run(&[]).expect(0);
        job.world.assert_settled();
        assert_eq!(job.fake.branch(PROJECT, HEAD), before, "{state}");
        assert_eq!(job.fake.labels(request(PROJECT, iid)), [""; 0], "{state}");
        assert_eq!(job.world.outcome()["outcome"], "cancelled", "{state}");
    }
}

#[test]
fn what_is_not_finished_stays_off_the_branch() {
    let half = Cassette::new().creates("fixed.txt", "fixed\n").then(finish("blocked", "Half."));
    let (job, iid) = Job::with_request(&half, PROJECT, HEAD);
    let before = job.fake.branch(PROJECT, HEAD);
    job.world.run(&[]).expect(1);
    assert_eq!(job.fake.branch(PROJECT, HEAD), before);
    assert!(job.final_notes(request(PROJECT, iid))[0].contains("only finished work goes to the branch"));
    assert!(job.world.context("completed").join("work.patch").exists());
}

#[test]
fn a_merge_request_of_ours_is_for_the_first_reviewer() {
    let (job, iid) = Job::with_request(&fixing(), PROJECT, HEAD);
    let bot = job.fake.bot();
    job.fake.set_role(PROJECT, "dora", DEVELOPER);
    job.fake.change_item(request(PROJECT, iid), |item| {
        (item.author, item.reviewers) = (bot.to_owned(), vec!["dora".to_owned()]);
    });
    job.world.run(&["--mode", "producer"]).expect(0);
    let name = &job.world.names("spool/queue")[0];
    let entry: Value = serde_json::from_str(&job.world.read(format!("spool/queue/{name}"))).unwrap();
    assert_eq!(entry["user"], "dora");
}

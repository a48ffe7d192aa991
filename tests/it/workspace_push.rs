//! Pushing: by SHA, never by force, never over anybody; a refusal is told and the work kept.

use coding_agent::error::Kind;
use coding_agent::workspace::Pushed;

use crate::support::repositories::{commit_whole, install_program, write};
use crate::support::{Cassette, Repositories, World, git};

const BRANCH: &str = "coding-agent/issue-fix";

fn with_work(repositories: &Repositories) -> (coding_agent::workspace::Workspace, String) {
    let workspace = repositories.workspace();
    write(&workspace.tree(), "work.txt", "work\n");
    let sha = commit_whole(&workspace);
    (workspace, sha)
}

#[test]
fn pushing_twice_is_pushing_once() {
    let repositories = Repositories::new();
    let (workspace, sha) = with_work(&repositories);
    for _ in 0..2 {
        assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
        assert_eq!(workspace.remote_sha("work").unwrap().as_ref(), Some(&sha));
    }
    assert_eq!(git(&repositories.remote(), &["branch", "--format=%(refname:short)"]), "main\nwork");
}

#[test]
fn only_the_one_branch_goes_out() {
    let repositories = Repositories::new();
    let (workspace, sha) = with_work(&repositories);
    git(&workspace.tree(), &["branch", "another"]);
    git(&workspace.tree(), &["tag", "-a", "v1", "-m", "v1", &sha]);
    workspace.push(&sha, "work").unwrap();
    let refs = git(&repositories.remote(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main\nrefs/heads/work");
}

#[test]
fn a_branch_that_appeared_between_clone_and_push_is_left_alone() {
    let repositories = Repositories::new();
    let (workspace, sha) = with_work(&repositories);
    let person = repositories.person();
    for branch in ["work", "work-2"] {
        git(&person, &["checkout", "--quiet", "-B", branch, "main"]);
        repositories.person_commits(branch, "a person's\n");
    }
    let before = (repositories.remote_branch("work"), repositories.remote_branch("work-2"));
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work-3".into()));
    assert_eq!((repositories.remote_branch("work"), repositories.remote_branch("work-2")), before);
    assert_eq!(repositories.remote_branch("work-3"), Some(sha.clone()));
    // A push repeated after a crash finds it again.
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work-3".into()));
}

#[test]
fn a_base_that_moved_on_does_not_matter() {
    let repositories = Repositories::new();
    let (workspace, sha) = with_work(&repositories);
    repositories.person_commits("README", "moved\n");
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
    let main = repositories.remote_branch("main").unwrap();
    assert_eq!(git(&repositories.remote(), &["show", &format!("{main}:README")]), "moved");
}

#[test]
fn a_hook_of_the_remote_that_refuses_is_quoted() {
    let repositories = Repositories::new();
    repositories.remote_hook("pre-receive", "echo run >> ran; echo 'GH013: workflow scope is missing' >&2; exit 1");
    let (workspace, sha) = with_work(&repositories);
    let Pushed::Refused(reason) = workspace.push(&sha, "work").unwrap() else { panic!() };
    assert!(reason.contains("pre-receive hook declined"), "{reason}");
    assert!(reason.contains("GH013: workflow scope is missing"), "{reason}");
    assert!(!reason.contains('\n'), "{reason}");
    assert_eq!(std::fs::read_to_string(repositories.remote().join("ran")).unwrap(), "run\n", "tried once");
}

#[test]
fn a_refused_push_fails_the_task_keeps_the_work_and_says_why() {
    let world = World::with_task(&Cassette::new().creates("x.txt", "kept work\n").finishes("All done."));
    let hook = "echo run >> ran; echo 'protected: ask alice' >&2; exit 1";
    install_program(&world.path("widgets/.git/hooks/pre-receive"), hook);
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent failed"]);
    let comment = world.comments("fix");
    assert!(comment.contains("**Not done:** the push was refused."), "{comment}");
    assert!(comment.contains("protected: ask alice"), "{comment}");
    assert!(comment.contains("`work.patch`"), "{comment}");
    let patch = std::fs::read_to_string(world.context("completed").join("work.patch")).unwrap();
    assert!(patch.contains("+kept work"), "{patch}");
    assert_eq!(world.branches(), Vec::<String>::new());
    assert_eq!(world.query("SELECT status FROM tasks"), ["failed"]);
    for _ in 0..2 {
        world.run(&[]).expect(0);
    }
    assert_eq!(world.read("widgets/.git/ran"), "run\n", "never tried again");
    assert_eq!(world.final_comments("fix"), 1);
}

#[test]
fn words_of_the_remote_cannot_break_the_comment() {
    let repositories = Repositories::new();
    let flood = "i=0; while [ $i -lt 500 ]; do echo \"line $i `printf '\\033[31m'`\" >&2; i=$((i+1)); done; exit 1";
    repositories.remote_hook("pre-receive", flood);
    let (workspace, sha) = with_work(&repositories);
    let Pushed::Refused(reason) = workspace.push(&sha, "work").unwrap() else { panic!() };
    assert!(reason.len() < 1000 && !reason.chars().any(char::is_control), "{reason:?}");
}

#[test]
fn a_branch_name_in_the_way_is_a_refusal() {
    let repositories = Repositories::new();
    let (workspace, sha) = with_work(&repositories);
    git(&repositories.remote(), &["branch", "work/person", "main"]);
    let Pushed::Refused(reason) = workspace.push(&sha, "work").unwrap() else { panic!() };
    assert!(reason.contains("rejected"), "{reason}");
    assert_eq!(git(&repositories.remote(), &["branch", "--format=%(refname:short)"]), "main\nwork/person");
}

#[test]
fn a_remote_that_went_away_is_for_later_or_for_good_and_the_work_stays() {
    let repositories = Repositories::new();
    let (workspace, sha) = with_work(&repositories);
    std::fs::rename(repositories.remote(), repositories.path("moved.git")).unwrap();
    match workspace.push(&sha, "work") {
        Ok(Pushed::Refused(reason)) => assert!(reason.contains("no such repository"), "{reason}"),
        Err(error) => assert_eq!(error.kind(), Kind::Later),
        Ok(Pushed::At(branch)) => panic!("{branch}"),
    }
    std::fs::rename(repositories.path("moved.git"), repositories.remote()).unwrap();
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
}

#[test]
fn a_crash_after_the_push_pushes_nothing_twice() {
    let world = World::with_task(&Cassette::new().creates("x.txt", "x\n").finishes("Done."));
    world.run_to_crash(&[], "workspace.pushed");
    let sha = git(&world.path("widgets"), &["rev-parse", BRANCH]);
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(git(&world.path("widgets"), &["rev-parse", BRANCH]), sha);
    assert_eq!(world.branches(), [BRANCH]);
    assert_eq!(world.labels("fix"), ["coding agent done"]);
}

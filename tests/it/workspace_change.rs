//! The two repositories of a pull request: its own branch, the base beside it, and no other branch.

use coding_agent::error::Kind;
use coding_agent::ports::{ChangeSource, RepositorySource};
use coding_agent::workspace::{Prepared, Pushed, Settings, WorkState, Workspace};
use uuid::Uuid;

use crate::support::repositories::{OURS, commit, source, write};
use crate::support::{Repositories, git};

/// `feature` of the remote, to go into `main` of the same.
fn change(repositories: &Repositories) -> RepositorySource {
    let url = repositories.remote().display().to_string();
    let change = ChangeSource { head_branch: "feature".into(), base_branch: "main".into(), base_url: url.clone() };
    RepositorySource { change: Some(change), ..source(&url) }
}

fn prepare(repositories: &Repositories, settings: &Settings, uuid: Uuid) -> Prepared {
    Workspace::prepare(settings, uuid, &change(repositories), "unused", &|_| Ok(false)).unwrap()
}

fn with_feature() -> Repositories {
    let repositories = Repositories::new();
    repositories.pushed_by("feature", "carol@example.org");
    repositories.person_commits("later.txt", "later\n");
    repositories
}

#[test]
fn the_head_is_checked_out_and_the_base_is_at_hand() {
    let repositories = with_feature();
    is_worked_on(&repositories, &repositories.settings());
    let repositories = with_feature();
    if let Some(settings) = repositories.settings_shut_in() {
        is_worked_on(&repositories, &settings);
    }
}

fn is_worked_on(repositories: &Repositories, settings: &Settings) {
    let workspace = prepare(repositories, settings, Uuid::new_v4()).workspace;
    let tree = workspace.tree();
    assert_eq!((workspace.branch(), workspace.base_branch(), workspace.is_change()), ("feature", Some("main"), true));
    assert_eq!(git(&tree, &["symbolic-ref", "--short", "HEAD"]), "feature");
    assert_eq!(git(&tree, &["diff", "--name-only", "upstream/main...HEAD"]), "feature.txt");
    assert_eq!(git(&tree, &["remote"]), "", "the model has nowhere to push to");
    let so_far = workspace.changes_so_far().unwrap();
    assert!(so_far.contains("feature.txt | 1 +") && !so_far.contains("later.txt"), "{so_far}");
    assert_eq!(commit(&workspace).state, WorkState::Unchanged);
    write(&tree, "new.txt", "new\n");
    let WorkState::At(sha) = commit(&workspace).state else { panic!() };
    assert_eq!(workspace.push(&sha, workspace.branch()).unwrap(), Pushed::At("feature".into()));
    assert_eq!(repositories.remote_branch("feature"), Some(sha));
}

#[test]
fn a_history_cut_short_still_shows_what_changes() {
    let repositories = with_feature();
    for number in 0..5 {
        repositories.person_commits("later.txt", format!("{number}\n"));
    }
    let url = format!("file://{}", repositories.remote().display());
    let branches = ChangeSource { head_branch: "feature".into(), base_branch: "main".into(), base_url: url.clone() };
    let remote = RepositorySource { change: Some(branches), ..source(&url) };
    let settings = Settings { depth: Some(1), ..repositories.settings() };
    let prepared = Workspace::prepare(&settings, Uuid::new_v4(), &remote, "unused", &|_| Ok(false)).unwrap();
    assert!(prepared.workspace.changes_so_far().unwrap().contains("feature.txt"));
    write(&prepared.workspace.tree(), "new.txt", "new\n");
    let WorkState::At(sha) = commit(&prepared.workspace).state else { panic!() };
    assert_eq!(prepared.workspace.push(&sha, "feature").unwrap(), Pushed::At("feature".into()));
}

#[test]
fn a_branch_that_moved_on_takes_nothing_and_no_other_is_made() {
    let repositories = with_feature();
    let workspace = prepare(&repositories, &repositories.settings(), Uuid::new_v4()).workspace;
    write(&workspace.tree(), "new.txt", "new\n");
    let WorkState::At(sha) = commit(&workspace).state else { panic!() };
    let theirs = repositories.pushed_by("feature", "dora@example.org");
    let pushed = workspace.push(&sha, "feature").unwrap();
    assert!(matches!(&pushed, Pushed::Refused(why) if why.contains("other commits")), "{pushed:?}");
    assert_eq!(repositories.remote_branch("feature"), Some(theirs));
    assert_eq!(repositories.remote_branch("feature-2"), None);
}

#[test]
fn a_tree_made_again_begins_where_the_work_began() {
    let repositories = with_feature();
    let uuid = Uuid::new_v4();
    let first = prepare(&repositories, &repositories.settings(), uuid).workspace;
    let start = first.start_sha().to_owned();
    std::fs::remove_dir_all(first.tree().join(".git")).unwrap();
    repositories.pushed_by("feature", "dora@example.org");
    let again = prepare(&repositories, &repositories.settings(), uuid);
    assert!(again.made_again);
    assert_eq!(git(&again.workspace.tree(), &["rev-parse", "HEAD"]), start, "their commits are not our work");
    assert!(!git(&again.workspace.tree(), &["rev-parse", "upstream/main"]).is_empty());
    // The next look at it finds the same.
    let found = Workspace::find(&repositories.settings(), uuid, None).unwrap().unwrap();
    assert!(found.is_change());
}

#[test]
fn a_branch_that_is_gone_is_told() {
    let repositories = Repositories::new();
    let failed =
        Workspace::prepare(&repositories.settings(), Uuid::new_v4(), &change(&repositories), "unused", &|_| Ok(false));
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), Kind::Task);
    assert!(error.sentence().contains("there is no such branch"), "{error}");
}

#[test]
fn our_own_earlier_commits_on_the_branch_are_no_reason_for_another() {
    let repositories = Repositories::new();
    let tip = repositories.pushed_by("feature", OURS);
    let workspace = prepare(&repositories, &repositories.settings(), Uuid::new_v4()).workspace;
    assert_eq!((workspace.branch(), workspace.start_sha()), ("feature", tip.as_str()));
}

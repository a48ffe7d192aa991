//! Which branch the work goes to, and what it is called.

use coding_agent::workspace::{Pushed, WorkState, Workspace, ref_segment};
use uuid::Uuid;

use crate::support::repositories::source;
use crate::support::repositories::{OURS, commit, commit_whole, write};
use crate::support::{Cassette, Repositories, World, git};

#[test]
fn a_branch_with_our_commits_is_continued() {
    let repositories = Repositories::new();
    let tip = repositories.pushed_by("work", OURS);
    let workspace = repositories.workspace();
    assert_eq!((workspace.branch(), workspace.is_continued()), ("work", true));
    assert_eq!(git(&workspace.tree(), &["rev-parse", "HEAD"]), tip);
    assert_eq!(commit(&workspace).state, WorkState::Unchanged, "measured from where this task began");
    write(&workspace.tree(), "more", "more");
    let sha = commit_whole(&workspace);
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
    assert_eq!(git(&repositories.remote(), &["rev-parse", "work^"]), tip);
}

#[test]
fn a_branch_a_person_touched_merged_or_emptied_is_left_alone() {
    let repositories = Repositories::new();
    let tip = repositories.pushed_by("work", "alice@example.org");
    assert_eq!(repositories.workspace().branch(), "work-2");
    assert_eq!(repositories.remote_branch("work"), Some(tip));
    repositories.pushed_by("work-2", OURS);
    assert_eq!(repositories.workspace().branch(), "work-2");
    git(&repositories.person(), &["checkout", "--quiet", "work-2"]);
    repositories.person_commits("review", "a person's fix on our branch\n");
    git(&repositories.person(), &["checkout", "--quiet", "main"]);
    assert_eq!(repositories.workspace().branch(), "work-3", "one commit of a person is enough");
    // Merged: nothing beyond the base.
    let merged = Repositories::new();
    merged.pushed_by("work", OURS);
    git(&merged.person(), &["merge", "--quiet", "--ff-only", "work"]);
    git(&merged.person(), &["push", "--quiet", "origin", "main"]);
    assert_eq!(merged.workspace().branch(), "work-2");
    // Closed or squashed: the forge says so.
    let closed = Repositories::new();
    closed.pushed_by("work", OURS);
    let url = closed.remote();
    let is_over = |branch: &str| Ok(branch == "work");
    let prepared =
        Workspace::prepare(&closed.settings(), Uuid::new_v4(), &source(url.to_str().unwrap()), "work", &is_over)
            .unwrap();
    assert_eq!(prepared.workspace.branch(), "work-2");
}

#[test]
fn a_ref_segment_is_always_a_name_git_takes() {
    let long = "x".repeat(300);
    let emoji = "👩‍👩‍👧".repeat(100);
    let table = [
        ("7", "7"),
        ("fix-the_thing.v2", "fix-the_thing.v2"),
        ("日本語の課題", "f"),
        ("修正 fix 追加", "fix"),
        ("\"; touch /tmp/pwn #", "touch-tmp-pwn"),
        ("$(touch x)`id`", "touch-x-id"),
        ("a..b.lock", "a.b"),
        ("a.lock-.lock", "a"),
        ("a.lock.lock.", "a"),
        (".lock", "lock"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("@", "f"),
        ("a@{1}", "a-1"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b", "a-b"),
        ("a\0b\nc", "a-b-c"),
        ("a~^:?*[\\ b", "a-b"),
        ("", "f"),
        ("...", "f"),
        (&long, &long[..60]),
        (&emoji, "f"),
    ];
    for (text, expected) in table {
        let segment = ref_segment(text, "f");
        assert_eq!(segment, expected, "{text:?}");
        git(std::path::Path::new("/"), &["check-ref-format", &format!("refs/heads/{segment}")]);
    }
    // Whatever the letters.
    let letters = ["a", ".", "-", ".lock", "@", "{", "/", "あ", " ", "_"];
    for number in 0..10_000usize {
        let text: String = (0..4).map(|place| letters[number / 10usize.pow(place) % 10]).collect();
        let segment = ref_segment(&text, "f");
        let bad = segment.is_empty()
            || segment.starts_with(['.', '-'])
            || segment.ends_with(['.', '-'])
            || segment.ends_with(".lock")
            || segment.contains("..")
            || !segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        assert!(!bad, "{text:?} became {segment:?}");
    }
}

#[test]
fn issues_whose_names_look_alike_get_branches_of_their_own() {
    let world = World::new();
    for name in ["修正1", "追加1"] {
        world.issue(name, "coding agent");
    }
    world.replies(&Cassette::new().runs("date +%N > n.txt").finishes("x"));
    world.run(&[]).expect(0);
    assert_eq!(world.branches().len(), 2, "{:?}", world.branches());
}

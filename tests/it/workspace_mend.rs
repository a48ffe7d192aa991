//! A workspace taken up again: half a clone, stale locks, a tree that is damaged.

use uuid::Uuid;

use crate::support::repositories::{commit_held, commit_whole, write};
use crate::support::{Cassette, Repositories, World, git};

#[test]
fn leftovers_of_a_killed_clone_are_made_again() {
    for point in ["workspace.repo.part", "workspace.tree.part"] {
        let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").finishes("x"));
        world.run_to_crash(&[], point);
        world.run(&[]).expect(0);
        world.assert_settled();
        assert_eq!(world.file_on("coding-agent/issue-fix", "a.txt"), "a", "{point}");
        assert_eq!(world.names("workspaces"), Vec::<String>::new());
    }
}

#[test]
fn stale_locks_are_removed_when_the_work_is_taken_up() {
    let repositories = Repositories::new();
    let (settings, uuid) = (repositories.settings(), Uuid::new_v4());
    let workspace = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    write(&workspace.tree(), "a", "a");
    // A file of the project that happens to end like a lock is none.
    write(&workspace.tree(), "Cargo.lock", "x");
    for lock in ["index.lock", "HEAD.lock", "config.lock", "refs/heads/work.lock", "packed-refs.lock"] {
        write(&workspace.tree(), &format!(".git/{lock}"), "");
    }
    let prepared = repositories.prepare_with(&settings, uuid, "work").unwrap();
    assert!(!prepared.made_again);
    let sha = commit_whole(&prepared.workspace);
    let files = git(&workspace.tree(), &["ls-tree", "--name-only", &sha]);
    assert_eq!(files, "Cargo.lock\nREADME\na");
}

#[test]
fn a_broken_tree_is_set_aside_and_made_again_from_what_was_pushed() {
    let repositories = Repositories::new();
    let (settings, uuid) = (repositories.settings(), Uuid::new_v4());
    let workspace = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    write(&workspace.tree(), "pushed", "a");
    let sha = commit_whole(&workspace);
    workspace.push(&sha, "work").unwrap();
    for damage in [".git/objects", ".git/HEAD", ".git", ""] {
        write(&workspace.tree(), "not-committed", damage);
        let victim = workspace.tree().join(damage);
        if victim.is_dir() {
            std::fs::remove_dir_all(victim).unwrap()
        } else {
            std::fs::remove_file(victim).unwrap()
        }
        let prepared = repositories.prepare_with(&settings, uuid, "work").unwrap();
        assert!(prepared.made_again, "{damage}");
        assert_eq!(git(&workspace.tree(), &["rev-parse", "HEAD"]), sha, "{damage}");
        assert!(!workspace.tree().join("not-committed").exists());
        let broken = workspace.tree().with_file_name("tree.broken");
        // Where nothing was left to set aside, what was set aside before stays.
        let kept = if damage.is_empty() { ".git" } else { damage };
        assert_eq!(std::fs::read_to_string(broken.join("not-committed")).unwrap(), kept, "{damage}");
        prepared.workspace.told_made_again().unwrap();
        assert!(!repositories.prepare_with(&settings, uuid, "work").unwrap().made_again);
    }
}

#[test]
fn a_tree_broken_inside_another_repository_is_not_mistaken_for_it() {
    let repositories = Repositories::new();
    git(&repositories.path("."), &["init", "--quiet"]);
    let (settings, uuid) = (repositories.settings(), Uuid::new_v4());
    let workspace = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    std::fs::remove_dir_all(workspace.tree().join(".git/objects")).unwrap();
    assert!(repositories.prepare_with(&settings, uuid, "work").unwrap().made_again);
    assert_eq!(git(&workspace.tree(), &["rev-parse", "--show-prefix"]), "");
}

#[test]
fn a_tree_broken_at_the_end_is_no_finished_work() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    write(&workspace.tree(), "work", "hours of it");
    std::fs::remove_dir_all(workspace.tree().join(".git/objects")).unwrap();
    let (_, reason) = commit_held(&workspace);
    assert!(reason.contains("damaged"), "{reason}");
    let broken = workspace.tree().with_file_name("tree.broken");
    assert_eq!(std::fs::read_to_string(broken.join("work")).unwrap(), "hours of it");
    let world = World::with_task(&Cassette::new().creates("x", "x\n").runs("rm -rf .git").finishes("All done."));
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent failed"]);
    assert!(world.comments("fix").contains("damaged"), "{}", world.comments("fix"));
    let uuid = world.names("workspaces").remove(0);
    assert_eq!(world.read(format!("workspaces/{uuid}/tree.broken/x")), "x\n");
}

#[test]
fn a_tree_made_again_is_told_to_the_model() {
    let world =
        World::with_task(&Cassette::new().creates("a", "a\n").runs("rm -rf .git/objects").fails("later", "away"));
    world.run(&[]).expect(75);
    world.pass_time();
    world.replies(&Cassette::new().runs("true").runs("true").creates("b", "b\n").finishes("x"));
    world.run(&[]).expect(0);
    let told = world.history().0.iter().any(|line| {
        line["role"] == "user"
            && line["content"].as_str().is_some_and(|text| text.contains("made again") || text.contains("cloned again"))
    });
    assert!(told, "{:?}", world.history().0);
    assert_eq!(world.file_on("coding-agent/issue-fix", "b"), "b");
}

#[test]
fn what_was_set_aside_survives_a_remote_that_cannot_be_reached() {
    let repositories = Repositories::new();
    let (settings, uuid) = (repositories.settings(), Uuid::new_v4());
    let workspace = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    write(&workspace.tree(), "only-copy", "precious");
    std::fs::remove_dir_all(workspace.tree().join(".git")).unwrap();
    std::fs::rename(repositories.remote(), repositories.path("away.git")).unwrap();
    for _ in 0..2 {
        repositories.prepare_with(&settings, uuid, "work").unwrap_err();
    }
    std::fs::rename(repositories.path("away.git"), repositories.remote()).unwrap();
    assert!(repositories.prepare_with(&settings, uuid, "work").unwrap().made_again);
    assert_eq!(std::fs::read_to_string(workspace.tree().join("../tree.broken/only-copy")).unwrap(), "precious");
}

#[test]
fn a_tree_made_again_is_no_finished_work_until_the_model_knows() {
    let repositories = Repositories::new();
    let (settings, uuid) = (repositories.settings(), Uuid::new_v4());
    let workspace = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    write(&workspace.tree(), "lost", "a");
    std::fs::remove_dir_all(workspace.tree().join(".git")).unwrap();
    for _ in 0..2 {
        let prepared = repositories.prepare_with(&settings, uuid, "work").unwrap();
        assert!(prepared.made_again, "as long as nobody was told");
        assert!(commit_held(&prepared.workspace).1.contains("kept in `tree.broken`"));
    }
    let prepared = repositories.prepare_with(&settings, uuid, "work").unwrap();
    prepared.workspace.told_made_again().unwrap();
    assert!(!repositories.prepare_with(&settings, uuid, "work").unwrap().made_again);
    write(&workspace.tree(), "done", "again");
    commit_whole(&prepared.workspace);
}

#[test]
fn directories_in_the_place_of_locks_stop_nothing() {
    let locks = "mkdir -p .git/index.lock/x .git/refs/heads/odd.lock";
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").runs(locks).finishes("x"));
    world.run(&[]).expect(0);
    world.assert_settled();
    assert_eq!(world.file_on("coding-agent/issue-fix", "a.txt"), "a");
}

#[test]
fn a_directory_nobody_may_write_to_can_be_opened_up_and_removed() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (cache, aside) = (dir.path().join("cache"), dir.path().join("aside"));
    std::fs::create_dir_all(cache.join("a/b")).unwrap();
    std::fs::create_dir(&aside).unwrap();
    std::os::unix::fs::symlink(&aside, cache.join("a/link")).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [cache.join("a/b"), cache.join("a"), aside.clone()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    coding_agent::sys::tree::open_up(&cache);
    assert_eq!((mode(&cache.join("a")), mode(&cache.join("a/b")), mode(&aside)), (0o700, 0o700, 0o555));
    coding_agent::sys::file::remove_dir(&cache).unwrap();
    assert!(!cache.exists() && aside.exists());
}

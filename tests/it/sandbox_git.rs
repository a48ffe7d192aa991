//! Our own git calls in a tree whose configuration a model has written: git starts the programs it
//! names, and they find themselves in the sandbox.

use std::path::Path;

use coding_agent::workspace::{Pushed, Settings, WorkState, Workspace};
use uuid::Uuid;

use crate::support::repositories::{SECRET, commit, commit_held, commit_whole, install_program, write};
use crate::support::{Repositories, git};

const PRIVATE: &str = "private-text-of-the-machine";

fn workspace(repositories: &Repositories, settings: &Settings) -> Workspace {
    repositories.prepare_with(settings, Uuid::new_v4(), "work").unwrap().workspace
}

/// Everything that makes git start a program, each of which leaves a file in `outside`.
fn poison(tree: &Path, outside: &Path) {
    let out = outside.display();
    let hook = |name: &str| format!("touch {out}/{name}; cat {out}/private >&2");
    let mut config = std::fs::read_to_string(tree.join(".git/config")).unwrap();
    config += &format!(
        "[filter \"x\"]\n\tclean = \"touch {out}/clean; cat {out}/private; cat\"\n\tsmudge = \"touch {out}/smudge; cat\"\n\
         [core]\n\tfsmonitor = .git/hooks/fsmonitor\n\thooksPath = .git/hooks\n\teditor = \"touch {out}/editor\"\n\
         \tpager = \"touch {out}/pager\"\n\tsshCommand = \"touch {out}/ssh\"\n\
         [diff]\n\texternal = .git/hooks/external\n\
         [diff \"x\"]\n\ttextconv = .git/hooks/textconv\n\tcommand = .git/hooks/command\n\
         [uploadpack]\n\tpackObjectsHook = .git/hooks/pack\n\
         [commit]\n\tgpgSign = true\n[gpg]\n\tprogram = .git/hooks/gpg\n\
         [protocol \"ext\"]\n\tallow = always\n\
         [remote \"far\"]\n\turl = \"ext::sh .git/hooks/ext\"\n\tpromisor = true\n\tpartialCloneFilter = blob:none\n\
         [include]\n\tpath = {out}/included\n"
    );
    std::fs::write(tree.join(".git/config"), config).unwrap();
    for name in [
        "fsmonitor",
        "external",
        "textconv",
        "command",
        "pack",
        "gpg",
        "ext",
        "pre-commit",
        "post-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-index-change",
        "reference-transaction",
        "post-checkout",
    ] {
        install_program(&tree.join(".git/hooks").join(name), &hook(name));
    }
    write(tree, ".gitattributes", "*.txt filter=x diff=x\n");
    write(tree, "new.txt", "new\n");
}

fn outside(repositories: &Repositories) -> std::path::PathBuf {
    let outside = repositories.path("outside");
    write(&outside, "private", PRIVATE);
    write(&outside, "included", "[user]\n\tname = included\n");
    outside
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_poisoned_configuration_reaches_nothing_outside() {
    let repositories = Repositories::new();
    let Some(settings) = repositories.settings_shut_in() else { return };
    let outside = outside(&repositories);
    let workspace = workspace(&repositories, &settings);
    poison(&workspace.tree(), &outside);
    let sha = commit_whole(&workspace);
    let patch = repositories.path("work.patch");
    workspace.write_patch(&sha, &patch).unwrap();
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
    // Taken up again, as after a crash.
    write(&workspace.tree(), "more.txt", "more\n");
    let uuid = workspace.tree().parent().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
    let again = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    let sha = commit_whole(&again);
    assert_eq!(again.push(&sha, "work").unwrap(), Pushed::At("work".into()));
    assert_eq!(names(&outside), ["included", "private"]);
    assert_eq!(git(&repositories.remote(), &["show", "work:new.txt"]), "new");
    assert_eq!(git(&repositories.remote(), &["show", "work:more.txt"]), "more");
    assert!(!git(&repositories.remote(), &["log", "-p", "work"]).contains(PRIVATE));
    let patch = std::fs::read_to_string(patch).unwrap();
    assert!(patch.contains("+new") && !patch.contains(PRIVATE), "{patch}");
}

#[test]
fn without_a_sandbox_the_same_configuration_would_reach_it() {
    // What the test above is worth: there, this file does not appear.
    let repositories = Repositories::new();
    let outside = outside(&repositories);
    let workspace = workspace(&repositories, &repositories.settings());
    poison(&workspace.tree(), &outside);
    commit(&workspace);
    assert_eq!(names(&outside), ["clean", "included", "private"], "hooks, monitors and signing are off everywhere");
}

#[test]
fn a_missing_object_is_asked_of_nobody() {
    let repositories = Repositories::new();
    for settings in [Some(repositories.settings()), repositories.settings_shut_in()].into_iter().flatten() {
        let outside = outside(&repositories);
        let workspace = workspace(&repositories, &settings);
        let tree = workspace.tree();
        let blob = git(&tree, &["rev-parse", "HEAD:README"]);
        poison(&tree, &outside);
        write(&tree, ".gitattributes", "");
        write(&tree, "README", "changed\n");
        // Packed or not: unpack, then take one object away.
        for name in names(&tree.join(".git/objects/pack")) {
            std::fs::rename(tree.join(".git/objects/pack").join(&name), tree.join(name)).unwrap();
        }
        for name in names(&tree).iter().filter(|name| name.ends_with(".pack")) {
            let unpack = format!("git unpack-objects -q < {name}");
            let status = std::process::Command::new("sh").args(["-c", &unpack]).current_dir(&tree).status().unwrap();
            assert!(status.success());
        }
        for name in names(&tree).iter().filter(|name| name.starts_with("pack-")) {
            std::fs::remove_file(tree.join(name)).unwrap();
        }
        std::fs::remove_file(tree.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
        let _ = workspace.commit("x", &coding_agent::text::Redactor::new([SECRET]));
        assert_eq!(names(&outside), ["included", "private"]);
    }
}

#[test]
fn a_git_directory_that_is_a_way_out_is_not_followed() {
    let repositories = Repositories::new();
    let Some(settings) = repositories.settings_shut_in() else { return };
    for kind in ["link", "file", "refs"] {
        let victim = repositories.path("victim");
        let _ = std::fs::remove_dir_all(&victim);
        std::fs::create_dir(&victim).unwrap();
        git(&victim, &["init", "--quiet", "--initial-branch=main"]);
        write(&victim, ".git/index.lock", PRIVATE);
        write(&victim, ".git/refs/heads/x.lock", PRIVATE);
        let workspace = workspace(&repositories, &settings);
        let dot_git = workspace.tree().join(".git");
        if kind == "refs" {
            std::fs::remove_dir_all(dot_git.join("refs")).unwrap();
            std::os::unix::fs::symlink(victim.join(".git/refs"), dot_git.join("refs")).unwrap();
        } else {
            std::fs::remove_dir_all(&dot_git).unwrap();
        }
        match kind {
            "link" => std::os::unix::fs::symlink(victim.join(".git"), &dot_git).unwrap(),
            "file" => std::fs::write(&dot_git, format!("gitdir: {}/.git\n", victim.display())).unwrap(),
            _ => {}
        }
        write(&workspace.tree(), "work", "x");
        let (_, reason) = commit_held(&workspace);
        assert!(reason.contains("damaged"), "{kind}: {reason}");
        for lock in [".git/index.lock", ".git/refs/heads/x.lock"] {
            assert_eq!(std::fs::read_to_string(victim.join(lock)).unwrap(), PRIVATE, "{kind}");
        }
        assert!(!victim.join(".git/index").exists() && !victim.join(".git/objects/pack/x").exists());
    }
}

#[test]
fn commits_are_judged_as_they_would_be_pushed() {
    // A replacement shows another commit to whoever looks in the tree, not to whoever fetches it.
    let repositories = Repositories::new();
    for settings in [Some(repositories.settings()), repositories.settings_shut_in()].into_iter().flatten() {
        let workspace = workspace(&repositories, &settings);
        let tree = workspace.tree();
        write(&tree, "notes", format!("{SECRET}\n"));
        git(&tree, &["add", "notes"]);
        git(&tree, &["commit", "--quiet", "--message", "x"]);
        let bad = git(&tree, &["rev-parse", "HEAD"]);
        write(&tree, "notes", "nothing to see\n");
        git(&tree, &["commit", "--quiet", "--all", "--amend", "--message", "x"]);
        let good = git(&tree, &["rev-parse", "HEAD"]);
        git(&tree, &["reset", "--quiet", "--hard", &bad]);
        git(&tree, &["replace", &bad, &good]);
        // The files look innocent too.
        write(&tree, "notes", format!("{SECRET}\n"));
        let (_, reason) = commit_held(&workspace);
        assert!(reason.contains("secret"), "{reason}");
        // An attribute of the tree does not hide it from us either.
        git(&tree, &["replace", "-d", &bad]);
        write(&tree, ".git/info/attributes", "* -diff\n");
        assert!(matches!(commit(&workspace).state, WorkState::Held(..)));
    }
}

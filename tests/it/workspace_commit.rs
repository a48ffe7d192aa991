//! From what lies in the tree to the one commit that is meant: what is committed, what is left
//! out, what holds the push back.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use coding_agent::text::Redactor;
use coding_agent::workspace::WorkState;

use crate::support::repositories::{SECRET, commit, commit_held, commit_whole, install_program, sh, write};
use crate::support::{Cassette, Repositories, World, git};

/// Status and names of the last commit.
fn changes(tree: &Path, sha: &str) -> Vec<String> {
    let text =
        git(tree, &["-c", "core.quotePath=true", "diff-tree", "-r", "--root", "--no-commit-id", "--name-status", sha]);
    text.lines().map(|line| line.replace('\t', " ")).collect()
}

#[test]
fn new_changed_deleted_and_renamed_files_and_modes_are_committed() {
    let repositories = Repositories::new();
    for (name, text) in [("change", "1\n"), ("delete", "2\n"), ("rename", "3\n"), ("mode", "4\n")] {
        write(&repositories.person(), name, text);
    }
    repositories.person_commits_all();
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    write(&tree, "change", "1a\n");
    write(&tree, "new/deep/file", "n\n");
    write(&tree, "binary", [0, 159, 146, 150, 0, 255]);
    std::fs::remove_file(tree.join("delete")).unwrap();
    std::fs::rename(tree.join("rename"), tree.join("renamed")).unwrap();
    std::fs::set_permissions(tree.join("mode"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("change", tree.join("link")).unwrap();
    symlink("/etc/passwd", tree.join("link-outside")).unwrap();
    symlink("nowhere", tree.join("link-dangling")).unwrap();
    std::fs::create_dir(tree.join("empty")).unwrap();
    let sha = commit_whole(&workspace);
    let expected = [
        "A binary",
        "M change",
        "D delete",
        "A link",
        "A link-dangling",
        "A link-outside",
        "M mode",
        "A new/deep/file",
        "D rename",
        "A renamed",
    ];
    assert_eq!(changes(&tree, &sha), expected);
    assert!(git(&tree, &["ls-tree", &sha, "mode"]).starts_with("100755"));
    assert!(git(&tree, &["ls-tree", &sha, "link-outside"]).starts_with("120000"));
    assert_eq!(git(&tree, &["show", &format!("{sha}:link-outside")]), "/etc/passwd");
    assert_eq!(git(&tree, &["log", "-1", "--format=%s"]), "work of the agent");
    // The patch makes the same tree, binary files and all.
    let patch = repositories.path("work.patch");
    workspace.write_patch(&sha, &patch).unwrap();
    git(&repositories.person(), &["apply", "--index", patch.to_str().unwrap()]);
    let applied = git(&repositories.person(), &["write-tree"]);
    assert_eq!(applied, git(&tree, &["rev-parse", &format!("{sha}^{{tree}}")]));
    // A second look finds the same commit.
    assert_eq!(commit(&workspace).state, WorkState::At(sha));
}

#[test]
fn odd_file_names_are_committed_as_they_are() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    let names: [&[u8]; 12] = [
        b"with space",
        b"new\nline",
        b"-dash",
        b"--all",
        b":(exclude)*",
        b":!x",
        b"*",
        b"tab\there",
        b"quote\"",
        "日本語.txt".as_bytes(),
        b"non-utf8-\xff\xfe",
        b"dir-\xe9/file",
    ];
    for name in names {
        let path = tree.join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let sha = commit_whole(&workspace);
    assert_eq!(changes(&tree, &sha).len(), names.len(), "{:?}", changes(&tree, &sha));
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    // And changed and deleted again.
    std::fs::write(tree.join(std::ffi::OsStr::from_bytes(names[10])), "y").unwrap();
    std::fs::remove_file(tree.join(std::ffi::OsStr::from_bytes(names[11]))).unwrap();
    let sha = commit_whole(&workspace);
    assert_eq!(changes(&tree, &sha).len(), 2);
}

#[test]
fn c54_what_does_not_belong_is_left_out_and_told() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    write(&tree, "src/main.rs", "fn main() {}\n");
    write(&tree, ".env.example", "KEY=\n");
    write(&tree, ".env", "KEY=sk-TEST-1\n");
    write(&tree, "deploy/id_rsa", "-----BEGIN");
    write(&tree, "server.PEM", "-----BEGIN");
    write(&tree, "core.1234", "ELF");
    write(&tree, "giant.bin", vec![0u8; (5 << 20) + 1]);
    write(&tree, "settings.txt", format!("token = {SECRET}\n"));
    std::fs::write(tree.join(std::ffi::OsStr::from_bytes(b"\xff.pem")), "-----BEGIN").unwrap();
    for number in 0..5000 {
        write(&tree, &format!("node_modules/x/{number}.js"), "");
    }
    for number in 0..1001 {
        write(&tree, &format!("generated/{number}.txt"), "");
    }
    write(&tree, "staged.key", "k");
    git(&tree, &["add", "staged.key", "src/main.rs"]);
    let committed = commit(&workspace);
    let WorkState::At(sha) = committed.state else { panic!("{:?}", committed.state) };
    assert_eq!(changes(&tree, &sha), ["A .env.example", "A src/main.rs"]);
    let mut left_out = committed.left_out;
    left_out.sort();
    let expected = [
        "`.env` (looks like a secret)",
        "`core.1234` (a core dump)",
        "`deploy/id_rsa` (looks like a secret)",
        "`generated/` (1001 files: too many new files)",
        "`giant.bin` (larger than 5 MiB)",
        "`node_modules/` (5000 files: too many new files)",
        "`server.PEM` (looks like a secret)",
        "`settings.txt` (holds a secret of the agent)",
        "`staged.key` (looks like a secret)",
        "`\u{fffd}.pem` (looks like a secret)",
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn c54_what_only_does_not_belong_changes_nothing_and_is_told_in_the_comment() {
    let world = World::with_task(&Cassette::new().creates(".env", "KEY=1\n").finishes("x"));
    world.run(&[]).expect(0);
    let comment = world.comments("fix");
    assert!(comment.contains("No file was changed."), "{comment}");
    assert!(comment.contains("Left out of the commit: `.env` (looks like a secret)."), "{comment}");
    assert_eq!(world.branches(), Vec::<String>::new());
}

#[test]
fn c54_a_secret_the_model_committed_holds_the_push() {
    let force = "git add --force --all && git commit --quiet -m all";
    for (name, command) in [
        ("by name", "echo K=1 > .env && git add -f .env && git commit -qm env".to_owned()),
        ("removed again", format!("echo K=1 > .env && {force} && git rm -q .env && git commit -qm gone && echo a > a")),
        ("in a directory", format!("mkdir -p a/node_modules && echo x > a/node_modules/x.js && {force}")),
    ] {
        let world = World::with_task(&Cassette::new().runs(&command).finishes("x"));
        world.run(&[]).expect(1);
        world.assert_settled();
        assert_eq!(world.labels("fix"), ["coding agent failed"], "{name}");
        assert_eq!(world.branches(), Vec::<String>::new(), "{name}");
        let comment = world.comments("fix");
        assert!(comment.contains("the model committed `"), "{name}: {comment}");
        assert!(world.context("completed").join("work.patch").exists(), "{name}");
        assert_eq!(world.names("workspaces").len(), 1, "{name}: the work is kept");
    }
}

#[test]
fn c54_a_secret_value_is_found_wherever_the_commits_have_it() {
    let scripts: [(&str, String); 7] = [
        ("plain", format!("echo {SECRET} > f; git add f; git commit -qm x")),
        ("changed file", format!("echo {SECRET} >> README; git commit -qam x")),
        ("left lying in a tracked file", format!("echo {SECRET} >> README")),
        ("message", format!("git commit -q --allow-empty -m 'with {SECRET}'; echo x > x")),
        ("binary", format!("printf '\\000{SECRET}\\000' > f; git add f; git commit -qm x")),
        ("no diff", format!("echo '* -diff' > .gitattributes; echo {SECRET} > f; git add .; git commit -qm x")),
        (
            "merge",
            format!(
                "git checkout -q -b side; echo 1 > s; git add s; git commit -qm s; git checkout -q work; echo 1 > w; \
                 git add w; git commit -qm w; git merge -q --no-ff --no-commit side; echo {SECRET} > f; git add f; \
                 git commit -qm merged; git rm -q f; git commit -qm gone"
            ),
        ),
    ];
    for (name, script) in scripts {
        let repositories = Repositories::new();
        let workspace = repositories.workspace();
        sh(&workspace.tree(), &script);
        let (_, reason) = commit_held(&workspace);
        assert_eq!(reason, "the commits hold a secret of the agent", "{name}");
    }
}

#[test]
fn c54_hooks_of_the_tree_do_not_run() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    let ran = repositories.path("ran");
    for hook in [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "pre-push",
        "post-checkout",
        "post-index-change",
    ] {
        install_program(&workspace.tree().join(".git/hooks").join(hook), &format!("touch {}; exit 1", ran.display()));
    }
    write(&workspace.tree(), "a", "a");
    let sha = commit_whole(&workspace);
    workspace.push(&sha, "work").unwrap();
    assert_eq!(repositories.remote_branch("work"), Some(sha));
    assert!(!ran.exists());
}

#[test]
fn filters_of_the_repository_do_not_run_and_pointers_stay_pointers() {
    let repositories = Repositories::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    write(&repositories.person(), ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n*.x filter=evil\n");
    write(&repositories.person(), "data.bin", pointer);
    write(&repositories.person(), "a.x", "x\n");
    repositories.person_commits_all();
    let ran = repositories.path("ran");
    let filter = |name: &str| {
        format!(
            "[filter \"{name}\"]\nclean = touch {0}\nsmudge = touch {0}\nprocess = touch {0}\nrequired = true\n",
            ran.display()
        )
    };
    write(&repositories.path("home"), ".gitconfig", filter("lfs") + &filter("evil"));
    let workspace = repositories.workspace();
    assert_eq!(std::fs::read_to_string(workspace.tree().join("data.bin")).unwrap(), pointer);
    write(&workspace.tree(), "a.x", "y\n");
    write(&workspace.tree(), "new.bin", "content\n");
    let sha = commit_whole(&workspace);
    assert_eq!(changes(&workspace.tree(), &sha), ["M a.x", "A new.bin"]);
    assert!(!ran.exists());
}

#[test]
fn submodules_and_repositories_inside_the_tree() {
    let repositories = Repositories::new();
    let person = repositories.person();
    let head = git(&person, &["rev-parse", "HEAD"]);
    write(&person, ".gitmodules", "[submodule \"sub\"]\npath = sub\nurl = https://127.0.0.1:1/sub.git\n");
    git(&person, &["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    git(&person, &["add", ".gitmodules"]);
    git(&person, &["commit", "--quiet", "--message", "submodule"]);
    git(&person, &["push", "--quiet", "origin", "HEAD"]);
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    assert!(tree.join("sub").is_dir());
    assert_eq!(commit(&workspace).state, WorkState::Unchanged);
    // A clone the model made for its own use, and a repository without a commit.
    sh(&tree, "git init -q vendor/cloned && cd vendor/cloned && git commit -q --allow-empty -m x && touch f");
    sh(&tree, "git init -q fresh && touch fresh/f");
    write(&tree, "real", "change");
    let committed = commit(&workspace);
    let WorkState::At(sha) = committed.state else { panic!("{:?}", committed.state) };
    assert_eq!(changes(&tree, &sha), ["A real"]);
    let mut left_out = committed.left_out;
    left_out.sort();
    assert_eq!(left_out, ["`fresh/` (a repository of its own)", "`vendor/cloned/` (a repository of its own)"]);
}

#[test]
fn c51_commits_on_a_detached_head_or_another_branch_are_the_work() {
    for script in [
        "git checkout -q --detach; echo x > x; git add x; git commit -qm fix",
        "git checkout -q --detach; echo x > x",
        "git checkout -q -b feature; echo x > x; git add x; git commit -qm fix",
        "git checkout -q -b feature; echo x > x",
        "echo x > x; git add x; git commit -qm fix; git checkout -q --detach HEAD~1",
        "echo x > x; git add x; git commit -qm fix; git checkout -q main",
        "git checkout -q -b feature; git branch -D work; echo x > x; git add x; git commit -qm fix",
        "echo x > x; git add x; git stash -q; git stash pop -q",
    ] {
        let repositories = Repositories::new();
        let workspace = repositories.workspace();
        sh(&workspace.tree(), script);
        let sha = commit_whole(&workspace);
        workspace.push(&sha, workspace.branch()).unwrap();
        assert_eq!(repositories.remote_branch("work"), Some(sha.clone()), "{script}");
        assert_eq!(git(&repositories.remote(), &["show", "work:x"]), "x", "{script}");
    }
}

#[test]
fn c51_an_empty_commit_alone_is_no_change() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    sh(&workspace.tree(), "git checkout -q --detach; git commit -q --allow-empty -m fix");
    assert_eq!(commit(&workspace).state, WorkState::Unchanged);
}

#[test]
fn c51_work_in_two_places_is_reported() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    sh(
        &workspace.tree(),
        "echo 1 > a; git add a; git commit -qm a; git checkout -q -b other main; echo 1 > b; git add b; git commit -qm b",
    );
    let (_, reason) = commit_held(&workspace);
    assert!(reason.contains("the work is split"), "{reason}");
}

#[test]
fn c51_an_unfinished_operation_is_reported_and_kept() {
    let two_sides = "echo 1 > f; git add f; git commit -qm 1; git checkout -q -b side HEAD~1; echo 2 > f; git add f; \
                     git commit -qm 2; git checkout -q work;";
    for (operation, script) in [
        ("rebase", "git rebase -q side || true"),
        ("merge", "git merge -q side || true"),
        ("cherry-pick", "git cherry-pick side || true"),
        ("revert", "echo 3 > f; git commit -qam 3; git revert HEAD~1 || true"),
        ("conflict", "echo 3 > f; git stash -q; echo 4 > f; git commit -qam 4; git stash pop || true"),
        ("rebase", "git format-patch -q -1 side -o ../p; git am -q ../p/* || true"),
    ] {
        let repositories = Repositories::new();
        let workspace = repositories.workspace();
        sh(&workspace.tree(), &format!("{two_sides} {script}"));
        let (sha, reason) = commit_held(&workspace);
        assert!(reason.contains(operation), "{operation}: {reason}");
        assert!(!git(&workspace.tree(), &["grep", "-c", "", &sha]).contains("<<<<"), "{operation}");
        assert!(git(&workspace.tree(), &["status"]).contains('f'), "{operation}: left as it was");
    }
}

#[test]
fn c51_an_unfinished_merge_is_told_in_the_comment_and_kept_as_a_patch() {
    let world = World::with_task(
        &Cassette::new()
            .runs("echo 1 > f; git add f; git commit -qm 1; git checkout -q -b side HEAD~1; echo 2 > f; git add f; git commit -qm 2")
            .runs("git checkout -q coding-agent/issue-fix; git merge side")
            .finishes("All merged."),
    );
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.branches(), Vec::<String>::new());
    let comment = world.comments("fix");
    assert!(comment.contains("the work tree is in the middle of a merge"), "{comment}");
    let patch = std::fs::read_to_string(world.context("completed").join("work.patch")).unwrap();
    assert!(patch.contains("+1"), "{patch}");
    assert_eq!(world.names("workspaces").len(), 1, "the tree is kept");
}

#[test]
fn a_commit_that_git_refuses_is_no_success_and_loses_nothing() {
    let cassette = Cassette::new()
        .creates("x", "x\n")
        // An object directory that takes nothing more; root may write anywhere, so it becomes a file.
        .runs("git config core.compression 42")
        .finishes("All done.");
    let world = World::with_task(&cassette);
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent failed"]);
    let uuid = world.names("workspaces").remove(0);
    let kept = ["tree", "tree.broken"].iter().any(|tree| world.path(format!("workspaces/{uuid}/{tree}/x")).exists());
    assert!(kept, "the work is kept");
}

#[test]
fn a_head_without_a_commit_is_no_success() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    sh(&workspace.tree(), "git checkout -q --orphan new; git rm -rfq .");
    let result = workspace.commit("m", &Redactor::default());
    assert!(!matches!(result.map(|done| done.state), Ok(WorkState::At(_))));
}

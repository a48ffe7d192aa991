//! The two repositories of a task: how they are made, on which machine and from which remote ever.

use coding_agent::error::Kind;
use coding_agent::workspace::{Pushed, WorkState, Workspace};
use uuid::Uuid;

use crate::support::repositories::source;
use crate::support::repositories::{OURS, commit, commit_whole, install_program, write};
use crate::support::{Cassette, Repositories, World, git};

#[test]
fn a_fresh_workspace_starts_at_the_base_on_its_own_branch() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    assert_eq!((workspace.branch(), workspace.base_branch(), workspace.is_continued()), ("work", Some("main"), false));
    let tree = workspace.tree();
    assert_eq!(git(&tree, &["symbolic-ref", "--short", "HEAD"]), "work");
    assert_eq!(git(&tree, &["remote"]), "", "the model has nowhere to push to");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert_eq!(commit(&workspace).state, WorkState::Unchanged);
    // Nothing is shared between the two repositories.
    let (bare, clone) = (tree.join("../repo.git/objects"), tree.join(".git/objects"));
    assert!(!clone.join("info/alternates").exists());
    assert_ne!(bare.canonicalize().unwrap(), clone.canonicalize().unwrap());
    let dir = tree.parent().unwrap().to_path_buf();
    workspace.remove().unwrap();
    assert!(!dir.exists());
}

#[test]
fn c50_the_base_is_what_the_remote_says_not_a_name() {
    let repositories = Repositories::empty("trunk");
    repositories.person_commits("README", "new\n");
    let person = repositories.person();
    git(&person, &["checkout", "--quiet", "--orphan", "main"]);
    repositories.person_commits("README", "stale\n");
    let workspace = repositories.workspace();
    assert_eq!(workspace.base_branch(), Some("trunk"));
    assert_eq!(std::fs::read_to_string(workspace.tree().join("README")).unwrap(), "new\n");
}

#[test]
fn c50_an_empty_repository_fails_the_task_clearly() {
    let repositories = Repositories::empty("main");
    let uuid = Uuid::new_v4();
    for _ in 0..2 {
        let error = repositories.prepare_with(&repositories.settings(), uuid, "work").unwrap_err();
        assert_eq!(error.kind(), Kind::Task);
        assert!(error.sentence().ends_with("has no commits yet"), "{error}");
    }
    let world = World::with_task(&Cassette::new().finishes("never"));
    std::fs::remove_dir_all(world.path("widgets/.git")).unwrap();
    git(&world.path("widgets"), &["init", "--quiet"]);
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent failed"]);
    assert!(world.comments("fix").contains("has no commits yet"), "{}", world.comments("fix"));
}

#[test]
fn c50_a_remote_whose_head_names_no_branch_that_exists_fails_clearly() {
    let repositories = Repositories::new();
    git(&repositories.remote(), &["symbolic-ref", "HEAD", "refs/heads/gone"]);
    let error = repositories.prepare_with(&repositories.settings(), Uuid::new_v4(), "work").unwrap_err();
    assert_eq!(error.kind(), Kind::Task, "{error:#}");
}

#[test]
fn c52_works_without_home_and_identity_and_writes_no_global_configuration() {
    let repositories = Repositories::new();
    let mut settings = repositories.settings();
    settings.env.retain(|(name, _)| name == "PATH");
    let workspace = repositories.prepare_with(&settings, Uuid::new_v4(), "work").unwrap().workspace;
    write(&workspace.tree(), "a", "a");
    let sha = commit_whole(&workspace);
    assert_eq!(
        git(&workspace.tree(), &["log", "-1", "--format=%an %ae %cn %ce", &sha]),
        format!("Agent {OURS} Agent {OURS}")
    );
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
    assert_eq!(std::fs::read_dir(repositories.path("home")).unwrap().count(), 0);
}

#[test]
fn c52_the_model_can_commit_without_an_identity_of_its_own() {
    let cassette = Cassette::new().runs("echo x > x && git add x && git commit -m mine").finishes("x");
    let world = World::with_task(&cassette);
    world.run(&[]).expect(0);
    assert_eq!(world.file_on("coding-agent/issue-fix", "x"), "x");
    assert_eq!(world.names("home"), Vec::<String>::new(), "nothing is written to our HOME");
}

#[test]
fn c52_a_tree_that_belongs_to_somebody_else_is_still_ours_to_commit() {
    if !is_root() {
        return;
    }
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    write(&workspace.tree(), "a", "a");
    give_away(&workspace.tree());
    let sha = commit_whole(&workspace);
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
}

#[test]
fn c52_a_remote_that_belongs_to_somebody_else_is_told() {
    if !is_root() {
        return;
    }
    let repositories = Repositories::new();
    give_away(&repositories.remote());
    let error = repositories.prepare_with(&repositories.settings(), Uuid::new_v4(), "work").unwrap_err();
    assert_eq!(error.kind(), Kind::Task);
    assert!(error.sentence().contains("belongs to another user"), "{error:#}");
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

fn give_away(dir: &std::path::Path) {
    assert!(std::process::Command::new("chown").args(["-R", "12345:12345"]).arg(dir).status().unwrap().success());
}

#[test]
fn what_a_person_configured_for_himself_does_not_disturb() {
    let repositories = Repositories::new();
    let (home, hooks) = (repositories.path("home"), repositories.path("hooks"));
    for hook in ["pre-commit", "commit-msg", "pre-push", "post-checkout"] {
        let script = format!("touch {}; exit 1", repositories.path("ran").display());
        install_program(&hooks.join(hook), &script);
        install_program(&repositories.path("template/hooks").join(hook), &script);
    }
    let config = format!(
        "[core]\nhooksPath = {}\nfsmonitor = {}/pre-commit\nexcludesFile = {}/ignore\n[init]\ntemplateDir = {}\n\
         [clone]\ndefaultRemoteName = upstream\n[safe]\nbareRepository = explicit\n[commit]\ngpgSign = true\n\
         [color]\nui = always\n[submodule]\nrecurse = true\n[push]\nrecurseSubmodules = only\nfollowTags = true\n\
         [log]\nshowSignature = true\n[status]\nshowUntrackedFiles = no\n[diff]\nexternal = false\nnoprefix = true\n\
         [fetch]\nprune = true\n[user]\nname = alice\nemail = alice@example.org\n",
        hooks.display(),
        hooks.display(),
        home.display(),
        repositories.path("template").display(),
    );
    write(&home, ".gitconfig", config);
    write(&home, "ignore", "*\n");
    repositories.pushed_by("work", OURS);
    let workspace = repositories.workspace();
    assert!(workspace.is_continued());
    write(&workspace.tree(), "a", "a");
    // What the model runs itself meets none of his hooks either.
    write(&workspace.tree(), "b", "b");
    git(&workspace.tree(), &["add", "b"]);
    git(&workspace.tree(), &["commit", "--quiet", "--message", "by the model"]);
    let sha = commit_whole(&workspace);
    assert_eq!(workspace.push(&sha, "work").unwrap(), Pushed::At("work".into()));
    assert!(!repositories.path("ran").exists(), "a hook of the person ran");
}

#[test]
fn an_unreachable_remote_is_for_later_and_a_missing_one_for_good() {
    let repositories = Repositories::new();
    let prepare = |url: &str| {
        Workspace::prepare(&repositories.settings(), Uuid::new_v4(), &source(url), "work", &|_| Ok(false)).unwrap_err()
    };
    for url in ["http://127.0.0.1:1/x.git", "https://127.0.0.1:1/x.git", "git://127.0.0.1:1/x", "ssh://127.0.0.1:1/x"] {
        let error = prepare(url);
        assert_eq!(error.kind(), Kind::Later, "{url}: {error:#}");
    }
    for url in ["/nowhere/at/all", "-oProxyCommand=touch ran", "ext::touch ran"] {
        let error = prepare(url);
        assert_eq!(error.kind(), Kind::Task, "{url}: {error:#}");
    }
}

#[test]
fn a_shallow_workspace_works_and_pushes() {
    let repositories = Repositories::new();
    for number in 0..4 {
        repositories.person_commits("README", format!("{number}\n"));
    }
    let tip = repositories.pushed_by("ours", OURS);
    let settings = coding_agent::workspace::Settings { depth: Some(1), ..repositories.settings() };
    let url = format!("file://{}", repositories.remote().display());
    for (wish, start) in [("work", None), ("ours", Some(tip))] {
        let workspace =
            Workspace::prepare(&settings, Uuid::new_v4(), &source(&url), wish, &|_| Ok(false)).unwrap().workspace;
        assert_eq!(workspace.branch(), wish);
        assert_eq!(workspace.is_continued(), start.is_some());
        assert_eq!(git(&workspace.tree(), &["rev-list", "--count", "main"]), "1");
        write(&workspace.tree(), "a", wish);
        let sha = commit_whole(&workspace);
        assert_eq!(workspace.push(&sha, wish).unwrap(), Pushed::At(wish.into()));
        assert_eq!(git(&repositories.remote(), &["rev-list", "--count", "main"]), "5");
    }
    assert_eq!(git(&repositories.remote(), &["rev-list", "--count", "work"]), "6");
}

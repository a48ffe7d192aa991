//! What lies in wait in other people's repositories: submodules, Git LFS, names and attributes that
//! mean something, files that grow.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use coding_agent::sys::bubblewrap::Bubblewrap;
use coding_agent::workspace::{Settings, WorkState, Workspace};
use serde_json::json;
use uuid::Uuid;

use crate::support::github_job::{Job, REPO};
use crate::support::repositories::{commit, commit_held, commit_whole, install_program, sh, write};
use crate::support::shell::bubblewrap;
use crate::support::{Cassette, Repositories, World, call, git};

/// Status and path of each file that differs between the start and the commit.
fn changes(workspace: &Workspace, sha: &str) -> Vec<String> {
    let text = git(
        &workspace.tree(),
        &["-c", "core.quotePath=true", "diff", "--name-status", "--no-renames", workspace.start_sha(), sha],
    );
    text.lines().map(|line| line.replace('\t', " ")).collect()
}

/// The commit and what was left out.
#[track_caller]
fn commit_in_part(workspace: &Workspace) -> (String, Vec<String>) {
    let committed = commit(workspace);
    match committed.state {
        WorkState::At(sha) => (sha, committed.left_out),
        other => panic!("{other:?}: {:?}", committed.left_out),
    }
}

/// Makes the bare repository `path` with the file `name`; its only commit.
fn library(repositories: &Repositories, path: &str, name: &str) -> String {
    let work = repositories.path(&format!("{path}.work"));
    write(&work, name, "library\n");
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    git(&work, &["add", "--all"]);
    git(&work, &["commit", "--quiet", "--message", "library"]);
    git(&work, &["clone", "--quiet", "--bare", ".", repositories.path(path).to_str().unwrap()]);
    git(&work, &["rev-parse", "HEAD"])
}

/// Adds submodules (path, URL, commit) to a repository and commits them.
fn add_submodules(repository: &Path, submodules: &[(&str, &str, &str)]) {
    let mut text = String::new();
    for (path, url, sha) in submodules {
        text += &format!("[submodule \"the {path}\"]\n\tpath = {path}\n\turl = {url}\n");
        git(repository, &["update-index", "--add", "--cacheinfo", &format!("160000,{sha},{path}")]);
    }
    write(repository, ".gitmodules", text);
    git(repository, &["add", ".gitmodules"]);
    git(repository, &["commit", "--quiet", "--message", "submodules"]);
    git(repository, &["push", "--quiet", "origin", "HEAD"]);
}

fn with_submodule() -> (Repositories, Workspace) {
    let repositories = Repositories::new();
    let sha = library(&repositories, "lib.git", "lib.txt");
    add_submodules(&repositories.person(), &[("libs/one", "../lib.git", &sha)]);
    let workspace = repositories.workspace();
    (repositories, workspace)
}

#[test]
fn c53_a_submodule_is_neither_dropped_nor_moved_by_accident() {
    let told = "`libs/one` (a submodule; its change counts only where it was staged)";
    for (script, expected) in [
        ("rm -rf libs", told),
        ("rm -rf libs; ln -s /etc libs", told),
        ("rm -rf libs/one; echo x > libs/one", told),
        ("git clone -q ../../../lib.git libs/one; cd libs/one; git commit -q --allow-empty -m mine", told),
        ("echo x > libs/one/new.txt", "`libs/one` (files in a submodule that is not checked out)"),
    ] {
        let (_repositories, workspace) = with_submodule();
        sh(&workspace.tree(), &format!("echo real > real; ({script})"));
        let (sha, left_out) = commit_in_part(&workspace);
        assert_eq!(changes(&workspace, &sha), ["A real"], "{script}");
        assert_eq!(left_out, [expected], "{script}");
    }
}

/// Git refuses every look at such a tree.
#[test]
fn c53_a_link_in_the_place_of_a_submodule_is_reported_and_nothing_is_lost() {
    let (_repositories, workspace) = with_submodule();
    let script =
        "echo mine > mine; git add mine; git commit -qm mine; echo real > real; rm -rf libs/one; ln -s /etc libs/one";
    sh(&workspace.tree(), script);
    let (sha, reason) = commit_held(&workspace);
    assert!(reason.starts_with("cannot commit what is in the work tree"), "{reason}");
    assert_eq!(changes(&workspace, &sha), ["A mine"]);
    assert!(workspace.tree().join("real").exists());
}

#[test]
fn c53_a_submodule_that_was_moved_or_removed_on_purpose_is_committed() {
    for (script, expected) in [
        ("git rm -q libs/one", vec!["M .gitmodules", "D libs/one"]),
        (
            "git clone -q ../../../lib.git libs/one; (cd libs/one; git commit -q --allow-empty -m x); git add libs/one",
            vec!["M libs/one"],
        ),
    ] {
        let (_repositories, workspace) = with_submodule();
        sh(&workspace.tree(), script);
        assert_eq!(changes(&workspace, &commit_whole(&workspace)), expected, "{script}");
    }
}

#[test]
fn c53_submodules_of_the_same_owner_are_checked_out_where_that_is_configured() {
    own_submodules(None);
}

#[test]
fn c53_submodules_of_the_same_owner_are_checked_out_in_a_sandbox_too() {
    if let Some(sandbox) = bubblewrap(&[]) {
        own_submodules(Some(sandbox));
    }
}

fn own_submodules(sandbox: Option<Bubblewrap>) {
    let repositories = Repositories::new();
    let deep = library(&repositories, "deep.git", "deep.txt");
    library(&repositories, "lib.git", "lib.txt");
    let lib = repositories.path("lib.git.work");
    git(&lib, &["remote", "add", "origin", "../lib.git"]);
    add_submodules(&lib, &[("nested", "../deep.git", &deep)]);
    let lib = git(&lib, &["rev-parse", "HEAD"]);
    let foreign = library(&repositories, "elsewhere/foreign.git", "secret.txt");
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    host.set_nonblocking(true).unwrap();
    let url = format!("http://{}/acme/lib.git", host.local_addr().unwrap());
    let absolute = repositories.path("deep.git").display().to_string();
    let around = repositories.path("elsewhere/../elsewhere/foreign.git").display().to_string();
    add_submodules(
        &repositories.person(),
        &[
            ("a/lib", "../lib.git", &lib),
            ("absolute", &absolute, &deep),
            ("foreign", "../elsewhere/foreign.git", &foreign),
            ("around", &around, &foreign),
            ("host", &url, &foreign),
            ("option", "--upload-pack=touch ran", &foreign),
            ("ext", "ext::touch ran", &foreign),
            ("missing", "../missing.git", &foreign),
            ("no-commit", "../lib.git", &foreign),
        ],
    );
    let settings = Settings { own_submodules: true, sandbox, ..repositories.settings() };
    let uuid = Uuid::new_v4();
    let workspace = repositories.prepare_with(&settings, uuid, "work").unwrap().workspace;
    let tree = workspace.tree();
    let look = |made_again: &str| {
        for (path, text) in
            [("a/lib/lib.txt", "library\n"), ("a/lib/nested/deep.txt", "library\n"), ("absolute/deep.txt", "library\n")]
        {
            assert_eq!(std::fs::read_to_string(tree.join(path)).unwrap(), text, "{made_again} {path}");
        }
        for path in ["foreign", "around", "host", "option", "ext", "missing", "no-commit"] {
            assert_eq!(std::fs::read_dir(tree.join(path)).unwrap().count(), 0, "{made_again} {path}");
        }
        assert_eq!(git(&tree, &["status", "--porcelain"]), "", "{made_again}");
        assert_eq!(git(&tree.join("a/lib"), &["remote"]), "", "there is nowhere to push to");
    };
    look("");
    assert_eq!(commit(&workspace).state, WorkState::Unchanged);
    assert_eq!(host.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "another host was asked");
    let mut names: Vec<_> =
        std::fs::read_dir(tree.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["repo.git", "tree", "workspace.json"], "nothing is left of the way");
    // What is done inside a submodule belongs to another repository, and is told.
    write(&tree, "real", "x");
    write(&tree, "a/lib/lib.txt", "changed\n");
    let (sha, left_out) = commit_in_part(&workspace);
    assert_eq!(changes(&workspace, &sha), ["A real"]);
    assert_eq!(left_out, ["`a/lib` (a submodule; its change counts only where it was staged)"]);
    // A tree made again has them again.
    std::fs::remove_dir_all(&tree).unwrap();
    assert!(repositories.prepare_with(&settings, uuid, "work").unwrap().made_again);
    look("made again");
}

#[test]
fn c53_a_submodule_behind_a_link_leads_nowhere() {
    let repositories = Repositories::new();
    let sha = library(&repositories, "lib.git", "lib.txt");
    let person = repositories.person();
    symlink(repositories.path("home"), person.join("link")).unwrap();
    git(&person, &["add", "link"]);
    // A tree object with a link and a directory of the same name, which git itself never writes.
    let module = format!("160000 commit {sha}\tsub");
    let sub = git_with_input(&person, &["mktree", "--missing"], &format!("{module}\n"));
    add_submodules(&person, &[("other", "../lib.git", &sha)]);
    write(&person, ".gitmodules", "[submodule \"x\"]\n\tpath = link/sub\n\turl = ../lib.git\n");
    git(&person, &["add", ".gitmodules"]);
    let listed = git(&person, &["write-tree"]);
    let entries = git(&person, &["ls-tree", &listed]) + &format!("\n040000 tree {sub}\tlink\n");
    let tree = git_with_input(&person, &["mktree"], &entries);
    let commit = git(&person, &["commit-tree", "-p", "HEAD", "-m", "trap", &tree]);
    git(&person, &["push", "--quiet", "origin", &format!("{commit}:main")]);
    let settings = Settings { own_submodules: true, ..repositories.settings() };
    // Whether git takes such a commit or not, nothing lands where the link leads.
    let _ = repositories.prepare_with(&settings, Uuid::new_v4(), "work");
    assert_eq!(std::fs::read_dir(repositories.path("home")).unwrap().count(), 0);
}

#[test]
fn c53_the_model_is_told_of_a_submodule_and_can_read_one_that_is_checked_out() {
    for (configured, expected) in [("none", "(a submodule that is not checked out)"), ("same_owner", "lib.txt")] {
        let view = json!({ "command": "view", "path": "sub" });
        let world = World::with_task(&Cassette::new().then(call("text-editor_text_editor", view)).finishes("x"));
        world.configure(&format!("workspace: {{submodules: {configured}}}"));
        let (library, widgets) = (world.path("library"), world.path("widgets"));
        write(&library, "lib.txt", "x\n");
        git(&library, &["init", "--quiet", "--initial-branch=main"]);
        git(&library, &["add", "--all"]);
        git(&library, &["commit", "--quiet", "--message", "library"]);
        let sha = git(&library, &["rev-parse", "HEAD"]);
        git(&widgets, &["update-index", "--add", "--cacheinfo", &format!("160000,{sha},sub")]);
        write(&widgets, ".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ../library\n");
        git(&widgets, &["add", ".gitmodules"]);
        git(&widgets, &["commit", "--quiet", "--message", "submodule"]);
        world.run(&[]).expect(0);
        world.assert_settled();
        assert_eq!(world.history().results()[0], expected, "{configured}");
        assert!(world.comments("fix").contains("No file was changed."), "{}", world.comments("fix"));
    }
}

/// Private repositories on one host: the token opens those of the same owner, and the others see
/// neither it nor us.
#[test]
fn c53_credentials_go_to_submodules_of_the_same_owner_alone() {
    let view = |path: &str| call("text-editor_text_editor", json!({ "command": "view", "path": path }));
    let job = Job::with(&Cassette::new().then(view("own")).then(view("foreign")).then(view("host")).finishes("x"));
    job.world.configure("workspace: {submodules: same_owner}");
    job.fake.add_repo("acme/lib");
    job.fake.add_org("other");
    job.fake.add_repo("other/lib");
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    host.set_nonblocking(true).unwrap();
    let person = job.world.path("person");
    git(job.world.path("").as_path(), &["init", "--quiet", "--initial-branch=main", "person"]);
    let of = |repository: &str| job.fake.branch(repository, "main").unwrap();
    let (own, foreign) = (of("acme/lib"), of("other/lib"));
    let elsewhere = format!("http://{}/acme/lib.git", host.local_addr().unwrap());
    let mut text = String::new();
    for (path, url, sha) in
        [("own", "../lib.git", &own), ("foreign", "../../other/lib", &foreign), ("host", &elsewhere, &own)]
    {
        text += &format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
        git(&person, &["update-index", "--add", "--cacheinfo", &format!("160000,{sha},{path}")]);
    }
    write(&person, ".gitmodules", text);
    git(&person, &["add", ".gitmodules"]);
    git(&person, &["commit", "--quiet", "--message", "submodules"]);
    job.fake.git(REPO, &["fetch", "--quiet", person.to_str().unwrap(), "+main:main", "--update-head-ok"]);
    job.world.run(&[]).expect(0);
    job.world.assert_settled();
    let history = job.world.history();
    let absent = "(a submodule that is not checked out)";
    assert_eq!(history.results()[..3], ["README\nadd.sh", absent, absent]);
    let asked: Vec<String> = job.fake.log().iter().map(|one| one.request.line()).collect();
    assert!(asked.iter().any(|line| line.contains("/acme/lib")), "{asked:?}");
    assert!(!asked.iter().any(|line| line.contains("/other/")), "{asked:?}");
    assert_eq!(host.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "another host was asked");
    job.fake.assert_no_violations();
}

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";

#[test]
fn c53_a_pointer_that_something_overwrote_stays_a_pointer() {
    let repositories = Repositories::new();
    write(&repositories.person(), ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    for name in ["overwritten.bin", "staged.bin", "moved.bin", "removed.bin", "updated.bin"] {
        write(&repositories.person(), name, POINTER);
    }
    // Text about pointers is no pointer.
    write(&repositories.person(), "about.md", format!("{POINTER}\n{}", "words ".repeat(200)));
    repositories.person_commits_all();
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    write(&tree, "overwritten.bin", vec![0, 1, 2, 255]);
    write(&tree, "staged.bin", "content\n");
    git(&tree, &["add", "staged.bin"]);
    std::fs::rename(tree.join("moved.bin"), tree.join("renamed.bin")).unwrap();
    std::fs::remove_file(tree.join("removed.bin")).unwrap();
    write(&tree, "updated.bin", POINTER.replace("12345", "54321"));
    write(&tree, "about.md", "shorter\n");
    let (sha, mut left_out) = commit_in_part(&workspace);
    assert_eq!(
        changes(&workspace, &sha),
        ["M about.md", "D moved.bin", "D removed.bin", "A renamed.bin", "M updated.bin"]
    );
    left_out.sort();
    let reason = "in Git LFS, which is not used here";
    assert_eq!(left_out, [format!("`overwritten.bin` ({reason})"), format!("`staged.bin` ({reason})")]);
    assert_eq!(git(&tree, &["show", &format!("{sha}:overwritten.bin")]), POINTER.trim_end());
}

#[test]
fn c54_a_tracked_file_that_became_a_giant_is_left_out_and_told() {
    let repositories = Repositories::new();
    write(&repositories.person(), "log.txt", "one line\n");
    write(&repositories.person(), "big.bin", vec![7u8; 6 << 20]);
    repositories.person_commits_all();
    let workspace = repositories.workspace();
    write(&workspace.tree(), "log.txt", "line\n".repeat(1_200_000));
    // It was big before: this is an ordinary change.
    write(&workspace.tree(), "big.bin", vec![8u8; 7 << 20]);
    let (sha, left_out) = commit_in_part(&workspace);
    assert_eq!(changes(&workspace, &sha), ["M big.bin"]);
    assert_eq!(left_out, ["`log.txt` (grew by more than 5 MiB)"]);
}

#[test]
fn c54_a_hook_that_waits_for_ever_holds_nobody_up() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    for hook in ["pre-commit", "commit-msg", "reference-transaction", "post-index-change"] {
        install_program(&workspace.tree().join(".git/hooks").join(hook), "while :; do :; done");
    }
    git(&workspace.tree(), &["config", "core.hooksPath", ".git/hooks"]);
    git(&workspace.tree(), &["config", "core.editor", "sh -c 'while :; do :; done'"]);
    write(&workspace.tree(), "a", "a");
    let sha = commit_whole(&workspace);
    workspace.push(&sha, "work").unwrap();
    assert_eq!(repositories.remote_branch("work"), Some(sha));
}

#[test]
fn files_that_became_something_else_are_committed_as_what_they_are() {
    let repositories = Repositories::new();
    for name in ["file-to-dir", "dir-to-file/a", "dir-to-file/b", "file-to-link", "Case", "case"] {
        write(&repositories.person(), name, "text\n");
    }
    symlink("Case", repositories.person().join("link-to-file")).unwrap();
    repositories.person_commits_all();
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    std::fs::remove_file(tree.join("file-to-dir")).unwrap();
    write(&tree, "file-to-dir/inner", "x\n");
    std::fs::remove_dir_all(tree.join("dir-to-file")).unwrap();
    write(&tree, "dir-to-file", "x\n");
    std::fs::remove_file(tree.join("file-to-link")).unwrap();
    symlink("/etc/passwd", tree.join("file-to-link")).unwrap();
    std::fs::remove_file(tree.join("link-to-file")).unwrap();
    write(&tree, "link-to-file", "x\n");
    std::fs::set_permissions(tree.join("Case"), std::fs::Permissions::from_mode(0o755)).unwrap();
    write(&tree, "CASE", "x\n");
    let sha = commit_whole(&workspace);
    let expected = [
        "A CASE",
        "M Case",
        "A dir-to-file",
        "D dir-to-file/a",
        "D dir-to-file/b",
        "D file-to-dir",
        "A file-to-dir/inner",
        "T file-to-link",
        "T link-to-file",
    ];
    assert_eq!(changes(&workspace, &sha), expected);
    assert_eq!(git(&tree, &["diff", "--shortstat", workspace.start_sha(), &sha, "--", "case"]), "");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
}

#[test]
fn attributes_about_line_endings_change_only_what_was_edited() {
    let repositories = Repositories::new();
    let person = repositories.person();
    write(&person, "crlf.txt", "one\r\ntwo\r\n");
    write(&person, "other.txt", "one\r\ntwo\r\n");
    write(&person, "lf.txt", "one\ntwo\n");
    repositories.person_commits_all();
    // Committed before the attributes were: every status shows a difference that nobody made.
    write(&person, ".gitattributes", "* text=auto eol=crlf\n*.sh eol=lf\n");
    git(&person, &["add", ".gitattributes"]);
    git(&person, &["commit", "--quiet", "--message", "attributes"]);
    git(&person, &["push", "--quiet", "origin", "HEAD"]);
    let workspace = repositories.workspace();
    let tree = workspace.tree();
    assert_eq!(std::fs::read(tree.join("lf.txt")).unwrap(), b"one\r\ntwo\r\n", "as the repository asks for");
    write(&tree, "lf.txt", "one\r\n2\r\n");
    write(&tree, "new.sh", "true\n");
    let sha = commit_whole(&workspace);
    let text = changes(&workspace, &sha);
    assert!(text.contains(&"M lf.txt".to_owned()) && text.contains(&"A new.sh".to_owned()), "{text:?}");
    assert_eq!(git(&tree, &["diff", "--numstat", workspace.start_sha(), &sha, "--", "lf.txt"]), "1\t1\tlf.txt");
    assert!(!text.contains(&"M other.txt".to_owned()), "{text:?}");
}

#[test]
fn configuration_in_the_tree_leads_no_call_astray() {
    let repositories = Repositories::new();
    let workspace = repositories.workspace();
    let (tree, other) = (workspace.tree(), repositories.path("home"));
    write(&tree, "a", "a");
    write(&other, "not-ours", "x");
    sh(
        &tree,
        &format!(
            "git config extensions.worktreeConfig true; git config --worktree core.worktree {0}; \
             git config core.bare true; git config status.showUntrackedFiles no; \
             git config diff.noprefix true; git config core.quotePath true; git config color.ui always; \
             git config commit.gpgSign true; git config gpg.program false; git config user.email x@example.org; \
             git config commit.template {0}/none; git config diff.external false; git config core.fsmonitor false; \
             mkdir -p .git/objects/info; echo {0}/gone > .git/objects/info/alternates",
            other.display()
        ),
    );
    let sha = commit_whole(&workspace);
    assert_eq!(changes_in(&repositories, &workspace, &sha), ["A a"]);
}

/// Pushes and asks the remote: the tree's own configuration would disturb the question.
fn changes_in(repositories: &Repositories, workspace: &Workspace, sha: &str) -> Vec<String> {
    workspace.push(sha, "work").unwrap();
    let text = git(&repositories.remote(), &["diff", "--name-status", workspace.start_sha(), sha]);
    text.lines().map(|line| line.replace('\t', " ")).collect()
}

#[test]
fn a_persons_permission_for_other_protocols_does_not_reach_a_task() {
    let repositories = Repositories::new();
    write(&repositories.path("home"), ".gitconfig", "[protocol]\nallow = always\n[protocol \"ext\"]\nallow = always\n");
    let ran = repositories.path("ran");
    let url = format!("ext::touch {}", ran.display());
    let source = crate::support::repositories::source(&url);
    let made = Workspace::prepare(&repositories.settings(), Uuid::new_v4(), &source, "work", &|_| Ok(false));
    assert!(made.is_err() && !ran.exists());
}

#[track_caller]
fn git_with_input(dir: &Path, args: &[&str], input: &str) -> String {
    std::fs::write(dir.join("../input"), input).unwrap();
    let output = std::process::Command::new("git")
        .args(args)
        .current_dir(dir)
        .stdin(std::fs::File::open(dir.join("../input")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

//! A remote repository with a person's clone of it, and workspaces of ours on it: for tests of the
//! workspace without the rest of the program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use coding_agent::error::Result;
use coding_agent::task::TaskId;
use coding_agent::text::Redactor;
use coding_agent::workspace::{Committed, Prepared, Settings, WorkState, Workspace};

use super::{BINARY, git};

/// Mail address of our commits.
pub const OURS: &str = "agent@example.org";

/// A secret that the redactor of these tests knows.
pub const SECRET: &str = "sk-TEST-1-secret";

/// `widgets.git` (bare, branch `main`, file `README`) and `person`, a clone of it.
pub struct Repositories {
    dir: tempfile::TempDir,
}

impl Repositories {
    pub fn new() -> Self {
        let repositories = Self::empty("main");
        repositories.person_commits("README", "widgets\n");
        repositories
    }

    /// Without any commit.
    pub fn empty(branch: &str) -> Self {
        coding_agent::sys::process::use_launcher(BINARY);
        let repositories = Self { dir: tempfile::tempdir().unwrap() };
        let root = repositories.dir.path();
        git(root, &["init", "--quiet", "--bare", &format!("--initial-branch={branch}"), "widgets.git"]);
        git(root, &["init", "--quiet", &format!("--initial-branch={branch}"), "person"]);
        git(&repositories.person(), &["remote", "add", "origin", "../widgets.git"]);
        std::fs::create_dir(root.join("home")).unwrap();
        repositories
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub fn remote(&self) -> PathBuf {
        self.path("widgets.git")
    }

    pub fn person(&self) -> PathBuf {
        self.path("person")
    }

    /// A person commits a file on the branch checked out and pushes it.
    pub fn person_commits(&self, name: &str, text: impl AsRef<[u8]>) {
        write(&self.person(), name, text);
        self.person_commits_all();
    }

    /// A person commits everything that lies there and pushes it.
    pub fn person_commits_all(&self) {
        git(&self.person(), &["add", "--all", "--force"]);
        git(&self.person(), &["commit", "--quiet", "--message", "by a person"]);
        git(&self.person(), &["push", "--quiet", "origin", "HEAD"]);
    }

    /// With git calls in the tree shut in; `None` where bubblewrap does not work.
    pub fn settings_shut_in(&self) -> Option<Settings> {
        Some(Settings { sandbox: Some(super::shell::bubblewrap(&[])?), ..self.settings() })
    }

    pub fn settings(&self) -> Settings {
        Settings {
            root: self.path("workspaces"),
            depth: None,
            author_name: "Agent".into(),
            author_email: OURS.into(),
            own_submodules: false,
            env: vec![
                ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
                ("HOME".into(), OsString::from(self.path("home"))),
            ],
            sandbox: None,
        }
    }

    pub fn prepare_with(&self, settings: &Settings, uuid: TaskId, wish: &str) -> Result<Prepared> {
        Workspace::prepare(settings, uuid, &source(self.remote().to_str().unwrap()), wish, &|_| Ok(false))
    }

    /// A workspace of a new task that wants the branch `work`.
    #[track_caller]
    pub fn workspace(&self) -> Workspace {
        let prepared = self.prepare_with(&self.settings(), uuid::Uuid::new_v4(), "work").unwrap();
        assert!(!prepared.made_again);
        prepared.workspace
    }

    /// Somebody pushes a commit with this mail address on `branch`, which begins at `main`.
    pub fn pushed_by(&self, branch: &str, email: &str) -> String {
        let person = self.person();
        git(&person, &["checkout", "--quiet", "-B", branch, "main"]);
        write(&person, &format!("{branch}.txt"), "earlier work\n");
        git(&person, &["add", "--all"]);
        let identity = format!("user.email={email}");
        let author = format!("--author=x <{email}>");
        // The committer too, which the environment of `git` would set otherwise.
        git(&person, &["-c", &identity, "commit", "--quiet", "--message", "x", &author]);
        if email == OURS {
            let tree = git(&person, &["rev-parse", "HEAD^{tree}"]);
            let raw = format!(
                "tree {tree}\nparent {}\nauthor a <{email}> 1700000000 +0000\ncommitter a <{email}> 1700000000 +0000\n\nx\n",
                git(&person, &["rev-parse", "main"])
            );
            std::fs::write(self.path("commit"), raw).unwrap();
            let sha = git(&person, &["hash-object", "-t", "commit", "-w", "../commit"]);
            git(&person, &["reset", "--quiet", "--hard", &sha]);
        }
        git(&person, &["push", "--quiet", "--force", "origin", branch]);
        let sha = git(&person, &["rev-parse", "HEAD"]);
        git(&person, &["checkout", "--quiet", "main"]);
        sha
    }

    /// SHA of a branch of the remote.
    pub fn remote_branch(&self, branch: &str) -> Option<String> {
        let listed = git(&self.remote(), &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")]);
        (!listed.is_empty()).then_some(listed)
    }

    /// Installs a hook in the remote.
    pub fn remote_hook(&self, name: &str, script: &str) {
        install_program(&self.remote().join("hooks").join(name), script);
    }
}

/// Writes a file below `dir`, with its directories.
pub fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes an executable shell script.
pub fn install_program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Commits the left-overs of a workspace.
#[track_caller]
pub fn commit(workspace: &Workspace) -> Committed {
    workspace.commit("work of the agent", &Redactor::new([SECRET])).unwrap()
}

/// Commits; the commit must be fit for a push and nothing left out.
#[track_caller]
pub fn commit_whole(workspace: &Workspace) -> String {
    let committed = commit(workspace);
    assert_eq!(committed.left_out, Vec::<String>::new());
    match committed.state {
        WorkState::At(sha) => sha,
        other => panic!("{other:?}"),
    }
}

/// Commits; the commit must be held back. Its SHA and the reason.
#[track_caller]
pub fn commit_held(workspace: &Workspace) -> (String, String) {
    match commit(workspace).state {
        WorkState::Held(sha, reason) => (sha, reason),
        other => panic!("{other:?}"),
    }
}

/// A remote that needs nothing to open it.
pub fn source(url: &str) -> coding_agent::ports::RepositorySource {
    coding_agent::ports::RepositorySource { url: url.to_owned(), credential: None, change: None }
}

/// Runs a script as the model would: with git's configuration of the tree alone.
#[track_caller]
pub fn sh(dir: &Path, script: &str) {
    let output = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_EDITOR", "true")])
        .envs([("GIT_AUTHOR_NAME", "m"), ("GIT_AUTHOR_EMAIL", "m@example.org")])
        .envs([("GIT_COMMITTER_NAME", "m"), ("GIT_COMMITTER_EMAIL", "m@example.org")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

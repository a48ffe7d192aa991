//! Real git against the fake: clone, push, and what stands in the way of both.

use std::path::Path;
use std::process::{Command, Output};

use super::{Ask, REPO, only_violation, with_repo};
use crate::support::fake_github::{FakeGithub, Fault, Host, Permission};

/// Git of a person with no configuration and, where given, this token.
fn git(dir: &Path, token: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("HOME", "/nonexistent"), ("GIT_TERMINAL_PROMPT", "0")]);
    command.envs([("GIT_AUTHOR_NAME", "bot"), ("GIT_AUTHOR_EMAIL", "bot@example.org")]);
    command.envs([("GIT_COMMITTER_NAME", "bot"), ("GIT_COMMITTER_EMAIL", "bot@example.org")]);
    if let Some(token) = token {
        let helper = format!("!f() {{ echo username=x-access-token; echo password={token}; }}; f");
        command.envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "credential.helper")]);
        command.env("GIT_CONFIG_VALUE_0", helper);
    }
    command.output().unwrap()
}

fn clone_url(fake: &FakeGithub) -> String {
    let shown = Ask::get(&format!("/repos/{REPO}")).send(fake).is(200).json();
    shown["clone_url"].as_str().unwrap().to_owned()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn good(output: &Output) {
    assert!(output.status.success(), "{}", words(output));
}

/// A clone with one commit on the branch `work`.
fn cloned(fake: &FakeGithub, dir: &Path) {
    good(&git(dir, Some(fake.token()), &["clone", "--quiet", "--depth", "1", &clone_url(fake), "tree"]));
    let tree = dir.join("tree");
    good(&git(&tree, None, &["switch", "--quiet", "--create", "work"]));
    std::fs::write(tree.join("fixed.txt"), "fixed\n").unwrap();
    good(&git(&tree, None, &["add", "--all"]));
    good(&git(&tree, None, &["commit", "--quiet", "--message", "fix"]));
}

fn push(tree: &Path, token: &str) -> Output {
    git(tree, Some(token), &["push", "--quiet", "origin", "work"])
}

#[test]
fn clone_and_push() {
    let fake = with_repo();
    let dir = tempfile::tempdir().unwrap();
    cloned(&fake, dir.path());
    assert_eq!(std::fs::read_to_string(dir.path().join("tree/README")).unwrap(), "widgets\n");
    good(&push(&dir.path().join("tree"), fake.token()));
    assert_eq!(fake.git(REPO, &["show", "work:fixed.txt"]), "fixed");
    let log = fake.log();
    let web = || log.iter().filter(|one| one.request.host == Host::Web);
    assert!(web().any(|one| one.request.header("git-protocol") == Some("version=2")));
    assert!(web().any(|one| one.status == Some(401)), "git asks without a token first");
    let basic = web().filter_map(|one| one.request.header("authorization"));
    let names =
        basic.map(|header| crate::support::fake_github::unbase64(header.strip_prefix("Basic ").unwrap()).unwrap());
    assert!(names.into_iter().all(|text| text == format!("x-access-token:{}", fake.token())));
    assert!(web().all(|one| !one.request.target.contains(fake.token())));
    fake.assert_no_violations();
}

#[test]
fn a_private_repository_needs_a_token() {
    let fake = with_repo();
    let dir = tempfile::tempdir().unwrap();
    let url = clone_url(&fake);
    let clone = |token: Option<&str>, name: &str| git(dir.path(), token, &["clone", "--quiet", &url, name]);
    assert!(words(&clone(None, "a")).contains("could not read Username"));
    assert!(words(&clone(Some("ghp_wrong"), "b")).contains("Authentication failed"));
    fake.set_permission(REPO, fake.bot(), Permission::None);
    assert!(words(&clone(Some(fake.token()), "c")).contains("not found"));
    fake.change_repo(REPO, |repo| repo.private = false);
    good(&clone(None, "d"));
    let got = Ask::get(&format!("/{REPO}.git/info/refs?service=git-receive-pack")).without("authorization");
    let got = got.try_send(&fake.web_url()).unwrap().is(401);
    assert_eq!(got.header("www-authenticate"), Some("Basic realm=\"GitHub\""));
}

#[test]
fn a_push_may_be_refused() {
    let fake = with_repo();
    let dir = tempfile::tempdir().unwrap();
    cloned(&fake, dir.path());
    let tree = dir.path().join("tree");
    fake.add_token("read-only", fake.bot(), true);
    assert!(words(&push(&tree, "read-only")).contains("403"));
    fake.set_permission(REPO, fake.bot(), Permission::Read);
    let refused = words(&push(&tree, fake.token()));
    assert!(refused.contains("403") && refused.contains("denied to"), "{refused}");
    fake.set_permission(REPO, fake.bot(), Permission::Write);
    fake.change_repo(REPO, |repo| repo.archived = true);
    assert!(words(&push(&tree, fake.token())).contains("archived"));
    fake.change_repo(REPO, |repo| repo.archived = false);
    fake.refuse_pushes(REPO, "error: GH006: Protected branch update failed for refs/heads/work.");
    let refused = words(&push(&tree, fake.token()));
    assert!(refused.contains("GH006") && refused.contains("[remote rejected]"), "{refused}");
    assert_eq!(fake.branch(REPO, "work"), None);
    fake.set_hook(REPO, "pre-receive", "exit 0");
    good(&push(&tree, fake.token()));
}

#[test]
fn the_old_name_leads_to_the_new_one() {
    let fake = with_repo();
    let dir = tempfile::tempdir().unwrap();
    let old = clone_url(&fake);
    fake.rename_repo(REPO, "acme/gadgets");
    good(&git(dir.path(), Some(fake.token()), &["clone", "--quiet", &old, "tree"]));
    assert!(dir.path().join("tree/add.sh").exists());
}

#[test]
fn git_meets_failures_too() {
    let fake = with_repo();
    let dir = tempfile::tempdir().unwrap();
    cloned(&fake, dir.path());
    let tree = dir.path().join("tree");
    fake.fail_next("POST */git-receive-pack", Fault::Status(503));
    assert!(words(&push(&tree, fake.token())).contains("503"));
    assert_eq!(fake.branch(REPO, "work"), None);
    fake.fail_next("POST */git-receive-pack", Fault::AfterEffectReset);
    assert!(!push(&tree, fake.token()).status.success());
    assert!(fake.branch(REPO, "work").is_some(), "done, though the answer was lost");
}

#[test]
fn git_and_the_api_live_on_different_hosts() {
    let fake = with_repo();
    Ask::get(&format!("/{REPO}.git/info/refs")).send(&fake).is(404);
    assert!(only_violation(&fake).contains("no such call"));
    Ask::get("/user").try_send(&fake.web_url()).unwrap().is(404);
    assert!(only_violation(&fake).contains("neither git nor the API"));
    let ask = Ask::get(&format!("/{REPO}.git/info/refs?service=git-upload-pack"));
    ask.try_send(&fake.web_url()).unwrap().is(401);
    assert!(only_violation(&fake).contains("not Basic"));
}

//! `doctor` on this machine: a git that is broken, directories that will not do, processes it started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::doctor::{MCP_SERVER, Report};
use crate::support::shell::assert_none_left;
use crate::support::{Cassette, World};

/// A world in which `git` is this shell script.
fn with_git(script: &str) -> World {
    let mut world = World::with_task(&Cassette::new());
    fs::create_dir(world.path("bin")).unwrap();
    world.write("bin/git", &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(world.path("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    world.set_env("PATH", &path);
    world
}

#[test]
fn a_git_that_hangs_is_not_waited_for() {
    let world = with_git("echo $$ > git.pid; exec sleep 1000");
    Report::of(&world, 78).says("git", "bad", "git does not answer within 10 s", "git --version");
}

#[test]
fn a_git_that_is_broken_says_how() {
    let world = with_git("echo 'libz.so.1: cannot open' >&2; exit 3");
    let said = "`git --version` ended with exit code 3 and said: libz.so.1: cannot open";
    Report::of(&world, 78).says("git", "bad", said, "see whether `git --version` works");
    world.run(&[]).expect(78);
    let world = with_git("kill -9 $$");
    Report::of(&world, 78).says("git", "bad", "was killed by signal 9 and said nothing", "");
}

#[test]
fn a_git_that_is_too_old_is_told_with_the_oldest_that_will_do() {
    for (version, code) in [
        ("git version 2.31.8", 78),
        ("git version 1.9", 78),
        ("git version 2.32.0", 0),
        ("git version 2.39.5 (Apple Git-154)", 0),
        ("git version 3.0.rc1", 0),
        ("a git of our own", 0),
    ] {
        let world = with_git(&format!("echo '{version}'"));
        let report = Report::of(&world, code);
        if code == 0 {
            report.says("git", "good", version, "");
        } else {
            report.says("git", "bad", &format!("{version} is too old"), "install git 2.32 or later");
            let ended = world.run(&[]).expect(78);
            assert!(ended.stderr.contains("too old"), "{ended:?}");
        }
    }
}

#[test]
fn a_demo_without_git_leaves_nothing() {
    let mut world = World::new();
    world.set_env("PATH", "/nonexistent");
    let ended = world.run(&["demo"]).expect(78);
    assert!(ended.stderr.contains("install git 2.32 or later"), "{ended:?}");
    assert!(!world.path("demo").exists());
}

/// A server that leaves a process in a session of its own, and writes down the mark of both.
fn leaver() -> String {
    format!("echo \"$CODING_AGENT_TASK\" > mark; setsid sleep 600 > /dev/null 2>&1 &\n{MCP_SERVER}")
}

#[test]
fn what_left_the_group_of_an_mcp_server_is_ended_by_doctor() {
    let world = World::with_task(&Cassette::new());
    world.write("leaver.sh", &leaver());
    world.configure("mcp_servers: [{mcp_server_name: leaver, command: [sh, leaver.sh]}]\n");
    Report::of(&world, 0).is("MCP server leaver", "good");
    assert_none_left(world.read("mark").trim());
}

#[test]
fn what_left_the_group_of_an_mcp_server_is_ended_when_the_task_is_parked() {
    let world = World::with_task(&Cassette::new().fails("host", "no such model"));
    world.write("leaver.sh", &leaver());
    world.configure("mcp_servers: [{mcp_server_name: leaver, command: [sh, leaver.sh]}]\n");
    world.run(&[]).expect(78);
    let uuid = world.names("contexts/running").remove(0);
    assert_eq!(world.read("mark").trim(), uuid);
    assert_none_left(uuid);
}

#[test]
fn a_spool_or_contexts_in_memory_is_a_warning() {
    let shared = tempfile::tempdir_in("/dev/shm").unwrap();
    let world = World::with_task(&Cassette::new());
    let at = |name: &str| shared.path().join(name).display().to_string();
    let config = world.read("config.yaml");
    let report = || {
        let output =
            world.command(&["doctor", "--json"]).env_remove("CODING_AGENT_FAULT_MEMORY_IS_DISK").output().unwrap();
        Report(serde_json::from_slice(&output.stdout).unwrap())
    };
    world.write(
        "config.yaml",
        &format!(
            "{}queue: {{dir: '{}'}}\ncontext_storage: {{base_dir: '{}'}}\nworkspace: {{dir: '{}'}}\n",
            config.replace("queue: {max_consumers: 8}\n", ""),
            at("spool"),
            at("contexts"),
            at("workspaces")
        ),
    );
    let report = report();
    for name in ["spool directory", "contexts directory"] {
        report.says(name, "warning", "gone after a restart of the machine", "name a directory on a disk");
    }
    // What lies there can be made again.
    report.says("workspaces directory", "good", "in memory", "");
}

#[test]
fn a_spool_that_cannot_be_read_is_told_once() {
    let world = World::with_task(&Cassette::new());
    world.write("spool", "a file where a directory should be");
    let report = Report::of(&world, 78);
    let (finding, remedy) = report.is("spool directory", "bad");
    assert_eq!(finding.to_lowercase().matches("not a directory").count(), 1, "{finding}");
    assert!(remedy.contains("chown"), "{remedy}");
    report.says("queue", "skipped", "the spool directory cannot be read", "");
    report.says("items in work", "skipped", "the tasks that are here cannot be read", "");
}

#[test]
fn a_configuration_that_is_not_there_is_told_with_where_it_was_looked_for() {
    let mut world = World::new();
    fs::remove_file(world.path("config.yaml")).unwrap();
    let report = Report::of(&world, 78);
    let dir = world.path(".").canonicalize().unwrap();
    report.says("configuration", "good", &format!("no `config.yaml` in `{}`", dir.display()), "");
    let ended = world.run(&["doctor", "--config", "absent.yaml"]).expect(78);
    assert!(ended.stdout.contains("do: name an existing file\n"), "{ended:?}");
    world.set_env("CONFIG_FILE", "absent.yaml");
    Report::of(&world, 78).says("configuration", "bad", "no such file", "CONFIG_FILE names it");
    world.set_env("CONFIG_FILE", "bin");
    fs::create_dir(world.path("bin")).unwrap();
    Report::of(&world, 78).says("configuration", "bad", "cannot read config `bin`", "let the user of the agent read");
}

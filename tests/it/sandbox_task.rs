//! Whole tasks with bubblewrap: no secret is within reach of a command, the work comes out all the
//! same, and a killed agent leaves nothing running.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

use crate::support::shell::{bubblewrap, processes_of};
use crate::support::{Cassette, World, check_strictly, eventually};

const SECRETS: [(&str, &str); 2] =
    [("GITHUB_PERSONAL_ACCESS_TOKEN", "TOKEN123-of-the-forge"), ("OPENAI_API_KEY", "sk-TEST-1-of-the-model")];
const IN_FILE: &str = "glpat-in-the-file";
const OF_ANOTHER: &str = "text-of-another-task";

fn shut_in(cassette: &Cassette) -> Option<World> {
    bubblewrap(&[])?;
    let mut world = World::with_task(cassette);
    let config = world.read("config.yaml").replace("{backend: host}", "{backend: bubblewrap}");
    world.write("config.yaml", &format!("{config}gitlab: {{personal_access_token: {IN_FILE}}}\n"));
    for (name, value) in SECRETS {
        world.set_env(name, value);
    }
    for place in ["workspaces/other/tree", "contexts/other"] {
        std::fs::create_dir_all(world.path(place)).unwrap();
    }
    world.write("workspaces/other/tree/file", OF_ANOTHER);
    world.write("contexts/other/messages.jsonl", OF_ANOTHER);
    world.write("home/.netrc", IN_FILE);
    Some(world)
}

/// Commands that look for what is not theirs.
fn prying() -> Vec<String> {
    let everything = "find / -type f -not -path '/usr/*' -not -path '/proc/*' -not -path '/dev/*' -print0 2>/dev/null";
    let mut commands: Vec<String> = [
        "env; set; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ | tr '\\0' '\\n'",
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls -l /proc/[0-9]*/fd /proc/[0-9]*/cwd/",
        "cat .git/config .git/FETCH_HEAD .git/logs/HEAD; git config --list --show-origin; git remote -v",
        "cat ../workspace.json ../repo.git/config ../../../config.yaml ../../../logs/agent.log ../../../replies.jsonl",
        "ls -R ../.. ../../../spool ../../../contexts ../../../home; cat ../../other/tree/file ../../../home/.netrc",
        "cat ~/.netrc ~/.config/*/* /root/.* /home/*/.* /etc/coding-agent.env /run/credentials/*/*; ls -A ~",
        "cat /proc/keys /proc/1/maps /proc/1/root/etc/shadow; cat /proc/1/mem | head -c 1",
    ]
    .map(str::to_owned)
    .into();
    // Halves, so that a search does not find itself.
    for secret in [SECRETS[0].1, SECRETS[1].1, IN_FILE, OF_ANOTHER] {
        let (head, tail) = secret.split_at(6);
        commands.push(format!("{everything} | xargs -0 grep -lF \"$(printf %s%s '{head}' '{tail}')\"; echo looked"));
    }
    commands
}

fn job() -> Cassette {
    let cassette = prying().iter().fold(Cassette::new(), |cassette, command| cassette.runs(command));
    cassette
        .runs("echo fixed > add.sh && sh -c 'test $(cat add.sh) = fixed'")
        .creates("new", "new\n")
        .finishes("Fixed.")
}

#[track_caller]
fn assert_nothing_seen(world: &World) {
    let history = world.history();
    let results = history.results();
    for (command, result) in prying().iter().zip(&results) {
        for secret in [SECRETS[0].1, SECRETS[1].1, IN_FILE, OF_ANOTHER, "[secret]", "GITHUB_", "OPENAI_"] {
            assert!(!result.contains(secret), "`{command}` shows `{secret}`: {result}");
        }
        assert!(
            !command.contains("looked") || result.contains("\"stdout\":\"looked\\n\""),
            "`{command}` found: {result}"
        );
    }
    assert_eq!(world.file_on("coding-agent/issue-fix", "add.sh"), "fixed");
    assert_eq!(world.file_on("coding-agent/issue-fix", "new"), "new");
    assert!(world.comments("fix").contains("ended with exit code 0"), "{}", world.comments("fix"));
    world.assert_settled();
}

#[test]
fn c44_no_secret_is_within_reach_and_the_work_is_done() {
    let Some(world) = shut_in(&job()) else { return };
    world.run(&[]).expect(0);
    assert_nothing_seen(&world);
    assert_eq!(world.names("workspaces"), ["other"]);
}

#[test]
fn an_ordinary_user_is_enough() {
    let Some(world) = shut_in(&job()) else { return };
    let mut command = world.command(&[]);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let owner = std::process::Command::new("chown").args(["-R", "65534:65534"]).arg(world.path(".")).status();
        assert!(owner.unwrap().success());
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // The repository belongs to somebody else than this test now.
    let mut show = std::process::Command::new("git");
    show.args(["-c", "safe.directory=*", "show", "coding-agent/issue-fix:add.sh"]).current_dir(world.path("widgets"));
    assert_eq!(String::from_utf8(show.output().unwrap().stdout).unwrap(), "fixed\n");
    for result in world.history().results() {
        for secret in [SECRETS[0].1, SECRETS[1].1, IN_FILE, OF_ANOTHER, "[secret]"] {
            assert!(!result.contains(secret), "`{secret}`: {result}");
        }
    }
}

#[test]
fn a_killed_agent_leaves_nothing_running() {
    let long = "setsid nohup sleep 3000 >/dev/null 2>&1 & trap '' TERM HUP INT; touch begun; sleep 3000; touch ended";
    let cassette = Cassette::new().runs(long).runs("ls").finishes("Done.");
    let Some(world) = shut_in(&cassette) else { return };
    let mut agent = world.spawn(&[]);
    let uuid = eventually(|| {
        let uuid = world.names("workspaces").into_iter().find(|name| name != "other")?;
        world.path(format!("workspaces/{uuid}/tree/begun")).exists().then_some(uuid)
    });
    // Bubblewrap outside and inside, the shell, and the two it waits for or left.
    assert!(processes_of(&uuid).len() >= 4, "{:?}", processes_of(&uuid));
    agent.kill().unwrap();
    agent.wait().unwrap();
    eventually(|| processes_of(&uuid).is_empty().then_some(()));
    world.run(&[]).expect(0);
    world.assert_settled();
    let history = world.history();
    check_strictly(&history);
    assert!(history.results()[0].starts_with("Interrupted"), "{}", history.results()[0]);
    assert!(history.results()[1].contains("begun") && !history.results()[1].contains("ended\\n"));
}

#[test]
fn asked_to_end_it_ends_the_command_and_comes_back() {
    let cassette = Cassette::new().runs("touch begun; sleep 3000").runs("ls").finishes("Done.");
    let Some(world) = shut_in(&cassette) else { return };
    let agent = world.spawn(&[]);
    let uuid = eventually(|| {
        let uuid = world.names("workspaces").into_iter().find(|name| name != "other")?;
        world.path(format!("workspaces/{uuid}/tree/begun")).exists().then_some(uuid)
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(agent.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = crate::support::Ended::from(agent.wait_with_output().unwrap()).expect(75);
    assert!(processes_of(&uuid).is_empty(), "{ended:?}");
    world.pass_time();
    world.run(&[]).expect(0);
    assert!(world.history().results()[0].contains("the agent was asked to stop"), "{}", world.history().results()[0]);
}

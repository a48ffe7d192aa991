//! Where bubblewrap does not work, or would show too much: the reason is said with its remedy, and
//! nothing runs without a wall unless that is asked for.

use std::process::Command;

use coding_agent::sys::bubblewrap::reason_and_remedy;

use crate::support::shell::bubblewrap;
use crate::support::{Cassette, Ended, World};

fn world(executor: &str) -> World {
    let world = World::with_task(&Cassette::new().creates("a", "a\n").finishes("Done."));
    world.write(
        "config.yaml",
        &format!("task_source: local\nllm: {{provider: replay, replay: {{file: replies.jsonl}}}}\ncommand_executor: {executor}\n"),
    );
    world
}

/// Runs the program where it cannot make a user namespace: inside a sandbox that forbids it.
fn run_without_namespaces(world: &World) -> Ended {
    let inner = world.command(&[]);
    let mut outer = Command::new("bwrap");
    outer.args(["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--disable-userns", "--"]);
    outer.arg(inner.get_program()).args(inner.get_args()).current_dir(world.path("."));
    outer.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ended::from(outer.output().unwrap())
}

#[test]
fn auto_goes_on_without_commands_and_says_why() {
    if bubblewrap(&[]).is_none() {
        return;
    }
    let world = world("{backend: auto}");
    let ended = run_without_namespaces(&world).expect(0);
    assert_eq!(ended.stderr, "", "a timer that mails what is printed has nothing to mail");
    let log = world.read("logs/agent.log");
    assert!(log.contains("the model cannot run commands: bubblewrap gets no user namespace"), "{log}");
    assert!(world.comments("fix").contains("Commands cannot be run on this installation"), "{}", world.comments("fix"));
    assert!(world.history().0[0]["content"].as_str().unwrap().contains("You cannot run commands here"));
    assert_eq!(world.file_on("coding-agent/issue-fix", "a"), "a");
}

#[test]
fn what_is_asked_for_and_does_not_work_stops_before_the_first_claim() {
    if bubblewrap(&[]).is_none() {
        return;
    }
    for (executor, asked) in [
        ("{backend: bubblewrap}", "command_executor.backend is bubblewrap, but bubblewrap gets no user namespace"),
        ("{backend: auto, required: true}", "command_executor.required is set, but bubblewrap gets no user namespace"),
    ] {
        let world = world(executor);
        let ended = run_without_namespaces(&world).expect(78);
        assert!(ended.stderr.contains(asked) && ended.stderr.contains("hint: "), "{ended:?}");
        assert_eq!((world.names("spool/queue").len(), world.names("spool/running").len()), (1, 0));
        assert_eq!(world.names("contexts/running"), Vec::<String>::new());
        assert!(world.names("spool/queue")[0].ends_with(".a0.json"), "it cost no attempt");
    }
}

#[test]
fn bubblewrap_that_is_not_installed_is_told() {
    let mut world = world("{backend: bubblewrap}");
    std::fs::create_dir(world.path("bin")).unwrap();
    for name in ["git", "sh"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|dir| dir.join(name))
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), world.path("bin").join(name)).unwrap();
    }
    let path = world.path("bin").display().to_string();
    world.set_env("PATH", &path);
    let ended = world.run(&[]).expect(78);
    let asked = "command_executor.backend is bubblewrap, but bubblewrap is not installed";
    assert!(ended.stderr.contains(asked) && ended.stderr.contains("hint: install the package bubblewrap"), "{ended:?}");
}

#[test]
fn no_sandbox_that_shows_what_is_ours() {
    if bubblewrap(&[]).is_none() {
        return;
    }
    for (shown, ours) in
        [("", ""), ("contexts", "contexts"), ("spool/queue", "spool"), ("workspaces", "workspaces"), ("home", "home")]
    {
        let world = world("{backend: host}");
        for name in ["contexts", "spool/queue", "workspaces"] {
            std::fs::create_dir_all(world.path(name)).unwrap();
        }
        let path = world.path(shown).display().to_string();
        let path = path.trim_end_matches('/');
        let config = world
            .read("config.yaml")
            .replace("{backend: host}", &format!("{{backend: bubblewrap, read_only_paths: ['{path}']}}"));
        world.write("config.yaml", &config);
        let ended = world.run(&[]).expect(78);
        let said = format!("commands can read `{path}`, and with it `{}", world.path(ours).display());
        assert!(ended.stderr.contains(said.trim_end_matches('/')), "{said}: {ended:?}");
        assert_eq!(world.names("spool/queue").len(), 1);
    }
    // A toolchain in the home directory is what the key is for.
    let world = world("{backend: host}");
    std::fs::create_dir(world.path("home/toolchain")).unwrap();
    let path = world.path("home/toolchain").display().to_string();
    let config = world
        .read("config.yaml")
        .replace("{backend: host}", &format!("{{backend: bubblewrap, read_only_paths: ['{path}']}}"));
    world.write("config.yaml", &config);
    world.run(&[]).expect(0);
}

#[test]
fn a_read_only_path_that_is_not_there_takes_no_commands_away() {
    if bubblewrap(&[]).is_none() {
        return;
    }
    let world = World::with_task(&Cassette::new());
    std::fs::create_dir(world.path("home/toolchain")).unwrap();
    world.write("home/toolchain/tool", "it is seen\n");
    let (gone, there) = (world.path("home/gone"), world.path("home/toolchain"));
    let (gone, there) = (gone.display(), there.display());
    let replies = Cassette::new().runs(&format!("cat {there}/tool")).finishes("Done.");
    world.write("replies.jsonl", &replies.to_text());
    world.write(
        "config.yaml",
        &format!(
            "task_source: local\nllm: {{provider: replay, replay: {{file: replies.jsonl}}}}\n\
             command_executor: {{backend: bubblewrap, read_only_paths: ['{gone}', '{there}']}}\n"
        ),
    );
    let said = format!("command_executor.read_only_paths names `{gone}`: No such file or directory");
    let doctor = world.run(&["doctor"]).expect(1).stdout;
    assert!(doctor.contains("warning  sandbox: bubblewrap works"), "{doctor}");
    assert!(doctor.contains(&said) && doctor.contains("do: name another path there"), "{doctor}");
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains(&said), "{ended:?}");
    assert!(
        world
            .history()
            .0
            .iter()
            .any(|message| message["content"].as_str().is_some_and(|text| text.contains("it is seen")))
    );
}

#[test]
fn each_reason_has_its_remedy() {
    let no_namespace = "bwrap: No permissions to create new namespace, likely because the kernel does not allow \
                        non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl \
                        kernel.unprivileged_userns_clone=1'.\n";
    let table = [
        (
            no_namespace,
            Some(("kernel/unprivileged_userns_clone", "0")),
            "kernel.unprivileged_userns_clone is 0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "bwrap: Creating new namespace failed: No space left on device\n",
            Some(("user/max_user_namespaces", "0")),
            "user.max_user_namespaces is 0",
            "sysctl user.max_user_namespaces",
        ),
        (
            "bwrap: setting up uid map: Permission denied\n",
            Some(("kernel/apparmor_restrict_unprivileged_userns", "1")),
            "apparmor_restrict_unprivileged_userns is 1",
            "AppArmor profile",
        ),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n",
            Some(("kernel/apparmor_restrict_unprivileged_userns", "1")),
            "apparmor_restrict_unprivileged_userns is 1",
            "AppArmor profile",
        ),
        (
            "bwrap: Creating new namespace failed: Operation not permitted\n",
            None,
            "Creating new namespace failed: Operation not permitted",
            "RestrictNamespaces=no",
        ),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n", None, "Can't mount proc", "container"),
        (
            "bwrap: Can't find source path /x: No such file or directory\n",
            None,
            "/x: No such file or directory",
            "bwrap --ro-bind",
        ),
        ("", None, "it says nothing", "bwrap --ro-bind"),
    ];
    for (stderr, setting, reason, remedy) in table {
        let read = |name: &str| setting.filter(|(known, _)| *known == name).map(|(_, value)| format!("{value}\n"));
        let (found_reason, found_remedy) = reason_and_remedy(stderr, read);
        assert!(found_reason.contains(reason) && !found_reason.ends_with('.'), "{stderr}: {found_reason}");
        assert!(found_remedy.contains(remedy), "{stderr}: {found_remedy}");
    }
    // A setting that shuts nothing is not blamed.
    let (reason, _) = reason_and_remedy(no_namespace, |_| Some("1000\n".into()));
    assert!(!reason.contains(" is 1000"), "{reason}");
}

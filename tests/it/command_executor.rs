//! The command executor on the host: what a command gets, how it ends, what of its output is kept.

use std::path::Path;
use std::time::{Duration, Instant};

use coding_agent::ports::ToolServer as _;
use coding_agent::tools::command_executor::{Limits, TASK_MARK, end_leftovers};
use serde_json::{Value, json};

use crate::support::git;
use crate::support::shell::{LIMITS, Shell, is_alive};

#[test]
fn a_command_reports_exit_code_both_streams_and_duration() {
    let mut shell = Shell::on_host();
    let report = shell.run("echo out; echo err >&2; exit 7");
    assert_eq!(report["exit_code"], 7);
    assert_eq!(report["stdout"], "out\n");
    assert_eq!(report["stderr"], "err\n");
    assert!(report["duration_ms"].is_u64());
    assert_eq!(report.as_object().unwrap().len(), 4, "{report}");
}

#[test]
fn a_missing_program_and_a_syntax_error_are_results() {
    let mut shell = Shell::on_host();
    assert_eq!(shell.run("no-such-program-anywhere")["exit_code"], 127);
    assert_ne!(shell.run("if then (")["exit_code"], 0);
}

#[test]
fn a_command_that_dies_of_a_signal_says_so() {
    let mut shell = Shell::on_host();
    let report = shell.report(json!({ "command": "kill -SEGV $$" }));
    assert_eq!((&report["exit_code"], &report["ended"]), (&Value::Null, &json!("killed by signal 11")));
}

#[test]
fn a_broken_pipe_ends_the_writer_quietly() {
    let report = Shell::on_host().run("yes | head -n 1");
    assert_eq!((&report["stdout"], &report["stderr"]), (&json!("y\n"), &json!("")));
}

#[test]
fn c43_what_asks_a_person_ends_by_itself() {
    what_asks_a_person_ends(&mut Shell::on_host());
}

/// Everything in this list would wait for ever if there were somebody to ask.
pub fn what_asks_a_person_ends(shell: &mut Shell) {
    let tree = shell.tree();
    git(&tree, &["init", "--quiet", "--initial-branch=main"]);
    git(&tree, &["config", "user.name", "t"]);
    git(&tree, &["config", "user.email", "t@example.org"]);
    for name in ["a", "b"] {
        std::fs::write(tree.join(name), name).unwrap();
        git(&tree, &["add", name]);
        git(&tree, &["commit", "--quiet", "--message", name]);
    }
    std::fs::write(tree.join("staged"), "x").unwrap();
    git(&tree, &["add", "staged"]);
    assert_eq!(shell.run("cat")["exit_code"], 0);
    assert_ne!(shell.run("read x; test -n \"$x\"")["exit_code"], 0);
    for command in [
        "read x </dev/tty",
        "git commit",
        "git stash -q; git rebase -i HEAD~1",
        "git -c credential.helper= ls-remote https://127.0.0.1:1/private",
        "git ls-remote ssh://git@127.0.0.1:1/private",
        "ssh -o ConnectTimeout=5 -p 1 127.0.0.1",
    ] {
        let report = shell.run(command);
        assert_ne!(report["exit_code"], 0, "{command}: {report}");
    }
    // It asks for a passphrase and takes end of file for an empty one.
    for command in ["ssh-keygen -f k", "git log", "git diff HEAD~1", "man -k . || true"] {
        let _ = shell.run(command);
    }
}

#[test]
fn c43_the_default_time_limit_is_told_and_cannot_be_raised() {
    let shell = Shell::on_host();
    let schema = shell.tool.tools()[0].schema.to_string();
    assert!(schema.contains("At most and by default 120"), "{schema}");
    let limits = Limits { timeout: Duration::from_secs(1), ..LIMITS };
    let mut shell = Shell::on_host_with(limits);
    for arguments in [json!({ "command": "sleep 3000" }), json!({ "command": "sleep 3000", "timeout_seconds": 9000 })] {
        let report = shell.report(arguments);
        assert_eq!(report["ended"], "killed: it ran longer than 1 s");
    }
}

#[test]
fn a_timeout_keeps_the_output_so_far_and_kills_the_grandchildren() {
    let mut shell = Shell::on_host();
    let command = "echo begun; sh -c 'sleep 3000 & echo $! > pid; wait' & wait";
    let report = shell.report(json!({ "command": command, "timeout_seconds": 2 }));
    assert_eq!(report["ended"], "killed: it ran longer than 2 s");
    assert_eq!((&report["exit_code"], &report["stdout"]), (&Value::Null, &json!("begun\n")));
    wait_until_gone(&shell.tree().join("pid"));
}

#[test]
fn a_background_process_that_keeps_the_pipe_does_not_hang_us_and_is_ended() {
    let mut shell = Shell::on_host();
    let report = shell.run("sleep 3000 & echo $! > pid; echo done");
    assert_eq!((&report["exit_code"], &report["stdout"]), (&json!(0), &json!("done\n")));
    wait_until_gone(&shell.tree().join("pid"));
}

#[test]
fn a_stranger_that_keeps_the_pipe_does_not_hang_us() {
    let mut shell = Shell::on_host();
    let report = shell.run("setsid sh -c 'touch up; exec sleep 3000' & until test -e up; do :; done; echo done");
    assert_eq!((&report["exit_code"], &report["stdout"]), (&json!(0), &json!("done\n")));
    end_leftovers(shell.uuid);
}

#[test]
fn a_command_leads_its_own_session_without_a_terminal() {
    let mut shell = Shell::on_host();
    // Fields 1, 5, 6 and 7 of stat: pid, group, session, terminal.
    let report = shell.run("cut -d' ' -f1,5,6,7 /proc/$$/stat; ls -l /proc/self/fd/0; tty");
    let stdout = report["stdout"].as_str().unwrap();
    let fields: Vec<&str> = stdout.lines().next().unwrap().split(' ').collect();
    assert_eq!((fields[0], fields[0], "0"), (fields[1], fields[2], fields[3]), "{stdout}");
    assert!(stdout.contains("/dev/null") && stdout.contains("not a tty"), "{stdout}");
}

#[test]
fn a_command_inherits_no_open_files() {
    let mut shell = Shell::on_host();
    let _open = std::fs::File::create(shell.dir.path().join("ours-alone")).unwrap();
    let report = shell.run("ls -l /proc/self/fd");
    assert!(!report["stdout"].as_str().unwrap().contains("ours-alone"), "{report}");
}

#[test]
fn c22_huge_output_keeps_head_and_tail_in_bounded_size() {
    let mut shell = Shell::on_host_with(Limits { output_bytes: 10_000, ..LIMITS });
    let report = shell.run("echo first; seq 1000000 | tr '\\n' 'a' | fold -w 99; echo; echo last; yes | head -c 9 >&2");
    let stdout = report["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n1a2a3a") && stdout.ends_with("\nlast\n"), "{stdout}");
    let left_out = stdout.split_once("\n[… ").unwrap().1.split_once(" bytes left out …]\n").unwrap().0;
    assert!(left_out.parse::<u64>().unwrap() > 6_000_000, "{left_out}");
    assert!(stdout.len() < 10_100, "{}", stdout.len());
    let exact = shell.run("seq 2000");
    let lines: String = (1..=2000).map(|number| format!("{number}\n")).collect();
    assert_eq!(exact["stdout"].as_str().unwrap(), lines, "what fits is whole");
}

#[test]
fn c22_a_line_that_is_repeated_for_ever_is_shown_once() {
    let mut shell = Shell::on_host_with(Limits { output_bytes: 10_000, ..LIMITS });
    let report = shell.run("echo first; yes | head -c 50000000; echo last");
    assert_eq!(
        report["stdout"],
        "first\ny\n[… the line above 2496 more times …]\n\n[… 49990011 bytes left out …]\n\
         \ny\n[… the line above 2496 more times …]\nlast\n"
    );
}

#[test]
fn c22_one_endless_line_and_odd_limits_are_bounded() {
    for output_bytes in [0, 1, 2, 3, 7] {
        let mut shell = Shell::on_host_with(Limits { output_bytes, ..LIMITS });
        let report = shell.run("head -c 1000000 /dev/zero | tr '\\0' x");
        assert!(report["stdout"].as_str().unwrap().len() < 60, "{output_bytes}: {report}");
    }
}

#[test]
fn c19_output_cut_inside_a_character_is_still_text() {
    for output_bytes in 20..32 {
        let mut shell = Shell::on_host_with(Limits { output_bytes, ..LIMITS });
        let report = shell.run("for i in 1 2 3 4 5 6 7 8 9 10; do printf 'あ👩‍👩‍👧'; done");
        assert!(report["stdout"].as_str().unwrap().contains("bytes left out"), "{report}");
    }
}

#[test]
fn c22_invalid_utf8_and_nul_are_replaced_not_fatal() {
    let report = Shell::on_host().run(r"printf 'a\377\0b\303'; head -c 4096 /dev/urandom >&2");
    assert_eq!(report["stdout"], "a\u{fffd}\\u{0}b\u{fffd}");
    assert!(report["stderr"].is_string());
}

#[test]
fn c44_the_environment_is_exactly_the_allow_list() {
    let mut shell = Shell::on_host();
    let report = shell.run("env | cut -d= -f1 | sort");
    let names: Vec<&str> = report["stdout"].as_str().unwrap().lines().collect();
    let expected = [
        "CI",
        "CODING_AGENT_TASK",
        "DEBIAN_FRONTEND",
        "EDITOR",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_SEQUENCE_EDITOR",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LANG",
        "PAGER",
        "PATH",
        "PWD",
        "SSH_ASKPASS_REQUIRE",
        "TERM",
        "TMPDIR",
        "VISUAL",
    ];
    // PWD (and in some shells OLDPWD, SHLVL, _) is the shell's own.
    let names: Vec<&str> = names.into_iter().filter(|name| !["OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert_eq!(names, expected);
    let report =
        shell.run("echo $CODING_AGENT_TASK; test -d $HOME && test -d $TMPDIR; echo $?; echo $HOME; echo x > $TMPDIR/x");
    let home = shell.dir.path().join("scratch/home");
    assert_eq!(report["stdout"], format!("{}\n0\n{}\n", shell.uuid, home.display()));
}

#[test]
fn a_working_directory_is_inside_the_tree() {
    let mut shell = Shell::on_host();
    let tree = shell.tree().canonicalize().unwrap();
    std::fs::create_dir_all(tree.join("a b/-c")).unwrap();
    std::fs::write(tree.join("file"), "").unwrap();
    std::os::unix::fs::symlink("a b", tree.join("inside")).unwrap();
    std::os::unix::fs::symlink("/tmp", tree.join("outside")).unwrap();
    std::os::unix::fs::symlink("loop", tree.join("loop")).unwrap();
    std::fs::create_dir(tree.with_file_name("tree-beside")).unwrap();
    let a_b = tree.join("a b");
    for (asked, expected) in [
        (json!(null), &tree),
        (json!(""), &tree),
        (json!("."), &tree),
        (json!("a b"), &a_b),
        (json!("a b/-c/.."), &a_b),
        (json!("inside"), &a_b),
        (json!(tree.to_str().unwrap()), &tree),
        (json!("../tree/a b"), &a_b),
    ] {
        let report = shell.report(json!({ "command": "pwd -P", "working_directory": asked }));
        assert_eq!(report["stdout"], format!("{}\n", expected.display()), "{asked}");
    }
    for asked in
        ["..", "/", "/tmp", "a b/../..", "outside", "outside/x", "file", "absent", "loop", "../tree-beside", "a\0b"]
    {
        shell.refuses(json!({ "command": "true", "working_directory": asked }), "inside the work tree");
    }
    let long = "x".repeat(100_000);
    shell.refuses(json!({ "command": "true", "working_directory": long }), "inside the work tree");
    // The tree itself may be gone.
    std::fs::remove_dir_all(&tree).unwrap();
    assert!(shell.call(json!({ "command": "true" })).is_error);
}

#[test]
fn bad_arguments_are_told_and_nothing_runs() {
    let mut shell = Shell::on_host();
    for command in
        [json!(null), json!(""), json!(" \n\t"), json!(1), json!(true), json!(["ls", "-l"]), json!({ "a": 1 })]
    {
        shell.refuses(json!({ "command": command }), "`command` must be");
    }
    shell.refuses(json!({}), "`command` must be a shell command line");
    shell.refuses(json!({ "cmd": "touch ran" }), "`command` must be");
    shell.refuses(json!({ "command": "touch ran\0" }), "NUL");
    for timeout in [json!(0), json!(-1), json!(1.5), json!("5"), json!([]), json!(1e300)] {
        shell.refuses(json!({ "command": "touch ran", "timeout_seconds": timeout }), "positive whole number");
    }
    for directory in [json!(1), json!([]), json!({}), json!(false)] {
        shell.refuses(json!({ "command": "touch ran", "working_directory": directory }), "must be a text");
    }
    assert!(!shell.tree().join("ran").exists());
    let report = shell.report(json!({ "command": "true", "timeout_seconds": u64::MAX, "more": "ignored" }));
    assert_eq!(report["exit_code"], 0);
}

#[test]
fn a_command_longer_than_the_system_takes_is_told_why() {
    let mut shell = Shell::on_host();
    let command = format!("echo {}", "x".repeat(3 << 20));
    shell.refuses(json!({ "command": command }), "rgument list too long");
}

#[test]
fn leftovers_of_a_task_are_ended_and_nobody_elses() {
    let mut shell = Shell::on_host();
    let mut other = Shell::on_host();
    let left = "setsid sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 3000' >/dev/null 2>&1 & until test -e pid; do :; done";
    assert_eq!(shell.run(left)["exit_code"], 0);
    assert_eq!(other.run(left)["exit_code"], 0);
    let mut unmarked =
        std::process::Command::new("sleep").arg("3000").env(TASK_MARK, format!("{}-not", shell.uuid)).spawn().unwrap();
    assert!(is_alive(&shell.tree().join("pid")), "its own session survives the command");
    assert!(end_leftovers(shell.uuid) >= 1);
    wait_until_gone(&shell.tree().join("pid"));
    assert!(is_alive(&other.tree().join("pid")));
    assert!(unmarked.try_wait().unwrap().is_none());
    assert_eq!(end_leftovers(shell.uuid), 0);
    end_leftovers(other.uuid);
    unmarked.kill().unwrap();
    unmarked.wait().unwrap();
}

fn wait_until_gone(pid_file: &Path) {
    let started = Instant::now();
    while is_alive(pid_file) {
        assert!(started.elapsed() < Duration::from_secs(60), "still alive");
        std::thread::yield_now();
    }
}

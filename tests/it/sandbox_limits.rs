//! What ends a command in a real bubblewrap: its time, its processes, its memory, and the end of
//! its shell. Nothing of it outlives it.

use std::time::Duration;

use coding_agent::sys::launcher::ResourceLimits;
use coding_agent::tools::command_executor::{Limits, end_leftovers};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::shell::{LIMITS, Shell, processes_of};

fn with(resources: ResourceLimits) -> Option<Shell> {
    Shell::shut_in_with(tempfile::tempdir().unwrap(), Limits { resources, ..LIMITS }, false)
}

#[track_caller]
fn nothing_is_left(shell: &Shell) {
    eventually(|| processes_of(shell.uuid).is_empty().then_some(()));
    assert_eq!(end_leftovers(shell.uuid), 0);
}

#[test]
fn the_time_limit_kills_everything() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let command = "echo begun; setsid sleep 3000 & nohup sh -c 'sleep 3000; true' & trap '' TERM INT HUP; wait";
    let report = shell.report(json!({ "command": command, "timeout_seconds": 1 }));
    assert_eq!(report["ended"], "killed: it ran longer than 1 s");
    assert_eq!((&report["exit_code"], &report["stdout"]), (&Value::Null, &json!("begun\n")));
    nothing_is_left(&shell);
}

#[test]
fn what_runs_in_the_background_ends_with_the_command() {
    let Some(mut shell) = Shell::shut_in() else { return };
    for command in [
        "nohup sleep 3000 >/dev/null 2>&1 &",
        "setsid sleep 3000 >/dev/null 2>&1 & echo left",
        "(setsid sh -c 'sleep 3000 & sleep 3000' &) ; exit 3",
        "sleep 3000 &",
    ] {
        let report = shell.run(command);
        assert!(report["exit_code"].is_i64(), "{report}");
        nothing_is_left(&shell);
    }
}

#[test]
fn output_is_bounded_inside_too() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut shell) = Shell::shut_in_with(dir, Limits { output_bytes: 10_000, ..LIMITS }, false) else { return };
    let report = shell.run("echo first; seq 1000000; echo last");
    let stdout = report["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n1\n") && stdout.ends_with("1000000\nlast\n") && stdout.len() < 10_100);
}

#[test]
fn a_fork_bomb_is_ended_with_all_its_processes() {
    let Some(mut shell) = with(ResourceLimits { memory_bytes: None, processes: Some(60) }) else { return };
    // It doubles as fast as a real one, but the tests beside it need the machine too.
    let bomb = "bomb() { if [ $1 -gt 0 ]; then bomb $(($1-1)) & bomb $(($1-1)) & fi; sleep 3000; }; bomb 10";
    let report = shell.report(json!({ "command": bomb }));
    assert_eq!(report["ended"], "killed: it had more than 60 processes and threads at a time", "{report}");
    nothing_is_left(&shell);
    // Many, but not at a time.
    let report = shell.run("i=0; while test $i -lt 200; do (exit 0); i=$((i+1)); done; echo $i");
    assert_eq!(report["stdout"], "200\n");
    // Fewer than allowed.
    assert_eq!(shell.run("for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait; echo all")["stdout"], "all\n");
}

#[test]
fn processes_are_counted_on_the_host_as_well() {
    let limits = Limits { resources: ResourceLimits { memory_bytes: None, processes: Some(60) }, ..LIMITS };
    let mut shell = Shell::on_host_with(limits);
    let many = "i=0; while test $i -lt 100; do sleep 3000 & i=$((i+1)); done; wait";
    let report = shell.report(json!({ "command": many }));
    assert_eq!(report["ended"], "killed: it had more than 60 processes and threads at a time", "{report}");
    nothing_is_left(&shell);
}

#[test]
fn memory_is_limited_and_the_note_says_what_is_known() {
    let Some(mut shell) = with(ResourceLimits { memory_bytes: Some(200 << 20), processes: None }) else { return };
    let take = |mebibytes: u32| format!("dd if=/dev/zero of=/dev/null bs={mebibytes}M count=1");
    assert_eq!(shell.run(&take(100))["exit_code"], 0);
    let report = shell.run(&take(600));
    assert_eq!(report["exit_code"], 1, "{report}");
    assert_eq!(report["note"], "each process may have 200 MiB of memory; this one may have asked for more");
    assert_eq!(shell.run("exit 1").get("note"), None, "nothing is guessed");
    assert_eq!(shell.run(&format!("{} 2>/dev/null", take(600))).get("note"), None);
    assert_eq!(shell.output("cat /proc/self/oom_score_adj; ulimit -c"), "1000\n0");
}

#[test]
fn a_limit_of_time_below_the_default_holds() {
    let limits = Limits { timeout: Duration::from_secs(1), ..LIMITS };
    let Some(mut shell) = Shell::shut_in_with(tempfile::tempdir().unwrap(), limits, false) else { return };
    let report = shell.report(json!({ "command": "sleep 3000", "timeout_seconds": 9000 }));
    assert_eq!(report["ended"], "killed: it ran longer than 1 s");
    nothing_is_left(&shell);
}

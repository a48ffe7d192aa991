//! The n-th write, fsync, rename, link or removal of a whole job fails, for every n there is: once
//! with an I/O error, and from there on with a full disk. Afterwards a plain run ends it rightly.

use crate::support::{Cassette, World, check_strictly};

/// Only commands: a fault inside the text editor is a tool's failure and none of ours.
fn job() -> Cassette {
    Cassette::new().runs("echo one >> ../../../ran; echo 1 > one.txt").finishes("Done.")
}

fn fails_at_every(kind: &str, first: u64, step: u64) -> u64 {
    for nth in (first..).step_by(usize::try_from(step).unwrap()) {
        let world = World::with_task(&job());
        let report = world.path("fired");
        let output = world
            .command(&[])
            .env("CODING_AGENT_FAULT_IO", format!("{nth}{kind}"))
            .env("CODING_AGENT_FAULT_REPORT", &report)
            .output()
            .unwrap();
        if !report.exists() {
            assert_eq!(output.status.code(), Some(0));
            return nth;
        }
        let what = format!("operation {nth}{kind}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap_or_else(|| panic!("{what}: {output:?}"));
        assert!(matches!(code, 0 | 78), "{what}: exit {code}: {stderr}");
        assert!(code == 0 || stderr.contains("cannot "), "{what}: no sentence: {stderr}");
        if code == 78 && kind.contains("ENOSPC") {
            assert!(stderr.contains("the disk is full") && stderr.contains("nothing was lost"), "{what}: {stderr}");
        }
        assert!(!stderr.contains("panicked"), "{what}: {stderr}");
        world.pass_time();
        world.run(&[]).expect(0);
        assert_right(&world, &what);
    }
    unreachable!()
}

fn assert_right(world: &World, what: &str) {
    world.assert_settled();
    assert_eq!(world.labels("fix"), ["coding agent done"], "{what}");
    assert_eq!(world.final_comments("fix"), 1, "{what}");
    assert_eq!(world.names("contexts/completed").len(), 1, "{what}");
    let history = world.history();
    check_strictly(&history);
    assert_eq!(history.replies(), 2, "{what}: no turn was paid twice");
    let ran = std::fs::read_to_string(world.path("ran")).unwrap_or_default();
    let interrupted = history.results()[0].starts_with("Interrupted");
    assert!(ran.lines().count() <= 1, "{what}: ran twice");
    if !interrupted {
        assert_eq!(world.file_on("coding-agent/issue-fix", "one.txt"), "1", "{what}");
    }
}

// In two halves each, so that both cores have something to do.

#[test]
fn an_io_error_at_every_odd_operation() {
    assert!(fails_at_every(":EIO", 1, 2) > 60);
}

#[test]
fn an_io_error_at_every_even_operation() {
    assert!(fails_at_every(":EIO", 2, 2) > 60);
}

#[test]
fn a_disk_that_is_full_from_every_odd_operation_on() {
    assert!(fails_at_every("+:ENOSPC", 1, 2) > 60);
}

#[test]
fn a_disk_that_is_full_from_every_even_operation_on() {
    assert!(fails_at_every("+:ENOSPC", 2, 2) > 60);
}

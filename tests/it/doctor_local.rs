//! `doctor` and issue files: what they lack is told with the file's name before a task fails for it.

use std::fs;

use crate::doctor::Report;
use crate::support::{Cassette, World};

/// A world with the issue `fix`, whose front matter is `front`.
fn world(front: &str) -> World {
    let world = World::with_task(&Cassette::new());
    world.write("tasks/fix.md", &format!("---\n{front}\n---\n\nDo it.\n"));
    world
}

#[test]
fn an_issue_file_that_waits_without_a_repository_is_told() {
    for (front, why) in [
        ("labels: [coding agent]", "`tasks/fix.md` names no repository"),
        ("labels: [coding agent]\nrepository: ../absent", "`tasks/fix.md`: its `repository:` leads to `"),
        ("labels: [coding agent]\nrepository: ../absent", "absent`, which does not exist"),
        ("labels: [coding agent]\nrepository: ../plain", "plain`, which is no git repository"),
        (
            "labels: [coding agent]\nrepository: https://me:secret@example.org/x.git",
            "`tasks/fix.md`: the repository's address holds a password",
        ),
        ("labels: [coding agent\ntitle: x", "`tasks/fix.md`: its front matter is not the YAML we expect: "),
        ("labels: [coding agent\ntitle: x", " at line "),
    ] {
        let world = world(front);
        fs::create_dir(world.path("plain")).unwrap();
        let report = Report::of(&world, 1);
        report.says("issue files", "warning", why, "the README shows");
        report.says("issue files", "warning", "of 1 issue file, 1 cannot be worked on: ", "");
    }
}

#[test]
fn an_issue_file_that_does_not_wait_needs_no_repository() {
    for front in [
        "title: A note",
        "labels: [coding agent]\nstate: closed",
        "labels: [coding agent]\nrepository: https://example.org/x.git",
        "labels: [coding agent]\nrepository: git@example.org:x.git",
    ] {
        Report::of(&world(front), 0).is("issue files", "good");
    }
}

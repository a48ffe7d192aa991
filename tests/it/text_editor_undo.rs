//! `undo_edit`: what it takes back, what it refuses to lose, and what it knows after a crash.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::desk::{Desk, create, insert, overwrite, replace, undo};
use crate::support::{Cassette, Random, World, call, git};

#[test]
fn undo_takes_back_edits_one_by_one() {
    let mut desk = Desk::new();
    desk.refused(undo("a"), "nothing to undo");
    desk.good(create("a", "1\r\n"));
    desk.good(replace("a", "1", "2"));
    desk.good(insert("a", 1, "3"));
    desk.refused(replace("a", "9", "8"), "does not occur");
    desk.good(undo("a"));
    assert_eq!(desk.bytes("a"), b"2\r\n");
    desk.good(undo("./a"));
    assert_eq!(desk.bytes("a"), b"1\r\n");
    desk.good(undo("a"));
    assert!(!desk.path("a").exists());
    desk.refused(undo("a"), "nothing to undo");
}

#[test]
fn undo_refuses_to_lose_a_change_of_somebody_else() {
    let mut desk = Desk::with("a", "1\n");
    desk.good(replace("a", "1", "2"));
    fs::write(desk.path("a"), "other\n").unwrap();
    desk.refused(undo("a"), "changed by something else");
    assert_eq!(desk.bytes("a"), b"other\n");
    fs::remove_file(desk.path("a")).unwrap();
    desk.refused(undo("a"), "changed by something else");
    fs::write(desk.path("a"), "2\n").unwrap();
    desk.good(undo("a"));
    assert_eq!(desk.bytes("a"), b"1\n");
}

#[test]
fn undo_remembers_ten_edits() {
    let mut desk = Desk::with("a", "0\n");
    for number in 0..15 {
        desk.good(overwrite("a", &format!("{}\n", number + 1)));
    }
    for _ in 0..10 {
        desk.good(undo("a"));
    }
    desk.refused(undo("a"), "nothing to undo");
    assert_eq!(desk.bytes("a"), b"5\n");
}

#[test]
fn a_new_process_takes_back_what_an_earlier_one_edited() {
    let mut desk = Desk::with("a", "\u{FEFF}1\r\n2");
    desk.set_mode("a", 0o751);
    desk.good(replace("a", "1", "one"));
    desk.good(create("dir/new", "x\n"));
    desk.resume();
    desk.good(insert("a", 1, "more"));
    desk.resume();
    desk.good(undo("dir/new"));
    assert!(!desk.path("dir/new").exists());
    desk.good(undo("a"));
    desk.resume();
    desk.good(undo("a"));
    assert_eq!((desk.bytes("a"), desk.mode("a")), ("\u{FEFF}1\r\n2".into(), 0o751));
    desk.refused(undo("a"), "nothing to undo");
    desk.resume();
    desk.refused(undo("dir/new"), "nothing to undo");
    assert_eq!(fs::read_dir(desk.edits()).unwrap().count(), 0, "nothing is left of edits that were taken back");
}

#[test]
fn what_undo_keeps_is_outside_the_tree_private_and_bounded() {
    use std::os::unix::fs::MetadataExt as _;
    let mut desk = Desk::fast();
    desk.good(create("a", "x"));
    let names: Vec<_> = fs::read_dir(desk.edits()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    for path in [&names[0], &desk.edits()] {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o077, 0, "{path:?}");
    }
    // Six new contents of 10 MiB fit into 64 MiB, a seventh does not; the edit of `a` goes first.
    let text = |letter: &str| format!("{}\n", letter.repeat(1023)).repeat(10 << 10);
    for (number, letter) in ["b", "c", "d", "e", "f", "g", "h"].iter().enumerate() {
        let name = format!("file{}", number % 2);
        fs::write(desk.path(&name), "small\n").unwrap();
        desk.good(overwrite(&name, &text(letter)));
    }
    let kept: u64 = fs::read_dir(desk.edits()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!((60 << 20..=64 << 20).contains(&kept), "{kept}");
    desk.resume();
    desk.refused(undo("a"), "nothing to undo");
    for letter in ["h", "f", "d"] {
        fs::write(desk.path("file0"), text(letter)).unwrap();
        desk.good(undo("file0"));
        assert_eq!(desk.bytes("file0"), b"small\n");
    }
    desk.refused(undo("file0"), "nothing to undo");
}

#[test]
fn a_damaged_step_is_none_and_costs_only_itself() {
    let mut desk = Desk::with("a", "0\n");
    for text in ["1\n", "2\n", "3\n"] {
        desk.good(overwrite("a", text));
    }
    let step = |number: u32| desk.edits().join(format!("{number:08}.step"));
    let whole = fs::read(step(3)).unwrap();
    fs::write(step(3), &whole[..whole.len() - 1]).unwrap();
    fs::write(step(1), "{\"path\":99999999999,\"before\":1,\"after\":1}\nx").unwrap();
    fs::write(desk.edits().join(".00000004.step.77.tmp"), "half").unwrap();
    fs::write(desk.edits().join("staged"), "half").unwrap();
    desk.resume();
    desk.refused(undo("a"), "changed by something else");
    fs::write(desk.path("a"), "2\n").unwrap();
    desk.good(undo("a"));
    assert_eq!(desk.bytes("a"), b"1\n");
    desk.refused(undo("a"), "nothing to undo");
    assert_eq!(fs::read_dir(desk.edits()).unwrap().count(), 0);
}

#[test]
fn an_edit_that_was_reverted_otherwise_is_no_longer_there_to_take_back() {
    let mut desk = Desk::with("a", "1\n");
    desk.good(replace("a", "1", "2"));
    desk.good(replace("a", "2", "3"));
    fs::write(desk.path("a"), "2\n").unwrap();
    desk.refused(undo("a"), "already as it was before the last edit");
    assert_eq!(desk.bytes("a"), b"2\n");
    desk.good(undo("a"));
    assert_eq!(desk.bytes("a"), b"1\n");
    desk.good(create("b", "x"));
    fs::remove_file(desk.path("b")).unwrap();
    desk.refused(undo("b"), "already as it was before the last edit");
    desk.refused(undo("b"), "nothing to undo");
}

#[test]
fn c56_edits_and_undo_of_random_texts_give_back_every_byte_and_the_mode() {
    let mut random = Random::new(56);
    let mut desk = Desk::fast();
    let mut edits = 0;
    for round in 0..150 {
        let mut text = String::from(random.one_of(&["", "\u{FEFF}"]));
        for _ in 0..random.below(8) {
            text.push_str(random.one_of(&["a", "日本", "\t", "x\ry", "\u{FEFF}"]));
            text.push_str(random.one_of(&["\n", "\r\n", "", "\r"]));
        }
        let mode = [0o644, 0o755, 0o600, 0o444][random.below(4)];
        fs::write(desk.path("doc"), &text).unwrap();
        desk.set_mode("doc", mode);
        let mut states = vec![text.into_bytes()];
        for step in 0..1 + random.below(5) {
            let new = format!("{round}.{step}{}", random.one_of(&["", "\n", "\r\nz\n", "\u{FEFF}"]));
            let lines = states.last().unwrap().iter().filter(|byte| **byte == b'\n').count();
            let edit = match random.below(4) {
                0 => overwrite("doc", &new),
                1 => insert("doc", i64::try_from(random.below(lines + 1)).unwrap(), &new),
                2 => replace("doc", random.one_of(&["a", "日本", "x\ry", "\n", "\r\n", "y\na"]), &new),
                _ => replace("doc", &format!("{round}.{}", step.saturating_sub(1)), &new),
            };
            let worked = !desk.call(edit.clone()).is_error;
            let now = desk.bytes("doc");
            assert_eq!(worked, &now != states.last().unwrap(), "{edit}");
            assert_eq!(desk.mode("doc"), mode, "{edit}");
            if worked {
                states.push(now);
                edits += 1;
            }
            if random.below(3) == 0 {
                desk.resume();
            }
        }
        while states.len() > 1 {
            desk.good(undo("doc"));
            states.pop();
            assert_eq!(&desk.bytes("doc"), states.last().unwrap());
            assert_eq!(desk.mode("doc"), mode);
        }
        desk.refused(undo("doc"), "nothing to undo");
        fs::set_permissions(desk.path("doc"), fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert!(edits > 150, "only {edits} edits worked");
}

/// The n-th write fails, for every n there is: the file is as before or as after, and undo knows.
#[cfg(feature = "faults")]
#[test]
fn a_disk_that_fails_at_any_operation_leaves_a_file_that_undo_knows() {
    use coding_agent::sys::fault::{arm, disarm};
    let mut faults = 0;
    for (edit, path) in [(replace("a", "1", "2"), "a"), (create("dir/sub/b", "2\n"), "dir/sub/b"), (undo("c"), "c")] {
        for nth in 1.. {
            let mut desk = Desk::fast();
            fs::write(desk.path("a"), "1\n").unwrap();
            fs::write(desk.path("c"), "1\n").unwrap();
            desk.good(overwrite("c", "2\n"));
            let before = fs::read(desk.path(path)).ok();
            arm(nth, rustix::io::Errno::NOSPC.raw_os_error());
            let result = desk.call(edit.clone());
            let reached = disarm();
            if !reached {
                assert!(!result.is_error);
                break;
            }
            faults += 1;
            // The very last step of taking back fails after the file is right, and is said all the same.
            assert!(result.is_error || edit["command"] != "undo_edit", "{edit} at {nth}");
            let now = fs::read(desk.path(path)).ok();
            let files = fs::read_dir(desk.path("")).unwrap().count();
            assert!(files <= 4, "no temporary file is left in the tree");
            if edit["command"] == "undo_edit" {
                assert!(now.as_deref() == Some(b"1\n") || now.as_deref() == Some(b"2\n"), "{nth}");
            } else {
                assert!(now == before || now.as_deref() == Some(b"2\n"), "{edit} at {nth}: {now:?}");
            }
            desk.resume();
            let again = desk.call(undo(path));
            let then = fs::read(desk.path(path)).ok();
            let original = (path != "dir/sub/b").then(|| b"1\n".to_vec());
            assert_eq!(then, original, "{edit} at {nth}: {}", again.text);
        }
    }
    assert!(faults > 15, "{faults}");
}

/// Killed at each point of an edit or of taking it back, and started again.
#[test]
fn a_kill_at_any_point_leaves_a_file_that_undo_knows() {
    let edit = |text: &str| {
        let arguments = serde_json::json!({"command": "create", "path": "a.txt", "file_text": text, "overwrite": true});
        call("text-editor_text_editor", arguments)
    };
    let take_back = || call("text-editor_text_editor", undo("a.txt"));
    for (point, expected) in [
        // Edit 2 never happened: the first undo says so, the second takes back edit 1.
        ("text_editor.kept:2", ["already as it was", "again as it was"]),
        ("text_editor.staged:2", ["already as it was", "again as it was"]),
        ("text_editor.written:2", ["again as it was", "again as it was"]),
        ("text_editor.taken_back:1", ["already as it was", "again as it was"]),
    ] {
        let world = World::new();
        world.issue("fix", "coding agent");
        let repository = world.path("widgets");
        fs::write(repository.join("a.txt"), "zero\n").unwrap();
        git(&repository, &["add", "a.txt"]);
        git(&repository, &["commit", "--quiet", "--message", "a"]);
        let is_late = point.starts_with("text_editor.taken_back");
        let mut cassette = Cassette::new().then(edit("one\n")).then(edit("two\n"));
        if is_late {
            cassette = cassette.then(take_back());
        }
        world.replies(&cassette.then(take_back()).then(take_back()).finishes("x"));
        world.run_to_crash(&[], point);
        world.run(&[]).expect(0);
        world.assert_settled();
        let history = world.history();
        let results = history.results();
        let interrupted = if is_late { 2 } else { 1 };
        assert!(results[interrupted].starts_with("Interrupted"), "{point}: {results:?}");
        let rest = &results[interrupted + 1..];
        for (result, words) in rest.iter().zip(expected) {
            assert!(result.contains(words), "{point}: {rest:?}");
        }
        assert_eq!(world.branches(), Vec::<String>::new(), "{point}: the file is as it was");
        assert_eq!(world.names("workspaces"), Vec::<String>::new(), "{point}: nothing of the edits is left");
    }
}

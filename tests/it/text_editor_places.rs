//! Where the text editor goes and where it does not: outside the tree, `.git`, links, pipes, modes;
//! also while somebody swaps directories and links under it.

use std::fs;
use std::os::unix::fs::symlink;

use coding_agent::tools::text_editor::TextEditor;

use crate::support::desk::{Desk, create, insert, overwrite, replace, undo, view};

#[test]
fn nothing_outside_the_tree_is_reached() {
    let mut desk = Desk::new();
    let outside = desk.outside();
    symlink(&outside, desk.path("dir")).unwrap();
    symlink(outside.join("secret.txt"), desk.path("file")).unwrap();
    symlink(outside.join("new.txt"), desk.path("dangling")).unwrap();
    symlink("loop", desk.path("loop")).unwrap();
    symlink("..", desk.path("up")).unwrap();
    let absolute = outside.join("secret.txt").display().to_string();
    let beside = format!("{}-evil/x", desk.path("").display().to_string().trim_end_matches('/'));
    let paths = [
        "dir/secret.txt",
        "dir/new/deep.txt",
        "dir",
        "file",
        "dangling",
        "dangling/x",
        "loop",
        "loop/x",
        "up/outside/secret.txt",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "..",
        "/etc/passwd",
        "/",
        &absolute,
        &beside,
        "",
        "a\0b",
    ];
    for path in paths {
        for arguments in [
            view(path),
            overwrite(path, "evil"),
            create(path, "evil"),
            replace(path, "secret", "evil"),
            insert(path, 0, "x"),
            undo(path),
        ] {
            let result = desk.call(arguments.clone());
            assert!(result.is_error && !result.text.contains("secret\n"), "{arguments}: {}", result.text);
        }
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read(outside.join("secret.txt")).unwrap(), b"secret\n");
    assert_eq!(fs::read_dir(desk.home.path()).unwrap().count(), 2);
}

#[test]
fn git_is_never_opened_under_any_name() {
    let mut desk = Desk::new();
    symlink(".git", desk.path("g")).unwrap();
    symlink(".git/config", desk.path("c")).unwrap();
    fs::create_dir(desk.path("sub")).unwrap();
    let absolute = desk.path(".git/config").display().to_string();
    for path in [
        ".git",
        ".git/config",
        ".GIT/config",
        "./.Git/hooks/pre-commit",
        "sub/.git/config",
        "sub/.git",
        "g/config",
        "g",
        "c",
        "g/hooks/x",
        &absolute,
    ] {
        for arguments in
            [view(path), overwrite(path, "evil"), replace(path, "core", "evil"), insert(path, 0, "x"), undo(path)]
        {
            desk.refused(arguments, ".git");
        }
    }
    assert_eq!(desk.bytes(".git/config"), b"[core]\n");
    desk.good(create(".gitignore", "target\n"));
    desk.good(create(".github/ci.yml", "on: push\n"));
}

#[test]
fn links_inside_the_tree_are_followed_but_never_written_through() {
    let mut desk = Desk::new();
    fs::create_dir(desk.path("real")).unwrap();
    fs::write(desk.path("real/a.txt"), "a\n").unwrap();
    symlink("real", desk.path("alias")).unwrap();
    symlink("real/a.txt", desk.path("link")).unwrap();
    assert_eq!(desk.good(view("link")), "     1\ta\n");
    desk.refused(replace("link", "a", "b"), "symbolic link");
    desk.refused(overwrite("link", "b"), "symbolic link");
    desk.refused(create("alias", "b"), "symbolic link");
    desk.good(replace("alias/a.txt", "a", "b"));
    assert_eq!(desk.bytes("real/a.txt"), b"b\n");
    assert!(fs::symlink_metadata(desk.path("link")).unwrap().is_symlink());
}

#[test]
fn absolute_paths_inside_and_a_linked_root_work() {
    let mut desk = Desk::with("a", "x\n");
    let absolute = desk.path("./a").display().to_string();
    desk.good(view(&absolute));
    let alias = desk.home.path().join("alias");
    symlink(desk.path(""), &alias).unwrap();
    desk.editor = TextEditor::new(alias.clone(), desk.home.path().join("edits"));
    desk.good(view(&alias.join("a").display().to_string()));
    desk.good(view(&fs::canonicalize(desk.path("a")).unwrap().display().to_string()));
    desk.editor = TextEditor::new(desk.home.path().join("missing"), desk.home.path().join("edits"));
    desk.refused(view("a"), "cannot open the work tree");
}

#[test]
fn places_that_are_no_files_are_refused() {
    let mut desk = Desk::with("a", "x\n");
    let _socket = std::os::unix::net::UnixListener::bind(desk.path("sock")).unwrap();
    desk.refused(view("sock"), "not a file");
    desk.refused(overwrite("sock", "x"), "neither a file");
    desk.refused(view("a/b"), "`a` is not a directory");
    desk.refused(create("a/b/c", "x"), "`a` is not a directory");
    desk.refused(create(".", "x"), "is a directory");
    desk.refused(view("nope"), "does not exist");
    desk.refused(replace("nope", "a", "b"), "does not exist");
    desk.refused(create(&"n".repeat(300), "x"), "n");
}

#[test]
fn links_are_followed_by_what_they_say_and_only_inside() {
    let mut desk = Desk::new();
    fs::create_dir_all(desk.path("real/deep")).unwrap();
    fs::write(desk.path("real/a.txt"), "a\n").unwrap();
    symlink(desk.path("real"), desk.path("absolute")).unwrap();
    symlink("../real/./deep/..", desk.path("real/back")).unwrap();
    symlink("back/back/../absolute/a.txt", desk.path("real/chain")).unwrap();
    symlink("../../outside/secret.txt", desk.path("real/out")).unwrap();
    symlink("deep/../../.git/config", desk.path("real/git")).unwrap();
    symlink("../.git/../.git", desk.path("real/git2")).unwrap();
    symlink("a.txt/b", desk.path("real/through-file")).unwrap();
    for path in ["absolute/a.txt", "real/back/a.txt", "real/back/back/back/a.txt", "real/chain"] {
        assert_eq!(desk.good(view(path)), "     1\ta\n", "{path}");
    }
    desk.refused(view("real/out"), "is outside the work tree: `real/out` is a symbolic link that leaves it");
    desk.refused(view("real/git"), ".git");
    desk.refused(view("real/git2/config"), ".git");
    desk.refused(view("real/through-file"), "leads nowhere");
    desk.good(create("absolute/new/file.txt", "x\n"));
    assert_eq!(desk.bytes("real/new/file.txt"), b"x\n");
    desk.good(undo("real/back/new/file.txt"));
    assert!(!desk.path("real/new/file.txt").exists());
}

#[test]
fn modes_are_kept_and_new_files_have_the_usual_ones() {
    let mut desk = Desk::new();
    for mode in [0o755, 0o644, 0o600, 0o444, 0o555, 0o666, 0o200 | 0o444] {
        fs::write(desk.path("a"), "one\ntwo\n").unwrap();
        desk.set_mode("a", mode);
        for edit in [replace("a", "one", "1"), insert("a", 1, "x"), overwrite("a", "new\n"), undo("a"), undo("a")] {
            desk.good(edit.clone());
            assert_eq!(desk.mode("a"), mode, "{mode:o} after {edit}");
        }
        // Changed by a command in between: that is not the edit's to take back.
        desk.set_mode("a", 0o700);
        desk.good(undo("a"));
        assert_eq!((desk.mode("a"), desk.bytes("a")), (0o700, b"one\ntwo\n".to_vec()));
        fs::remove_file(desk.path("a")).unwrap();
    }
    desk.good(create("dir/new", "x"));
    fs::create_dir(desk.path("plain")).unwrap();
    fs::write(desk.path("plain/file"), "x").unwrap();
    assert_eq!(desk.mode("dir"), desk.mode("plain") & 0o755);
    assert_eq!(desk.mode("dir/new"), desk.mode("plain/file") & 0o644);
}

#[test]
fn another_name_of_the_same_file_keeps_its_content() {
    let mut desk = Desk::new();
    let outside = desk.outside().join("secret.txt");
    fs::hard_link(&outside, desk.path("hard")).unwrap();
    desk.good(replace("hard", "secret", "changed"));
    assert_eq!(desk.bytes("hard"), b"changed\n");
    desk.good(undo("hard"));
    desk.good(overwrite("hard", "again\n"));
    assert_eq!(fs::read(outside).unwrap(), b"secret\n");
}

#[test]
fn pipes_never_hang_and_names_of_any_bytes_are_listed() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut desk = Desk::new();
    let mode = rustix::fs::Mode::from_bits_truncate(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, desk.path("pipe"), mode).unwrap();
    symlink("pipe", desk.path("to-pipe")).unwrap();
    fs::write(desk.path("").join(std::ffi::OsStr::from_bytes(b"caf\xe9 \x1b[31m.txt")), "").unwrap();
    for path in ["pipe", "to-pipe"] {
        desk.refused(view(path), "is a pipe, socket or device");
    }
    desk.refused(overwrite("pipe", "x"), "neither a file nor a directory");
    desk.refused(undo("pipe"), "neither a file nor a directory");
    let text = desk.good(view("."));
    assert_eq!(text, "caf\u{FFFD} \u{FFFD}[31m.txt\npipe (pipe, socket or device)\nto-pipe -> pipe");
}

#[test]
fn what_may_not_be_read_is_said_and_hides_nothing_else() {
    let mut desk = Desk::with("closed", "x\n");
    fs::create_dir_all(desk.path("locked/inner")).unwrap();
    fs::create_dir_all(desk.path("write-only")).unwrap();
    desk.set_mode("closed", 0o000);
    desk.set_mode("locked", 0o000);
    desk.set_mode("write-only", 0o300);
    // Without what lets root read everything, in a thread of its own: that is a thread's property.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective = rustix::thread::CapabilitySet::empty();
            rustix::thread::set_capabilities(None, sets).unwrap();
            desk.refused(view("closed"), "cannot read `closed`: permission denied");
            desk.refused(replace("closed", "x", "y"), "cannot read `closed`: permission denied");
            desk.refused(view("locked/inner"), "permission denied");
            desk.refused(create("locked/new", "x"), "permission denied");
            desk.good(create("write-only/new", "x"));
            let text = desk.good(view("."));
            assert!(text.contains("closed\nlocked/\n  (cannot be read: permission denied)\nwrite-only/\n"), "{text}");
        });
    });
    desk.set_mode("closed", 0o600);
    assert_eq!(desk.bytes("closed"), b"x\n");
}

/// Directories and files that somebody else swaps for links while the editor is at work.
#[cfg(feature = "faults")]
mod swapped {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use coding_agent::sys::fault;
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use serde_json::Value;

    use super::*;

    /// `dir/sub/file` with two edits to take back; outside and in `.git` the same names, with secrets.
    fn scene() -> Desk {
        let mut desk = Desk::fast();
        for base in [desk.outside(), desk.path(".git")] {
            fs::create_dir_all(base.join("sub")).unwrap();
            fs::write(base.join("sub/file"), "secret\n").unwrap();
            fs::write(base.join("file"), "secret\n").unwrap();
        }
        fs::create_dir_all(desk.path("dir/sub")).unwrap();
        fs::write(desk.path("dir/sub/file"), "first\n").unwrap();
        desk.good(overwrite("dir/sub/file", "second\n"));
        desk.good(overwrite("dir/sub/file", "third\n"));
        desk
    }

    fn operations() -> [Value; 7] {
        [
            view("dir/sub/file"),
            view("dir"),
            overwrite("dir/sub/file", "new\n"),
            create("dir/sub/deep/new", "new\n"),
            replace("dir/sub/file", "third", "changed"),
            insert("dir/sub/file", 0, "more"),
            undo("dir/sub/file"),
        ]
    }

    /// All that lies in these directories.
    fn state(dirs: &[PathBuf]) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut ahead = dirs.to_vec();
        while let Some(dir) = ahead.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    ahead.push(path.clone());
                }
                found.push((path.clone(), fs::read(path).unwrap_or_default()));
            }
        }
        found.sort();
        found
    }

    fn exchange(one: &Path, other: &Path) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    #[test]
    fn at_every_step_of_every_operation() {
        let mut swaps = 0;
        for without_openat2 in [false, true] {
            fault::without_openat2(without_openat2);
            for (victim, target) in [
                ("dir", "../outside"),
                ("dir", ".git"),
                ("dir/sub", "../../outside/sub"),
                ("dir/sub", "../.git/sub"),
                ("dir/sub/file", "../../../outside/file"),
                ("dir/sub/file", "../../.git/file"),
            ] {
                for operation in operations() {
                    for nth in 1.. {
                        let mut desk = scene();
                        let (victim, trap) = (desk.path(victim), desk.path("trap"));
                        symlink(target, &trap).unwrap();
                        let forbidden = [desk.outside(), desk.path(".git")];
                        let before = state(&forbidden);
                        let mut passed = 0;
                        let swapped = std::rc::Rc::new(std::cell::Cell::new(false));
                        let flag = swapped.clone();
                        fault::at_point(Some(Box::new(move |_| {
                            passed += 1;
                            if passed == nth && victim.exists() {
                                exchange(&victim, &trap);
                                flag.set(true);
                            }
                        })));
                        let result = desk.call(operation.clone());
                        fault::at_point(None);
                        assert_eq!(state(&forbidden), before, "{operation} at {nth}, {target}");
                        assert!(!result.text.contains("secret"), "{operation} at {nth}: {}", result.text);
                        if !swapped.get() {
                            break;
                        }
                        swaps += 1;
                    }
                }
            }
        }
        fault::without_openat2(false);
        assert!(swaps > 300, "{swaps} swaps");
    }

    #[test]
    fn a_thousand_times_by_a_process_that_does_nothing_else() {
        for without_openat2 in [false, true] {
            let mut desk = Desk::fast();
            for base in [desk.path("dir/sub"), desk.outside().join("sub")] {
                fs::create_dir_all(base).unwrap();
            }
            fs::write(desk.outside().join("sub/file"), "outside\n").unwrap();
            fs::write(desk.path("dir/sub/file"), "inside\n").unwrap();
            symlink("../outside", desk.path("trap")).unwrap();
            let before = state(&[desk.outside()]);
            let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
            let (dir, trap) = (desk.path("dir"), desk.path("trap"));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        exchange(&dir, &trap);
                        swaps.fetch_add(1, Ordering::Relaxed);
                    }
                });
                fault::without_openat2(without_openat2);
                let (mut good, mut refused) = (0, 0);
                for round in 0..100_000 {
                    let operations = [
                        view("dir/sub/file"),
                        view("dir/sub"),
                        overwrite("dir/sub/file", &format!("inside {round}\n")),
                        create(&format!("dir/sub/{round}/new"), "x"),
                        undo("dir/sub/file"),
                    ];
                    for operation in operations {
                        let result = desk.call(operation.clone());
                        assert!(!result.text.contains("\toutside"), "{operation}: {}", result.text);
                        *if result.is_error { &mut refused } else { &mut good } += 1;
                    }
                    if round > 200 && good > 100 && refused > 100 {
                        break;
                    }
                }
                stop.store(true, Ordering::Relaxed);
                fault::without_openat2(false);
                assert!(good > 100 && refused > 100, "{good} worked, {refused} were refused");
            });
            assert!(swaps.load(Ordering::Relaxed) > 100);
            assert_eq!(state(&[desk.outside()]), before);
        }
    }
}

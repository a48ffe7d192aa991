//! The built-in text editor, through its port and on real directories: what it shows, what it
//! changes byte by byte, and what it refuses.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use coding_agent::ports::ToolServer as _;
use serde_json::{Value, json};

use crate::support::Random;
use crate::support::desk::{Desk, create, insert, overwrite, replace, undo, view};

// --- C55: line endings, several matches, no real change

const MIXED: &str = "a\r\n\tfoo\r\nbar\r\nfoo\r\nend";

#[test]
fn c55_a_multi_line_edit_of_a_crlf_file_changes_one_line_and_keeps_the_mode() {
    let mut desk = Desk::with("a.txt", MIXED);
    fs::set_permissions(desk.path("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    let text = desk.good(replace("a.txt", "foo\nbar", "foo\nbaz"));
    assert_eq!(desk.bytes("a.txt"), b"a\r\n\tfoo\r\nbaz\r\nfoo\r\nend");
    assert!(text.contains("     3\tbaz\n") && !text.contains('\r'), "{text}");
    assert_eq!(fs::metadata(desk.path("a.txt")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn c55_two_matches_are_an_error_with_line_numbers() {
    let mut desk = Desk::with("a.txt", MIXED);
    desk.refused(replace("a.txt", "foo", "x"), "lines 2, 4");
    assert_eq!(desk.bytes("a.txt"), MIXED.as_bytes());
    fs::write(desk.path("b.txt"), "aaa\n").unwrap();
    desk.refused(replace("b.txt", "aa", "b"), "lines 1, 1"); // overlapping
    fs::write(desk.path("c.txt"), "x\n".repeat(100_000)).unwrap();
    desk.refused(replace("c.txt", "x", "b"), "and more");
}

#[test]
fn c55_a_change_of_line_endings_alone_is_no_change() {
    let mut desk = Desk::with("a.txt", MIXED);
    desk.refused(replace("a.txt", "bar\r\nfoo", "bar\nfoo"), "no change");
    desk.refused(replace("a.txt", "bar\nfoo", "bar\r\nfoo"), "no change");
    desk.refused(replace("a.txt", "bar", "bar"), "no change");
    desk.refused(overwrite("a.txt", MIXED), "no change");
    assert_eq!(desk.bytes("a.txt"), MIXED.as_bytes());
}

#[test]
fn c55_old_text_that_is_absent_or_empty_is_an_error() {
    let mut desk = Desk::with("a.txt", MIXED);
    desk.refused(replace("a.txt", "nowhere", "x"), "does not occur");
    desk.refused(replace("a.txt", "", "x"), "`old_str` is empty");
    desk.refused(json!({"command": "str_replace", "path": "a.txt", "new_str": "x"}), "`old_str` is missing");
    assert_eq!(desk.bytes("a.txt"), MIXED.as_bytes());
}

#[test]
fn c55_of_two_copies_that_differ_in_line_ends_the_exact_one_wins() {
    let copies = "one\ntwo\n--\none\r\ntwo\r\n";
    let mut desk = Desk::with("a.txt", copies);
    desk.good(replace("a.txt", "one\ntwo", "one\n2"));
    assert_eq!(desk.bytes("a.txt"), b"one\n2\n--\none\r\ntwo\r\n");
    fs::write(desk.path("a.txt"), copies).unwrap();
    desk.good(replace("a.txt", "one\r\ntwo", "one\r\n2"));
    assert_eq!(desk.bytes("a.txt"), b"one\ntwo\n--\none\r\n2\r\n");
    // Neither copy is exact: one has its CR early, the other late.
    let neither = "x\r\ny\nz\n--\nx\ny\r\nz\n";
    fs::write(desk.path("a.txt"), neither).unwrap();
    desk.refused(replace("a.txt", "x\ny\nz", "q"), "more than once, at lines 1, 5");
    assert_eq!(desk.bytes("a.txt"), neither.as_bytes());
}

#[test]
fn c55_new_lines_take_the_ending_of_their_place() {
    let mut desk = Desk::with("a.txt", "a\nb\nc\r\nd\r\ne");
    desk.good(replace("a.txt", "d", "d\nd2"));
    assert_eq!(desk.bytes("a.txt"), b"a\nb\nc\r\nd\r\nd2\r\ne");
    desk.good(replace("a.txt", "e", "e\nf"));
    assert_eq!(desk.bytes("a.txt"), b"a\nb\nc\r\nd\r\nd2\r\ne\r\nf");
    desk.good(replace("a.txt", "a", "a\r\na2"));
    assert_eq!(desk.bytes("a.txt"), b"a\na2\nb\nc\r\nd\r\nd2\r\ne\r\nf");
    // Old text whose first or last character is one half of a CRLF.
    desk.good(replace("a.txt", "\nd2", "\nD2"));
    desk.good(replace("a.txt", "D2\r", "d3\r"));
    assert_eq!(desk.bytes("a.txt"), b"a\na2\nb\nc\r\nd\r\nd3\r\ne\r\nf");
}

#[test]
fn c55_inserted_lines_keep_endings_and_the_missing_last_break() {
    let mut desk = Desk::with("a.txt", "a\r\nb");
    desk.good(insert("a.txt", 0, "top"));
    desk.good(insert("a.txt", 2, "mid\n"));
    desk.good(insert("a.txt", 4, "x\ny\n"));
    assert_eq!(desk.bytes("a.txt"), b"top\r\na\r\nmid\r\nb\r\nx\r\ny");
    desk.refused(insert("a.txt", 7, "z"), "0 to 6");
    desk.refused(insert("a.txt", -1, "z"), "0 to 6");
    desk.refused(insert("a.txt", 1, ""), "`new_str` is empty");
    fs::write(desk.path("b.txt"), "a\n").unwrap();
    desk.good(insert("b.txt", 1, "b"));
    desk.good(insert("b.txt", 1, "\n"));
    assert_eq!(desk.bytes("b.txt"), b"a\n\nb\n");
    fs::write(desk.path("empty"), "").unwrap();
    desk.good(insert("empty", 0, "x"));
    assert_eq!(desk.bytes("empty"), b"x");
}

#[test]
fn c55_overwriting_a_crlf_file_keeps_crlf() {
    let mut desk = Desk::with("a.txt", "a\r\nb\r\n");
    desk.good(overwrite("a.txt", "a\nc\n"));
    assert_eq!(desk.bytes("a.txt"), b"a\r\nc\r\n");
}

#[test]
fn c55_the_error_names_the_line_that_was_meant() {
    let mut desk = Desk::with("a.rs", "fn main() {\n    let a  = 1;\n    call(a);\n}\n");
    desk.refused(replace("a.rs", "\tlet a = 1;\n\tcall(a);", "x"), "from line 2 on");
    desk.refused(replace("a.rs", "let a = 1;\nother();", "x"), "resembles line 2");
    desk.refused(replace("a.rs", "     3\t    call(a);", "x"), "leave out the line numbers");
}

// --- C56: byte order mark and last line break

const BOM: &str = "\u{FEFF}";

#[test]
fn c56_the_mark_is_neither_lost_nor_doubled_nor_shown() {
    let mut desk = Desk::with("a.py", format!("{BOM}import os\n"));
    assert_eq!(desk.good(view("a.py")), "     1\timport os\n");
    desk.good(replace("a.py", "import os\n", "import re\n"));
    assert_eq!(desk.bytes("a.py"), format!("{BOM}import re\n").as_bytes());
    desk.good(replace("a.py", &format!("{BOM}import re"), &format!("{BOM}import io")));
    desk.good(replace("a.py", "import", &format!("{BOM}from")));
    assert_eq!(desk.bytes("a.py"), format!("{BOM}from io\n").as_bytes());
    desk.good(insert("a.py", 0, &format!("{BOM}# top")));
    assert_eq!(desk.bytes("a.py"), format!("{BOM}# top\nfrom io\n").as_bytes());
    desk.good(overwrite("a.py", "x"));
    assert_eq!(desk.bytes("a.py"), format!("{BOM}x").as_bytes());
    desk.good(overwrite("a.py", &format!("{BOM}y\n")));
    assert_eq!(desk.bytes("a.py"), format!("{BOM}y\n").as_bytes());
}

#[test]
fn c56_no_mark_is_added() {
    let mut desk = Desk::with("a.py", "import os");
    desk.good(replace("a.py", "import", &format!("{BOM}from")));
    assert_eq!(desk.bytes("a.py"), b"from os");
    desk.good(overwrite("a.py", &format!("{BOM}x\n")));
    assert_eq!(desk.bytes("a.py"), b"x\n");
    desk.good(create("new.py", &format!("{BOM}x")));
    assert_eq!(desk.bytes("new.py"), b"x");
}

#[test]
fn c56_the_last_line_break_is_as_it_was() {
    for end in ["", "\n", "\r\n"] {
        let mut desk = Desk::with("a", format!("one\ntwo{end}"));
        desk.good(replace("a", "two", "2"));
        assert_eq!(desk.bytes("a"), format!("one\n2{end}").as_bytes());
        assert_eq!(desk.good(view("a")).contains("[no line break at the end"), end.is_empty());
    }
}

#[test]
fn c56_the_mark_character_inside_the_text_stays() {
    let mut desk = Desk::with("a", format!("{BOM}a{BOM}b\nc{BOM}\n"));
    desk.good(replace("a", "b", "B"));
    desk.good(insert("a", 1, &format!("{BOM}x")));
    assert_eq!(desk.bytes("a"), format!("{BOM}a{BOM}B\n{BOM}x\nc{BOM}\n").as_bytes());
}

// --- C19 and C22: cutting, binary files, endless lines

#[test]
fn c19_long_lines_of_any_script_are_cut_at_a_character() {
    let lines = ["あ".repeat(5_000), format!("{}👩‍👩‍👧", "a".repeat(1_999)), "é".repeat(3_000), "İ<THINK>".repeat(900)];
    let mut desk = Desk::with("a", lines.join("\n"));
    let text = desk.good(view("a"));
    assert!(text.contains("[… 4334 more characters in this line …]"), "{text}");
    assert!(text.contains("[… 5 more characters in this line …]"), "{text}");
    assert!(text.contains("[… 2000 more characters in this line …]"), "{text}");
    desk.refused(replace("a", "👩‍ 👩", "x"), "does not occur");
    desk.good(replace("a", "👩‍👩‍👧", "👧"));
    desk.refused(json!({"command": "あ".repeat(99), "path": "a"}), "must be one of");
}

#[test]
fn c22_binary_files_are_refused_with_type_and_size() {
    let mut random = Random::new(7);
    let noise: Vec<u8> = (0..65_536).map(|_| random.below(256) as u8).collect();
    let mut desk = Desk::with("noise", noise);
    desk.refused(view("noise"), "binary file, 65536 bytes");
    desk.refused(replace("noise", "a", "b"), "binary file, 65536 bytes");
    fs::write(desk.path("elf"), b"\x7FELF\0\0").unwrap();
    desk.refused(view("elf"), "binary file (ELF program), 6 bytes");
    fs::write(desk.path("latin"), b"caf\xE9\n").unwrap();
    desk.refused(view("latin"), "not UTF-8");
    desk.refused(insert("latin", 0, "x"), "not UTF-8");
    fs::write(desk.path("cut"), &"é".as_bytes()[..1]).unwrap();
    desk.refused(view("cut"), "not UTF-8");
    // A character that the probe cuts in half is no reason to refuse.
    fs::write(desk.path("text"), format!("{}é\n", "a".repeat(8_191))).unwrap();
    desk.good(view("text"));
    desk.good(overwrite("noise", "text\n"));
}

#[test]
fn c22_endless_lines_and_data_uris_are_folded() {
    let mut desk = Desk::with("min.js", "x=1;".repeat(500_000));
    let text = desk.good(view("min.js"));
    assert!(text.len() < 2_200 && text.contains("1998000 more characters"), "{}", text.len());
    let page =
        format!("<img src=\"data:image/png;base64,{}\"> <b>data: kept, {}</b>", "A".repeat(80_000), "z ".repeat(150));
    fs::write(desk.path("a.html"), page).unwrap();
    let text = desk.good(view("a.html"));
    assert!(text.contains("\"data:image/png;base64,[… 80000 characters of data …]\"> <b>data: kept"), "{text}");
    fs::write(desk.path("small.html"), "url(data:image/gif;base64,AAAA)").unwrap();
    assert!(desk.good(view("small.html")).contains("url(data:image/gif;base64,AAAA)"));
}

#[test]
fn c22_results_and_files_are_bounded() {
    let mut desk = Desk::with("long", "some words here\n".repeat(20_000));
    let text = desk.good(view("long"));
    assert!(text.len() <= 101_000 && text.contains("to 20000 not shown"), "{}", text.len());
    fs::File::create(desk.path("huge")).unwrap().set_len(3 << 30).unwrap();
    desk.refused(view("huge"), "binary file, 3221225472 bytes");
    fs::write(desk.path("log"), "line\n".repeat(2_200_000)).unwrap();
    desk.refused(view("log"), "text file, 11000000 bytes");
}

// --- C53: Git LFS pointers and empty submodules

#[test]
fn c53_a_pointer_is_named_and_never_edited() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n";
    let mut desk = Desk::with("model.bin", pointer);
    let text = desk.good(view("model.bin"));
    assert!(text.contains("Git LFS pointer") && text.contains("1234 bytes"), "{text}");
    desk.refused(replace("model.bin", "1234", "5"), "Git LFS pointer");
    desk.refused(insert("model.bin", 0, "x"), "Git LFS pointer");
    desk.refused(overwrite("model.bin", "x"), "Git LFS pointer");
    assert_eq!(desk.bytes("model.bin"), pointer.as_bytes());
}

#[test]
fn c53_listings_show_empty_directories_and_never_git() {
    let mut desk = Desk::new();
    fs::create_dir_all(desk.path("vendor/lib/deep")).unwrap();
    fs::create_dir_all(desk.path("module")).unwrap();
    fs::write(desk.path("vendor/.git"), "gitdir: x").unwrap();
    fs::write(desk.path("a\nb"), "").unwrap();
    symlink("/etc", desk.path("etc")).unwrap();
    let text = desk.good(view("."));
    assert_eq!(text, "a\u{FFFD}b\netc -> /etc\nmodule/\n  (empty)\nvendor/\n  lib/");
    desk.refused(json!({"command": "view", "path": ".", "view_range": [1, 2]}), "is a directory");
    fs::create_dir(desk.path("many")).unwrap();
    for number in 0..450 {
        fs::write(desk.path(&format!("many/{number:03}")), "").unwrap();
    }
    assert!(desk.good(view(".")).contains("  [… 400 more names …]"));
    assert!(desk.good(view("many")).contains("[… 50 more names …]"));
}

#[test]
fn c53_a_submodule_without_files_is_told_from_an_empty_directory() {
    let mut desk = Desk::new();
    let modules =
        "[submodule \"one\"]\n\tpath = libs/one\n\turl = ../one.git\n[submodule \"two\"]\n  path = \"two words\"\n";
    fs::write(desk.path(".gitmodules"), modules).unwrap();
    for dir in ["libs/one", "libs/empty", "two words"] {
        fs::create_dir_all(desk.path(dir)).unwrap();
    }
    let absent = "(a submodule that is not checked out)";
    assert_eq!(desk.good(view("libs")), format!("empty/\n  (empty)\none/\n  {absent}"));
    assert_eq!(desk.good(view("two words")), absent);
    for arguments in [view("libs/one/src/lib.rs"), create("libs/one/new.rs", "x"), replace("libs/one/a", "b", "c")] {
        desk.refused(arguments, "is in `libs/one`, a submodule that is not checked out");
    }
    // With its files here it is a directory like others.
    fs::write(desk.path("libs/one/.git"), "gitdir: ../../.git/modules/one").unwrap();
    desk.good(create("libs/one/new.rs", "x"));
    desk.good(create("libs/empty/new.rs", "x"));
    assert_eq!(desk.good(view("libs")), "empty/\n  new.rs\none/\n  new.rs");
}

// --- create, view, arguments

#[test]
fn create_makes_directories_and_replaces_only_when_told() {
    let mut desk = Desk::new();
    desk.good(create("a/b/c.txt", "one\n"));
    assert_eq!(desk.bytes("a/b/c.txt"), b"one\n");
    desk.refused(create("a/b/c.txt", "two\n"), "`overwrite` true");
    fs::set_permissions(desk.path("a/b/c.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    desk.good(overwrite("a/b/c.txt", "two\n"));
    assert_eq!(desk.bytes("a/b/c.txt"), b"two\n");
    assert_eq!(fs::metadata(desk.path("a/b/c.txt")).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(desk.path("a/b")).unwrap().count(), 1);
}

#[test]
fn view_numbers_lines_and_checks_its_range() {
    let mut desk = Desk::with("a", "one\r\ntwo\nthree");
    let ranged = |range: Value| json!({"command": "view", "path": "a", "view_range": range});
    assert_eq!(
        desk.good(view("a")),
        "     1\tone\n     2\ttwo\n     3\tthree\n[no line break at the end of the file]\n"
    );
    assert_eq!(desk.good(ranged(json!([1, 2]))), "     1\tone\n     2\ttwo\n");
    assert_eq!(desk.good(ranged(json!([2.0, 2]))), "     2\ttwo\n");
    assert!(desk.good(ranged(json!([3, -1]))).starts_with("     3\tthree\n"));
    assert!(desk.good(ranged(Value::Null)).starts_with("     1\tone"));
    for range in
        [json!([0, 2]), json!([1, 4]), json!([4, -1]), json!([-1, -1]), json!([1, -2]), json!([i64::MIN, i64::MAX])]
    {
        desk.refused(ranged(range), "lines 1 to 3");
    }
    desk.refused(ranged(json!([3, 2])), "comes after");
    for range in
        [json!([1]), json!([1, 2, 3]), json!("1-2"), json!(["1", 2]), json!([1.5, 2]), json!([1e300, 2]), json!({})]
    {
        desk.refused(ranged(range), "`view_range` is");
    }
    fs::write(desk.path("empty"), "").unwrap();
    assert_eq!(desk.good(view("empty")), "`empty` is empty");
}

#[test]
fn arguments_of_any_shape_get_an_answer() {
    let mut desk = Desk::with("a", "x\n");
    desk.refused(json!({}), "`command` is missing");
    desk.refused(json!({"command": "delete", "path": "a"}), "`undo_edit`");
    desk.refused(json!({"command": "view"}), "`path` is missing");
    desk.refused(json!({"command": "create", "path": "b"}), "`file_text` is missing");
    desk.refused(json!({"command": "str_replace", "path": "a", "old_str": "x"}), "`new_str` is missing");
    desk.refused(json!({"command": "insert", "path": "a", "new_str": "x"}), "`insert_line` is missing");
    let values =
        [json!(null), json!(true), json!(-1), json!(1.5), json!(u64::MAX), json!("あ\0"), json!([[]]), json!({"a": 1})];
    let names = ["path", "view_range", "file_text", "overwrite", "old_str", "new_str", "insert_line"];
    for command in ["view", "create", "str_replace", "insert", "undo_edit"] {
        for name in names {
            for value in &values {
                let mut arguments = json!({"command": command, "path": "a", "file_text": "y", "old_str": "q", "new_str": "r", "insert_line": 0});
                arguments[name] = value.clone();
                assert!(!desk.call(arguments).text.is_empty());
            }
        }
    }
    assert!(desk.editor.call("other", &serde_json::Map::new()).is_error);
}

#[test]
fn the_tool_has_a_plain_schema() {
    let tools = Desk::new().editor.tools();
    let [tool] = tools.as_slice() else { panic!("one tool") };
    assert_eq!((tool.wire_name.as_str(), &tool.schema["type"]), ("text_editor", &json!("object")));
    let text = tool.schema.to_string();
    assert!(["oneOf", "anyOf", "allOf", "$ref"].iter().all(|word| !text.contains(word)));
}

// --- the promise about bytes, on random documents

#[test]
fn c55_bytes_outside_the_replaced_range_are_identical() {
    let mut random = Random::new(2_024);
    let mut desk = Desk::fast();
    let mut edits = 0;
    for round in 0..600 {
        let lines = 1 + random.below(12);
        let mut text = String::new();
        for line in 0..lines {
            for _ in 0..random.below(4) {
                text.push_str(random.one_of(&["a", "é", "あ", "👩‍👩‍👧", "\t", " ", "\u{FEFF}", "x\ry"]));
            }
            if line + 1 < lines || random.below(2) == 0 {
                text.push_str(random.one_of(&["\n", "\r\n"]));
            }
        }
        let mark = if random.below(3) == 0 { BOM } else { "" };
        if mark.is_empty() && text.starts_with(BOM) {
            continue; // that would be a mark
        }
        // A passage between any two characters that does not part a CR from its LF.
        let bounds: Vec<usize> = (0..=text.len())
            .filter(|at| text.is_char_boundary(*at) && !(text[..*at].ends_with('\r') && text[*at..].starts_with('\n')))
            .collect();
        let (one, two) = (bounds[random.below(bounds.len())], bounds[random.below(bounds.len())]);
        let (start, end) = (one.min(two), one.max(two));
        let passage = &text[start..end];
        // As the model knows it: without CR, or now and then as the bytes are.
        let old = if random.below(4) == 0 { passage.to_owned() } else { passage.replace("\r\n", "\n") };
        let new = format!("<{round}>{}</{round}>", random.one_of(&["", "\n", "\r\n\n", "q"]));
        fs::write(desk.path("doc"), format!("{mark}{text}")).unwrap();
        let result = desk.call(replace("doc", &old, &new));
        let now = String::from_utf8(desk.bytes("doc")).unwrap();
        let flat = text.replace("\r\n", "\n");
        let flat_old = old.replace("\r\n", "\n");
        let is_unique =
            !old.is_empty() && flat.char_indices().filter(|(at, _)| flat[*at..].starts_with(&flat_old)).count() == 1;
        if !is_unique {
            assert!(!result.is_error || now == format!("{mark}{text}"), "{text:?} {old:?}");
            continue;
        }
        edits += 1;
        assert!(!result.is_error, "{text:?} {old:?}: {}", result.text);
        let before = format!("{mark}{}", &text[..start]);
        let inside = now.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&text[end..]));
        let inside = inside.unwrap_or_else(|| panic!("{text:?} {old:?} became {now:?}"));
        assert_eq!(inside.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
        let wants_one_kind = !text.replace("\r\n", "").contains('\n') && text.contains('\n');
        assert!(!wants_one_kind || !now.replace("\r\n", "").contains('\n'), "{text:?} became {now:?}");
        desk.good(undo("doc"));
        assert_eq!(desk.bytes("doc"), format!("{mark}{text}").as_bytes());
    }
    assert!(edits > 200, "only {edits} of the random passages were unique");
}

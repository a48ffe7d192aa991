//! The context directory as it lies on the disk: opened again, torn, incomplete, damaged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use coding_agent::chat::{Message, Usage, check_history};
use coding_agent::context::{Contexts, OutcomeFile, Place};
use coding_agent::error::Kind;
use coding_agent::sys::file::Sync;
use coding_agent::task::{Outcome, OutcomeKind};
use serde_json::{Value, json};

use crate::support::store::{Store, USAGE, call, contents, fill, record};
use crate::support::{History, check_strictly};

fn lines(path: &Path) -> Vec<Value> {
    History::read(path).0
}

#[test]
fn what_is_added_is_there_when_it_is_opened_again() {
    let store = Store::new();
    let mut context = store.create();
    assert_eq!(context.messages.next_seq(), 1);
    fill(&mut context);
    assert_eq!(record(&mut context, "false").unwrap(), 2);
    let numbers = context.statistics();
    assert_eq!((numbers.total_messages, numbers.total_tool_calls, numbers.final_message_count), (7, 2, 7));
    let expected: u64 = contents().iter().map(Message::estimated_tokens).sum();
    assert_eq!(numbers.final_token_count, expected);
    drop(context);

    let context = store.resume();
    assert_eq!(context.statistics(), numbers);
    assert_eq!(context.messages.current(), contents());
    assert_eq!((context.messages.next_seq(), context.messages.count_replies()), (8, 2));
    let usage = Usage { prompt_tokens: 200, completion_tokens: 20, cached_tokens: 100 };
    assert_eq!(context.messages.usage(), usage);
    let commands: Vec<&str> = context.tools.recent_commands().map(|command| command.command.as_str()).collect();
    assert_eq!(commands, ["true", "false"]);
    assert_eq!((context.metadata.resumes, context.metadata.bot_assigned), (1, true));
    assert_eq!(store.contexts().unfinished_tasks().unwrap(), std::slice::from_ref(&store.message));
    check_strictly(&History::read(&store.file("messages.jsonl")));
    check_strictly(&History::read(&store.file("current.jsonl")));
}

#[test]
fn files_have_the_fields_of_the_seed() {
    let store = Store::new();
    fill(&mut store.create());
    let archive = lines(&store.file("messages.jsonl"));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&archive[1]), ["content", "role", "seq", "timestamp", "tokens"]);
    assert_eq!(
        (&archive[1]["seq"], &archive[1]["tokens"], &archive[1]["content"]),
        (&json!(2), &json!(2), &json!("作業して"))
    );
    assert!(archive[1]["timestamp"].as_str().unwrap().ends_with("+00:00"));
    assert_eq!(archive[2]["usage"], json!({ "prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 50 }));
    let wire_call = json!({ "id": "c00000000", "type": "function",
                            "function": { "name": "run", "arguments": "{\"command\":\"true\"}" } });
    assert_eq!(archive[2]["tool_calls"][0], wire_call);
    assert_eq!((&archive[3]["tool_name"], &archive[3]["tool_call_id"]), (&json!("run"), &json!("c00000000")));
    let current = lines(&store.file("current.jsonl"));
    assert_eq!(keys(&current[1]), ["content", "role", "seq"]);
    let tool = &lines(&store.file("tools.jsonl"))[0];
    for (key, value) in
        [("seq", json!(1)), ("tool_name", json!("run")), ("result", json!("out")), ("error", json!(null))]
    {
        assert_eq!(tool[key], value, "{key}");
    }
    assert_eq!(tool["arguments"], json!({ "command": "true" }));
}

#[test]
fn files_are_private() {
    let store = Store::new();
    let mut context = store.create();
    fill(&mut context);
    context.keep_output(3, "long").unwrap();
    context.write_final_summary("done").unwrap();
    OutcomeFile::new(Outcome::completed("x"), None).save(context.dir()).unwrap();
    let mut left = vec![store.base_dir()];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{}", path.display());
        if metadata.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen += 1;
    }
    assert_eq!(seen, 13);
}

/// Each length to which the last line of a file can be cut, the line break being the last byte.
fn torn_forms(whole: &[u8]) -> impl Iterator<Item = &[u8]> {
    let begin = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    (begin + 1..whole.len()).map(|length| &whole[..length])
}

#[test]
fn a_torn_last_line_is_cut_off_kept_and_made_good_at_every_byte() {
    for name in ["messages.jsonl", "current.jsonl", "tools.jsonl"] {
        let store = Store::new();
        fill(&mut store.create());
        let whole = std::fs::read(store.file(name)).unwrap();
        let others: Vec<(PathBuf, Vec<u8>)> = ["messages.jsonl", "current.jsonl", "tools.jsonl"]
            .iter()
            .map(|name| (store.file(name), std::fs::read(store.file(name)).unwrap()))
            .collect();
        let good_until = whole.len() - whole.split_inclusive(|byte| *byte == b'\n').next_back().unwrap().len();
        for torn in torn_forms(&whole) {
            for (path, bytes) in &others {
                std::fs::write(path, bytes).unwrap();
            }
            std::fs::write(store.file(name), torn).unwrap();
            let mut context = store.resume();
            // Of the two files of messages one completes the other; the record of a call is only a record.
            assert_eq!(context.messages.current(), contents(), "{name} cut to {} bytes", torn.len());
            assert_eq!(context.messages.count_messages(), 7);
            assert_eq!(context.messages.count_replies(), 2);
            let kept = store.file(&format!("{name}.torn"));
            assert_eq!(std::fs::read(&kept).unwrap(), [&torn[good_until..], b"\n"].concat());
            std::fs::remove_file(kept).unwrap();
            let again = call(2, 0);
            context.messages.add(Message::assistant("", vec![again.clone()]), USAGE).unwrap();
            context.messages.add(Message::tool_result(&again, "x"), None).unwrap();
            record(&mut context, "again").unwrap();
            assert_eq!(check_history(context.messages.current()), Ok(()));
            for name in ["messages.jsonl", "current.jsonl"] {
                check_strictly(&History::read(&store.file(name)));
            }
            assert_eq!(lines(&store.file("tools.jsonl")).len(), if name == "tools.jsonl" { 1 } else { 2 });
        }
    }
}

#[test]
fn a_tail_of_nul_bytes_is_cut_off() {
    for name in ["messages.jsonl", "current.jsonl", "tools.jsonl"] {
        for tail in [&[0u8; 4096][..], b"\0", b"{\"seq\":\0\0\0\0", b"\0\0\0\n", b"\xff\xfe\n"] {
            let store = Store::new();
            fill(&mut store.create());
            let whole = std::fs::read(store.file(name)).unwrap();
            std::fs::write(store.file(name), [&whole, tail].concat()).unwrap();
            let context = store.resume();
            assert_eq!(context.messages.current(), contents());
            assert_eq!(context.tools.count_tool_calls(), 1);
            assert_eq!(std::fs::read(store.file(name)).unwrap(), whole);
            assert!(store.file(&format!("{name}.torn")).exists());
        }
    }
}

#[test]
fn a_bad_line_in_the_middle_is_an_error_that_names_it() {
    for name in ["messages.jsonl", "current.jsonl", "tools.jsonl"] {
        for bad in ["{\"seq\":2,\"ro", "", "\0\0", "[]", "null", "{}", "{\"seq\":\"x\"}"] {
            let store = Store::new();
            fill(&mut store.create());
            record(&mut store.resume(), "again").unwrap();
            let text = std::fs::read_to_string(store.file(name)).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            let number = lines.len() - 1;
            lines[number - 1] = bad;
            let damaged = lines.join("\n") + "\n";
            std::fs::write(store.file(name), &damaged).unwrap();
            let error = store.contexts().resume(&store.message).unwrap_err();
            assert_eq!(error.kind(), Kind::Host);
            let place = format!("cannot read line {number} of `{}`", store.file(name).display());
            assert_eq!(error.sentence(), place, "{bad:?}");
            assert_eq!(std::fs::read_to_string(store.file(name)).unwrap(), damaged, "nothing was touched");
        }
    }
}

#[test]
fn current_is_completed_from_the_archive() {
    for kept in [None, Some(0), Some(1), Some(4), Some(6)] {
        let store = Store::new();
        fill(&mut store.create());
        let path = store.file("current.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        match kept {
            None => std::fs::remove_file(&path).unwrap(),
            Some(count) => {
                let text: String = whole.split_inclusive('\n').take(count).collect();
                std::fs::write(&path, text).unwrap();
            }
        }
        let context = store.resume();
        assert_eq!(context.messages.current(), contents(), "{kept:?}");
        assert_eq!(context.messages.next_seq(), 8);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    }
}

#[test]
fn fields_and_roles_of_a_later_version_are_tolerated() {
    let store = Store::new();
    fill(&mut store.create());
    for name in ["messages.jsonl", "current.jsonl", "tools.jsonl", "metadata.json"] {
        let text = std::fs::read_to_string(store.file(name)).unwrap();
        let changed = text.replacen('{', "{\"later\":{\"a\":[1]},", 1).replace("\n{\"", "\n{\"later\":1,\"");
        std::fs::write(store.file(name), changed).unwrap();
    }
    let context = store.resume();
    assert_eq!(context.messages.current(), contents());
    assert_eq!((context.tools.count_tool_calls(), context.metadata.resumes), (1, 1));
}

#[test]
fn a_task_moves_between_its_places() {
    let store = Store::new();
    let contexts = store.contexts();
    assert_eq!(contexts.find(store.message.uuid), Place::Nowhere);
    assert_eq!(contexts.resume(&store.message).unwrap_err().kind(), Kind::Bug);
    let mut context = store.create();
    fill(&mut context);
    assert_eq!(contexts.find(store.message.uuid), Place::Running);
    OutcomeFile::new(Outcome::of(OutcomeKind::Paused, "signal"), None).save(context.dir()).unwrap();
    context.leave(OutcomeKind::Paused).unwrap();
    assert_eq!(contexts.find(store.message.uuid), Place::Paused);
    assert_eq!(contexts.paused_tasks().unwrap(), std::slice::from_ref(&store.message));
    assert_eq!(contexts.unfinished_tasks().unwrap(), []);
    let context = store.resume();
    assert_eq!(contexts.find(store.message.uuid), Place::Running);
    assert_eq!(OutcomeFile::load(context.dir()).unwrap(), None, "the decision to pause is forgotten");
    assert_eq!(context.messages.current(), contents());
    context.leave(OutcomeKind::Failed).unwrap();
    assert_eq!(contexts.find(store.message.uuid), Place::Completed);
    assert!(store.path("completed").join("messages.jsonl").exists());
    assert_eq!(contexts.resume(&store.message).unwrap_err().kind(), Kind::Bug);
}

#[test]
fn a_place_that_is_taken_is_refused_and_nothing_is_nested() {
    let store = Store::new();
    let context = store.create();
    std::fs::create_dir_all(store.path("paused").join("old")).unwrap();
    assert_eq!(context.leave(OutcomeKind::Paused).unwrap_err().kind(), Kind::Host);
    assert!(store.file("metadata.json").exists());
    assert!(!store.path("paused").join(store.message.uuid.to_string()).exists());

    let store = Store::new();
    store.create().leave(OutcomeKind::Paused).unwrap();
    std::fs::write(store.path("running"), "in the way").unwrap();
    assert_eq!(store.contexts().resume(&store.message).unwrap_err().kind(), Kind::Host);
    assert!(store.path("paused").join("metadata.json").exists());
}

#[test]
fn without_keeping_a_finished_task_leaves_nothing_but_a_paused_one_stays() {
    let store = Store::new();
    let contexts = Contexts::new(&store.base_dir(), Sync::Later, false);
    contexts.create(store.metadata()).unwrap().leave(OutcomeKind::Paused).unwrap();
    assert_eq!(contexts.find(store.message.uuid), Place::Paused);
    contexts.resume(&store.message).unwrap().leave(OutcomeKind::Completed).unwrap();
    assert_eq!(contexts.find(store.message.uuid), Place::Nowhere);
}

#[test]
fn metadata_that_is_missing_or_damaged_is_made_again_from_the_entry() {
    for damage in [None, Some(""), Some("{"), Some("{\"uuid\":1}")] {
        let store = Store::new();
        fill(&mut store.create());
        match damage {
            None => std::fs::remove_file(store.file("metadata.json")).unwrap(),
            Some(text) => std::fs::write(store.file("metadata.json"), text).unwrap(),
        }
        assert_eq!(store.contexts().unfinished_tasks().unwrap(), []);
        let context = store.resume();
        assert_eq!(context.metadata.message, store.message);
        assert_eq!(context.messages.current(), contents());
        assert_eq!(store.contexts().unfinished_tasks().unwrap(), std::slice::from_ref(&store.message));
    }
}

#[test]
fn an_outcome_that_cannot_be_read_is_an_error_that_names_it() {
    let store = Store::new();
    let context = store.create();
    for damaged in ["", "{", "{\"outcome\":\"later\",\"reason\":\"\",\"summary\":\"\"}"] {
        std::fs::write(store.file("outcome.json"), damaged).unwrap();
        let error = OutcomeFile::load(context.dir()).unwrap_err();
        assert_eq!(error.kind(), Kind::Host);
        assert!(error.sentence().contains("outcome.json"), "{error}");
    }
}

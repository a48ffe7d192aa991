//! Compression on the stores, without the program around it: what stays, what is sent afterwards,
//! and what happens when the model is of no use (cases C11, C13, C22).

use coding_agent::chat::{Message, Role, ToolCall, Usage, check_history};
use coding_agent::context::{
    Compressed, CompressionSettings, Compressor, Contexts, Room, TaskContext, clean_cut, shorten,
};
use coding_agent::error::{Error, Kind, Result};
use coding_agent::ports::{FinishReason, Reply};
use coding_agent::prompts::Prompts;
use coding_agent::sys::file::Sync;
use coding_agent::text::Redactor;
use serde_json::{Value, json};

use crate::support::store::{Store, call};
use crate::support::summarizer::{NOTES, Summarizer, says_summary};
use crate::support::{History, Random, objection};

const SETTINGS: CompressionSettings =
    CompressionSettings { threshold_tokens: 1000, keep_recent: 4, min_to_compress: 2 };
const ROOM: Room = Room { tail_tokens: 10_000, request_tokens: 100_000 };
const TEMPORARIES: [&str; 4] = ["to_summarize.jsonl", "unsummarized.jsonl", "request.jsonl", "all_messages.jsonl"];

fn compress_with(
    context: &mut TaskContext,
    llm: &mut Summarizer,
    settings: CompressionSettings,
    room: Room,
) -> Result<Compressed> {
    let prompts = Prompts::load(None).unwrap();
    Compressor { llm, prompts: &prompts, redactor: &Redactor::new(["hunter2hunter2"]), settings }
        .compress(context, room)
}

fn compress(context: &mut TaskContext, llm: &mut Summarizer) -> Result<Compressed> {
    compress_with(context, llm, SETTINGS, ROOM)
}

/// Refused by no server, as the program's own rules and the strict server's see it.
#[track_caller]
fn assert_sendable(messages: &[Message]) {
    assert_eq!(check_history(messages), Ok(()), "{messages:?}");
    let sent: Vec<Value> = messages
        .iter()
        .map(|message| {
            let mut sent = json!({ "role": message.role.name(), "content": message.content });
            if !message.tool_calls.is_empty() {
                let calls = message.tool_calls.iter().map(|call| {
                    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
                });
                sent["tool_calls"] = calls.collect();
            }
            if let Some(id) = &message.tool_call_id {
                sent["tool_call_id"] = id.as_str().into();
            }
            sent
        })
        .collect();
    assert_eq!(objection(&json!({ "model": "m", "messages": sent })), None, "{messages:?}");
}

fn begin() -> Vec<Message> {
    vec![Message::text(Role::System, "orders"), Message::text(Role::User, "the task")]
}

/// A turn of so many calls, each answered with `text`.
fn turn(number: u64, calls: usize, text: &str) -> Vec<Message> {
    let calls: Vec<ToolCall> = (0..calls).map(|index| call(number, index)).collect();
    let results: Vec<Message> = calls.iter().map(|call| Message::tool_result(call, text)).collect();
    [vec![Message::assistant("thinking", calls)], results].concat()
}

fn filled(store: &Store, messages: &[Message]) -> TaskContext {
    let mut context = store.create();
    for message in messages {
        context.messages.add(message.clone(), None).unwrap();
    }
    context
}

/// Ten turns of one call with results of 100 tokens each.
fn long() -> Vec<Message> {
    begin().into_iter().chain((0..10).flat_map(|number| turn(number, 1, &"x".repeat(400)))).collect()
}

#[test]
fn head_summary_tail() {
    let store = Store::new();
    let mut context = filled(&store, &long());
    let archive = std::fs::read(store.file("messages.jsonl")).unwrap();
    let before = context.messages.current_token_count();
    let usage = Usage { prompt_tokens: 900, completion_tokens: 30, cached_tokens: 0 };
    let mut llm =
        Summarizer::new([Ok(Reply { usage: Some(usage), ..says_summary(&format!("{NOTES} hunter2hunter2")) })]);
    let done = compress(&mut context, &mut llm).unwrap();
    let Compressed::Saved(saved) = done else { panic!("{done:?}") };
    let current = context.messages.current().to_vec();
    assert_eq!(current[..2], begin());
    assert_eq!((current[2].role, current[3..].to_vec()), (Role::User, long()[18..].to_vec()));
    assert!(current[2].content.contains(NOTES) && current[2].content.contains("not a new request"), "{:?}", current[2]);
    assert_sendable(&current);
    assert_eq!(context.messages.current_token_count(), before - saved);
    assert_eq!((context.messages.count_messages(), context.messages.count_replies()), (22, 10));
    assert_eq!(std::fs::read(store.file("messages.jsonl")).unwrap(), archive, "the archive is not touched");
    // The files, as the seed has them.
    let lines = History::read(&store.file("current.jsonl")).0;
    assert_eq!(lines[2], json!({ "role": "system", "content": current[2].content, "through_seq": 18 }));
    assert_eq!((&lines[1]["seq"], &lines[3]["seq"], lines.len()), (&json!(2), &json!(19), 7));
    let summary = &History::read(&store.file("summaries.jsonl")).0[0];
    assert_eq!(summary["summary"], format!("{NOTES} [secret]"));
    assert_eq!(
        (&summary["id"], &summary["compressed_message_count"], &summary["tokens_saved"], &summary["through_seq"]),
        (&json!(1), &json!(16), &json!(saved), &json!(18))
    );
    assert!(summary["created_at"].as_str().unwrap().ends_with("+00:00"));
    for name in TEMPORARIES {
        assert!(!store.file(name).exists(), "{name}");
    }
    // What was asked holds the part as data, and nothing of the tail.
    let fence = &context.metadata.fence;
    assert!(
        llm.asked[0].contains(&format!("<<data {fence}>>\n[assistant]\nthinking\n[call of run]")),
        "{}",
        llm.asked[0]
    );
    assert!(llm.asked[0].contains("the task") && llm.asked[0].matches("[result of run]").count() == 8);

    // The numbers and what is sent are the same when it is opened again, and work goes on.
    let numbers = context.statistics();
    assert_eq!((numbers.total_summaries, numbers.final_message_count), (1, 7));
    drop(context);
    let mut context = store.resume();
    assert_eq!((context.messages.current(), context.statistics()), (&current[..], numbers));
    assert_eq!((context.messages.head_len(), context.messages.next_seq()), (2, 23));
    assert_eq!(
        (context.summaries.latest_summary().unwrap().starts_with(NOTES), context.summaries.usage()),
        (true, usage)
    );
    let lines = std::fs::read(store.file("current.jsonl")).unwrap();
    context.messages.add(turn(10, 1, "")[0].clone(), None).unwrap();
    assert!(std::fs::read(store.file("current.jsonl")).unwrap().starts_with(&lines), "appended to the new file");
    assert_eq!(context.messages.current_context_file(), store.file("current.jsonl"));
}

#[test]
fn a_summary_of_a_summary() {
    let store = Store::new();
    let mut context = filled(&store, &long());
    let mut llm = Summarizer::new([]);
    assert!(matches!(compress(&mut context, &mut llm).unwrap(), Compressed::Saved(_)));
    for message in (10..20).flat_map(|number| turn(number, 2, &"y".repeat(400))) {
        context.messages.add(message, None).unwrap();
    }
    assert!(matches!(compress(&mut context, &mut llm).unwrap(), Compressed::Saved(_)));
    assert!(llm.asked[1].contains(NOTES), "what stood there before is summed up again: {}", llm.asked[1]);
    let lines = History::read(&store.file("summaries.jsonl")).0;
    // Two more turns of three messages stay; the old summary is no message.
    assert_eq!((&lines[1]["id"], &lines[1]["compressed_message_count"]), (&json!(2), &json!(4 + 24)));
    let current = context.messages.current().to_vec();
    assert_eq!(current.iter().filter(|message| message.content.contains(NOTES)).count(), 1);
    assert_sendable(&current);
    assert_eq!(store.resume().messages.current(), current);
}

#[test]
fn c11_every_cut_leaves_batches_whole() {
    // The history of the case, with answers behind it.
    let history = [
        begin(),
        turn(0, 2, "r"),
        vec![Message::assistant("x", vec![]), Message::text(Role::User, "go on")],
        turn(1, 1, "r"),
        turn(2, 3, "r"),
    ]
    .concat();
    for keep_recent in 0..=history.len() + 1 {
        for tail_tokens in [0, 5, 10, 1000] {
            let cut = clean_cut(&history, 2, keep_recent, tail_tokens);
            assert!(cut == 2 || history[cut].role == Role::Assistant, "{keep_recent}: {cut}");
            let sent = [&history[..2], &[Message::text(Role::User, "summary")], &history[cut..]].concat();
            assert_sendable(&sent);
            if tail_tokens == 1000 {
                assert!(history.len() - cut >= keep_recent.min(history.len() - 2), "{keep_recent} stay: {cut}");
            }
        }
    }
    assert_eq!(clean_cut(&history, 2, 2, 1000), 9, "back to the reply with three calls");
    assert_eq!(clean_cut(&history, 2, 9, 0), 9, "the last turn stays, however long");
    assert_eq!(clean_cut(&begin(), 2, 4, 1000), 2);
}

#[test]
fn c11_a_damaged_history_is_mended_on_opening() {
    let whole = [begin(), turn(0, 2, "r"), turn(1, 1, "r")].concat();
    // Which lines of `current.jsonl` are lost, and how many messages there are afterwards.
    let table: &[(&[usize], usize)] = &[
        (&[2], 4),    // two orphans
        (&[2, 3], 4), // begins with the second result
        (&[3], 7),    // the first result of two
        (&[4], 7),    // the second
        (&[3, 4], 7), // both
        (&[5], 5),    // an orphan at the end
        (&[6], 6),    // open at the end: whoever goes on answers it
        (&[0, 1, 2, 3, 4, 5], 0),
    ];
    for (lost, left) in table {
        let store = Store::new();
        drop(filled(&store, &whole));
        let text = std::fs::read_to_string(store.file("current.jsonl")).unwrap();
        let kept: String = text
            .split_inclusive('\n')
            .enumerate()
            .filter(|(index, _)| !lost.contains(index))
            .map(|(_, line)| line)
            .collect();
        std::fs::write(store.file("current.jsonl"), kept).unwrap();
        // The archive must not complete it.
        let archive = std::fs::read_to_string(store.file("messages.jsonl")).unwrap();
        let until = if lost.contains(&6) { 6 } else { 7 };
        std::fs::write(store.file("messages.jsonl"), archive.split_inclusive('\n').take(until).collect::<String>())
            .unwrap();
        let mut context = store.resume();
        assert_eq!(context.messages.current().len(), *left, "{lost:?}: {:?}", context.messages.current());
        if lost.contains(&6) {
            context.messages.add(Message::tool_result(&call(1, 0), "r"), None).unwrap();
        }
        if *left > 0 {
            assert_sendable(context.messages.current());
        }
        let mended = context.messages.current().to_vec();
        drop(context);
        let bytes = std::fs::read(store.file("current.jsonl")).unwrap();
        let again = store.resume();
        if lost.contains(&5) {
            // Its call is in the archive: now both come back.
            assert_eq!(again.messages.current(), whole);
        } else {
            assert_eq!(again.messages.current(), mended);
            assert_eq!(std::fs::read(store.file("current.jsonl")).unwrap(), bytes, "mended once");
        }
    }
}

#[test]
fn a_summary_line_of_the_earlier_program_is_sent_as_a_user_message() {
    let store = Store::new();
    drop(filled(&store, &[begin(), turn(0, 1, "r")].concat()));
    let text = std::fs::read_to_string(store.file("current.jsonl")).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let changed =
        [lines[0], lines[1], "{\"role\":\"system\",\"content\":\"old notes\"}\n", lines[2], lines[3]].concat();
    std::fs::write(store.file("current.jsonl"), changed).unwrap();
    let context = store.resume();
    assert_eq!(context.messages.current()[2], Message::text(Role::User, "old notes"));
    assert_eq!(context.messages.head_len(), 2);
    assert_sendable(context.messages.current());
}

#[test]
fn refused_summaries_change_nothing() {
    let empty = || Ok(says_summary(""));
    let table: Vec<(Result<Reply>, &str)> = vec![
        (empty(), "empty"),
        (Ok(says_summary("  \n ")), "blank"),
        (Ok(says_summary("OK.")), "none"),
        (Ok(says_summary(&"word ".repeat(800))), "as long as what it stands for"),
        (Err(Error::task("the content is refused")), "refused"),
    ];
    for (reply, what) in table {
        let store = Store::new();
        let mut context = filled(&store, &long());
        let bytes = std::fs::read(store.file("current.jsonl")).unwrap();
        let done = compress(&mut context, &mut Summarizer::new([reply])).unwrap();
        assert_eq!(done, Compressed::Refused, "{what}");
        assert_eq!(context.messages.current(), long());
        assert_eq!(std::fs::read(store.file("current.jsonl")).unwrap(), bytes, "{what}");
        assert_eq!(context.summaries.count_summaries(), 0, "{what}");
        assert!(TEMPORARIES.iter().all(|name| !store.file(name).exists()), "{what}");
    }
}

#[test]
fn passing_trouble_is_no_refusal() {
    for kind in [Kind::Later, Kind::Host] {
        let store = Store::new();
        let mut context = filled(&store, &long());
        let error = compress(&mut context, &mut Summarizer::new([Err(Error::new(kind, "no"))])).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(context.messages.current(), long());
        assert!(TEMPORARIES.iter().all(|name| !store.file(name).exists()));
    }
}

#[test]
fn too_little_is_not_summed_up() {
    let store = Store::new();
    let mut context = filled(&store, &long());
    let settings = CompressionSettings { min_to_compress: 17, ..SETTINGS };
    let mut llm = Summarizer::new([]);
    assert_eq!(compress_with(&mut context, &mut llm, settings, ROOM).unwrap(), Compressed::TooFew);
    assert_eq!(llm.asked.len(), 0);
    let settings = CompressionSettings { min_to_compress: 16, ..SETTINGS };
    assert!(matches!(compress_with(&mut context, &mut llm, settings, ROOM).unwrap(), Compressed::Saved(_)));
}

#[test]
fn due_when_all_but_the_head_is_over_the_threshold() {
    let store = Store::new();
    let head = vec![Message::text(Role::System, "s".repeat(40_000)), Message::text(Role::User, "u".repeat(40_000))];
    let mut context = filled(&store, &head);
    let is_due = |context: &TaskContext, ratio| Compressor::should_compress(&SETTINGS, context, ratio);
    assert!(!is_due(&context, 1.0), "the head does not count");
    for message in turn(0, 1, &"x".repeat(3984)) {
        context.messages.add(message, None).unwrap();
    }
    // thinking 2, run 0, its arguments 4, result 996
    assert_eq!(context.messages.current_token_count() - context.messages.head_token_count(), 1002);
    assert!(is_due(&context, 1.0));
    assert!(!is_due(&context, 0.9), "the server counts fewer than we estimate");
    assert!(!Compressor::should_compress(&CompressionSettings { threshold_tokens: 1002, ..SETTINGS }, &context, 1.0));
}

#[test]
fn c13_a_part_too_long_for_one_request_is_summed_up_in_chunks() {
    let store = Store::new();
    let mut context = filled(&store, &long());
    let mut llm = Summarizer::new([]);
    let done = compress_with(&mut context, &mut llm, SETTINGS, Room { request_tokens: 450, ..ROOM }).unwrap();
    assert!(matches!(done, Compressed::Saved(_)));
    assert!(llm.asked.len() > 2, "{}", llm.asked.len());
    for (index, asked) in llm.asked.iter().enumerate() {
        assert_eq!(asked.contains(NOTES), index > 0, "the summary so far goes along");
    }
    let results: usize = llm.asked.iter().map(|asked| asked.matches("[result of run]").count()).sum();
    assert_eq!(results, 8, "each message once");
    assert_eq!(context.summaries.count_summaries(), 1);
}

#[test]
fn c13_a_chunk_that_is_refused_as_too_long_is_halved() {
    let store = Store::new();
    let turns = (0..30).flat_map(|number| turn(number, 1, &"x".repeat(1200)));
    let mut context = filled(&store, &begin().into_iter().chain(turns).collect::<Vec<_>>());
    let mut llm = Summarizer::new([]);
    llm.most_tokens = 3000;
    assert!(matches!(compress(&mut context, &mut llm).unwrap(), Compressed::Saved(_)));
    assert!((4..16).contains(&llm.asked.len()), "{}", llm.asked.len());
    assert_sendable(context.messages.current());

    // A server that takes nothing at all is given up on.
    let store = Store::new();
    let mut context = filled(&store, &long());
    let mut llm = Summarizer::new([]);
    llm.most_tokens = 0;
    assert_eq!(compress(&mut context, &mut llm).unwrap(), Compressed::Refused);
    assert!(llm.asked.len() < 4, "{}", llm.asked.len());
    assert_eq!(context.messages.current(), long());
}

#[test]
fn a_message_longer_than_any_request_is_cut_for_the_summary() {
    let store = Store::new();
    let messages = [begin(), turn(0, 1, &"日本".repeat(50_000)), turn(1, 1, "x"), turn(2, 1, "x")].concat();
    let mut context = filled(&store, &messages);
    let mut llm = Summarizer::new([]);
    llm.most_tokens = 2000;
    let room = Room { request_tokens: 1000, ..ROOM };
    assert!(matches!(compress_with(&mut context, &mut llm, SETTINGS, room).unwrap(), Compressed::Saved(_)));
    assert!(llm.asked.iter().any(|asked| asked.contains("characters left out")));
}

#[test]
fn a_summary_cut_at_the_output_limit_is_marked() {
    let store = Store::new();
    let mut context = filled(&store, &long());
    let cut = Reply { finish: FinishReason::Length, ..says_summary(NOTES) };
    compress(&mut context, &mut Summarizer::new([Ok(cut)])).unwrap();
    assert_eq!(context.summaries.latest_summary(), Some(format!("{NOTES} […]").as_str()));
}

#[test]
fn a_long_tail_is_shorter_than_keep_recent() {
    let store = Store::new();
    let mut context = filled(&store, &long());
    let room = Room { tail_tokens: 250, ..ROOM };
    let settings = CompressionSettings { keep_recent: 10, ..SETTINGS };
    assert!(matches!(
        compress_with(&mut context, &mut Summarizer::new([]), settings, room).unwrap(),
        Compressed::Saved(_)
    ));
    assert_eq!(context.messages.current().len(), 2 + 1 + 4, "two turns of about 106 tokens");
}

#[test]
fn c22_without_a_model_the_oldest_results_are_shortened() {
    let store = Store::new();
    let mut context = filled(&store, &[begin(), turn(0, 2, &"a".repeat(8000)), turn(1, 1, &"b".repeat(8000))].concat());
    let kept = context.keep_output(5, &"a".repeat(8000)).unwrap();
    let archive = std::fs::read(store.file("messages.jsonl")).unwrap();
    assert!((1000..1010).contains(&shorten(&mut context, 1000).unwrap()));
    let lengths = |context: &TaskContext| -> Vec<u64> {
        let results = context.messages.current().iter().filter(|message| message.role == Role::Tool);
        results.map(Message::estimated_tokens).collect()
    };
    assert!(
        (990..=1000).contains(&lengths(&context)[0]) && lengths(&context)[1..] == [2000, 2000],
        "no more than is needed"
    );
    assert!(shorten(&mut context, 2500).unwrap() >= 2500);
    let [first, second, last] = lengths(&context)[..] else { panic!() };
    assert!(first <= 200 && second <= 300 && last == 2000, "{first} {second} {last}");
    // The newest is no exception where the rest is not enough: it may be all there is.
    shorten(&mut context, u64::MAX).unwrap();
    assert!(lengths(&context).iter().all(|tokens| (150..=200).contains(tokens)), "{:?}", lengths(&context));
    let second = &context.messages.current()[4].content;
    assert!(second.contains(&kept.display().to_string()), "says where the whole is: {second}");
    assert_eq!(shorten(&mut context, 1000).unwrap(), 0, "nothing more to gain");
    assert_sendable(context.messages.current());
    assert_eq!(context.messages.current()[..2], begin());
    assert_eq!(std::fs::read(store.file("messages.jsonl")).unwrap(), archive);
    let current = context.messages.current().to_vec();
    drop(context);
    assert_eq!(store.resume().messages.current(), current);
}

#[test]
fn long_arguments_of_earlier_calls_are_shortened_last_and_stay_objects() {
    let store = Store::new();
    let big = |number: u64| {
        let arguments = json!({ "path": "a.txt", "file_text": "é".repeat(8000), "lines": [1, 2] }).to_string();
        let call = ToolCall { id: format!("c{number:08}"), name: "edit".into(), arguments, extra: None };
        vec![Message::assistant("", vec![call.clone()]), Message::tool_result(&call, "done")]
    };
    let mut context = filled(&store, &[begin(), big(0), big(1)].concat());
    assert!(shorten(&mut context, u64::MAX).unwrap() > 1800);
    assert_sendable(context.messages.current());
    let arguments = |index: usize| -> Value {
        serde_json::from_str(&context.messages.current()[index].tool_calls[0].arguments).unwrap()
    };
    assert_eq!((&arguments(2)["path"], &arguments(2)["lines"]), (&json!("a.txt"), &json!([1, 2])));
    assert!(arguments(2)["file_text"].as_str().unwrap().contains("characters left out"));
    assert_eq!(arguments(4)["file_text"].as_str().unwrap().chars().count(), 8000, "the last call is as it was made");
}

/// A history as the loop writes it, at a point where the model is asked.
fn random_turns(random: &mut Random, first: u64, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    for number in first..first + count as u64 {
        let text = random
            .one_of(&["", "ok", "結果は良い", "a longer result with words\nand lines\n"])
            .repeat(1 + random.below(40));
        match random.below(6) {
            0 => messages.extend([Message::assistant("text alone", vec![]), Message::text(Role::User, "call a tool")]),
            1 => messages
                .extend([turn(number, 1, &text), vec![Message::text(Role::User, "the tree was made again")]].concat()),
            _ => messages.extend(turn(number, 1 + random.below(5), &text)),
        }
    }
    messages
}

#[test]
fn property_what_is_sent_is_valid_whatever_is_compressed() {
    let mut random = Random::new(5);
    let mut compressed = 0;
    for round in 0..60 {
        let store = Store::new();
        // Some thousand messages: what is synced is not looked at here.
        let contexts = Contexts::new(&store.base_dir(), Sync::Later, true);
        let mut context = contexts.create(store.metadata()).unwrap();
        for message in begin() {
            context.messages.add(message, None).unwrap();
        }
        let mut number = 0;
        for _ in 0..1 + random.below(5) {
            let count = 1 + random.below(8);
            for message in random_turns(&mut random, number, count) {
                context.messages.add(message, None).unwrap();
            }
            number += count as u64;
            let settings = CompressionSettings {
                keep_recent: 1 + random.below(12),
                min_to_compress: 1 + random.below(4),
                ..SETTINGS
            };
            let room = Room { tail_tokens: random.below(600) as u64, request_tokens: 300 + random.below(3000) as u64 };
            let before = context.messages.current().to_vec();
            let tokens = context.messages.current_token_count();
            let done = compress_with(&mut context, &mut Summarizer::new([]), settings, room).unwrap();
            let after = context.messages.current().to_vec();
            match done {
                Compressed::Saved(saved) => {
                    compressed += 1;
                    assert_eq!(context.messages.current_token_count(), tokens - saved);
                    assert!(saved * 10 >= tokens);
                    let tail = &after[3..];
                    assert!(before.ends_with(tail) && !tail.is_empty(), "the newest stay");
                }
                _ => assert_eq!(after, before, "{done:?}"),
            }
            if random.below(3) == 0 {
                shorten(&mut context, random.below(500) as u64).unwrap();
            }
            assert_eq!(context.messages.current()[..2], begin(), "round {round}");
            assert_sendable(context.messages.current());
            let sum: u64 = context.messages.current().iter().map(Message::estimated_tokens).sum();
            assert_eq!(context.messages.current_token_count(), sum);
            let (current, next) = (context.messages.current().to_vec(), context.messages.next_seq());
            let bytes = std::fs::read(store.file("current.jsonl")).unwrap();
            drop(context);
            context = contexts.resume(&store.message).unwrap();
            assert_eq!((context.messages.current(), context.messages.next_seq()), (&current[..], next));
            assert_eq!(std::fs::read(store.file("current.jsonl")).unwrap(), bytes, "opening changes nothing");
        }
    }
    assert!(compressed > 60, "{compressed}");
}

//! The recorded model and the wrappers every model gets: tries again, writes down what it cost.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use coding_agent::chat::{Message, Role, Usage};
use coding_agent::context::TaskDb;
use coding_agent::error::{Error, Kind, Result};
use coding_agent::llm::{Ledger, Replay, Retrying};
use coding_agent::ports::{FinishReason, Llm, ModelProfile, RawToolCall, Reply, Request};
use coding_agent::sys::clock;
use coding_agent::task::TaskId;
use serde_json::json;

use crate::support::{Cassette, World, check_strictly, says};

fn asked(model: &mut impl Llm, turn: u64) -> Result<Reply> {
    let messages = [Message::text(Role::System, "orders"), Message::text(Role::User, "abcdefgh")];
    asked_with(model, turn, &messages)
}

fn asked_with(model: &mut impl Llm, turn: u64, messages: &[Message]) -> Result<Reply> {
    model.complete(&Request { task: TaskId::from_u128(1), phase: "loop", turn, messages, tools: &[] })
}

/// A replay of these lines, in a directory that must live as long.
fn replay(text: &str) -> (tempfile::TempDir, Result<Replay>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("replies.jsonl");
    std::fs::write(&path, text).unwrap();
    (dir, Replay::open(&path, 1000))
}

#[test]
fn replay_gives_the_reply_of_the_turn() {
    let (_dir, model) = replay(&Cassette::new().then(says("one")).then(says("two")).finishes("three").to_text());
    let mut model = model.unwrap();
    assert_eq!((model.model().provider.as_str(), model.model().model.as_str()), ("replay", "replies.jsonl"));
    assert_eq!(model.model().context_tokens, 1000);
    model.probe().unwrap();
    // By the task's turn, not by how often it was asked: a resumed task goes on where it was.
    assert_eq!(asked(&mut model, 1).unwrap().content, "two");
    assert_eq!(asked(&mut model, 0).unwrap().content, "one");
    let reply = asked(&mut model, 2).unwrap();
    assert_eq!(reply.tool_calls[0].name.as_deref(), Some("finish"));
    assert_eq!(reply.usage, Some(Usage { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 0 }));
    for turn in [3, u64::MAX] {
        let error = asked(&mut model, turn).unwrap_err();
        assert_eq!(error.kind(), Kind::Task);
        assert!(error.sentence().ends_with("replies.jsonl` end after 3 turns"), "{error}");
    }
}

#[test]
fn replay_refuses_an_invalid_history_as_a_bug_of_ours() {
    let (_dir, model) = replay("{\"content\":\"one\"}\n");
    let mut model = model.unwrap();
    for history in [vec![], vec![Message::text(Role::User, "x"), Message::text(Role::Assistant, "y")]] {
        let error = asked_with(&mut model, 0, &history).unwrap_err();
        assert_eq!(error.kind(), Kind::Bug);
        assert!(error.sentence().starts_with("the history is not valid: "), "{error}");
    }
}

#[test]
fn replay_of_odd_lines() {
    let lines = [
        json!({ "content": null, "tool_calls": [{}, { "id": "", "function": {} }] }),
        json!({ "role": "user", "content": "left out" }),
        json!({ "role": "tool", "content": "left out too" }),
        json!({ "content": "half", "finish_reason": "length", "later_field": {} }),
        json!({}),
        json!({ "content": "x", "tool_calls": null, "usage": null }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n\n")).collect();
    let (_dir, model) = replay(&text);
    let mut model = model.unwrap();
    let nameless =
        |id: Option<&str>| RawToolCall { id: id.map(str::to_owned), name: None, arguments: None, extra: None };
    assert_eq!(asked(&mut model, 0).unwrap().tool_calls, [nameless(None), nameless(Some(""))]);
    assert_eq!(asked(&mut model, 1).unwrap().finish, FinishReason::Length);
    let empty =
        Reply { content: String::new(), tool_calls: vec![], reasoning: None, finish: FinishReason::Ended, usage: None };
    assert_eq!(asked(&mut model, 2).unwrap(), empty);
    assert_eq!(asked(&mut model, 3).unwrap(), Reply { content: "x".into(), ..empty });
}

#[test]
fn replay_of_a_file_that_is_no_cassette() {
    for (text, told) in [
        ("{\"content\":\"a\"}\n{broken\n", "replies.jsonl`: line 2 is no reply"),
        ("\n\n7\n", "line 3 is no reply"),
        ("{\"content\":7}", "line 1 is no reply"),
    ] {
        let (_dir, model) = replay(text);
        let error = model.unwrap_err();
        assert_eq!(error.kind(), Kind::Host);
        assert!(error.sentence().ends_with(told), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("absent.jsonl");
    let error = Replay::open(&path, 1000).unwrap_err();
    assert_eq!(error.kind(), Kind::Host);
    assert!(error.sentence().ends_with("absent.jsonl`: there is no such file"), "{error}");
    std::fs::write(&path, b"\xff\xfe{}").unwrap();
    assert!(Replay::open(&path, 1000).unwrap_err().sentence().ends_with("it is not UTF-8"));
}

#[test]
fn replay_of_errors() {
    let error = |kind: &str, more: serde_json::Value| {
        let mut error = json!({ "kind": kind, "message": format!("{kind} trouble") });
        error.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "error": error })
    };
    let text = Cassette::new()
        .then(error("later", json!({ "times": 2, "retry_after_seconds": 3600 })))
        .then(error("host", json!({ "times": 1 })))
        .then(says("one"))
        .then(says("two"))
        .then(error("task", json!({})))
        .to_text();
    let (_dir, model) = replay(&text);
    let mut model = model.unwrap();
    let before_ms = clock::now_ms();
    for _ in 0..2 {
        let error = asked(&mut model, 0).unwrap_err();
        assert_eq!((error.kind(), error.sentence()), (Kind::Later, "later trouble"));
        assert!((before_ms + 3_600_000..=clock::now_ms() + 3_600_000).contains(&error.not_before_ms().unwrap()));
    }
    let error = asked(&mut model, 0).unwrap_err();
    assert_eq!((error.kind(), error.not_before_ms()), (Kind::Host, None));
    assert_eq!(asked(&mut model, 0).unwrap().content, "one");
    assert_eq!(asked(&mut model, 1).unwrap().content, "two");
    for _ in 0..5 {
        assert_eq!(asked(&mut model, 2).unwrap_err().kind(), Kind::Task, "for ever");
    }
}

#[test]
fn the_archive_of_a_task_plays_again() {
    let cassette =
        Cassette::new().creates("a.txt", "a\n").then(says("hm")).runs("cat a.txt").runs("exit 3").finishes("done so");
    let world = World::with_task(&cassette);
    world.run(&[]).expect(0);
    let first = world.history();
    let again = World::with_task(&Cassette::new());
    let archive = std::fs::read_to_string(world.context("completed").join("messages.jsonl")).unwrap();
    again.write("replies.jsonl", &archive);
    again.run(&[]).expect(0);
    let second = again.history();
    check_strictly(&second);
    let told = |history: &crate::support::History| -> Vec<(String, String)> {
        let pick = |line: &serde_json::Value| (line["role"].to_string(), line["tool_calls"].to_string());
        history.0.iter().map(pick).collect()
    };
    assert_eq!(told(&first), told(&second));
    assert_eq!(again.file_on("coding-agent/issue-fix", "a.txt"), "a");
}

/// A model that gives what it was told to, and counts.
struct Scripted {
    profile: ModelProfile,
    given: VecDeque<Result<Reply>>,
    asked: usize,
}

impl Scripted {
    fn new(given: impl IntoIterator<Item = Result<Reply>>) -> Self {
        let profile = ModelProfile {
            provider: "openai".into(),
            model: "m".into(),
            context_tokens: 1000,
            max_output_tokens: None,
        };
        Self { profile, given: given.into_iter().collect(), asked: 0 }
    }
}

impl Llm for &mut Scripted {
    fn model(&self) -> &ModelProfile {
        &self.profile
    }

    fn probe(&mut self) -> Result<()> {
        Err(Error::host("probed"))
    }

    fn complete(&mut self, _request: &Request<'_>) -> Result<Reply> {
        self.asked += 1;
        self.given.pop_front().unwrap()
    }
}

fn good() -> Reply {
    Reply {
        content: "abcdefghijkl".into(),
        tool_calls: vec![],
        reasoning: None,
        finish: FinishReason::Ended,
        usage: None,
    }
}

thread_local! {
    static SLEPT: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
}

/// Asks once through `Retrying`; the result, how often the model was asked, and the waits.
fn retried(given: impl IntoIterator<Item = Result<Reply>>) -> (Result<Reply>, usize, Vec<Duration>) {
    let mut model = Scripted::new(given);
    let mut retrying = Retrying::with_sleep(&mut model, |wait| SLEPT.with_borrow_mut(|slept| slept.push(wait)));
    let done = asked(&mut retrying, 0);
    (done, model.asked, SLEPT.take())
}

#[test]
fn retrying_three_tries_with_growing_waits() {
    let later = || Err(Error::later("busy"));
    let (done, asked, slept) = retried([later(), later(), Ok(good())]);
    assert_eq!((done.unwrap(), asked), (good(), 3));
    let at_least = [1000, 2000];
    assert_eq!(slept.len(), 2);
    for (wait, least) in slept.iter().zip(at_least) {
        let least = Duration::from_millis(least);
        assert!((least..=least.mul_f64(1.25)).contains(wait), "{slept:?}");
    }
    let (done, asked, slept) = retried([later(), later(), Err(Error::later("still busy"))]);
    assert_eq!((done.unwrap_err().sentence(), asked, slept.len()), ("still busy", 3, 2));
    let (done, asked, slept) = retried([Ok(good())]);
    assert_eq!((done.unwrap(), asked, slept), (good(), 1, vec![]));
}

#[test]
fn retrying_waits_as_long_as_the_server_says_when_that_is_short() {
    let in_ms = |ms: u64| Err(Error::later("limit").until(clock::now_ms() + ms));
    let (done, asked, slept) = retried([in_ms(5_000), in_ms(59_000), Ok(good())]);
    assert_eq!((done.unwrap(), asked), (good(), 3));
    for (wait, most) in slept.iter().zip([5_000, 59_000]) {
        assert!(wait.as_millis() <= most && wait.as_millis() > most - 2_000, "{slept:?}");
    }
    // Long: no wait at all, the task is put off until then.
    let until_ms = clock::now_ms() + 3_600_000;
    let (done, asked, slept) = retried([Err(Error::later("limit").until(until_ms))]);
    assert_eq!((done.unwrap_err().not_before_ms(), asked, slept), (Some(until_ms), 1, vec![]));
}

#[test]
fn retrying_backs_off_where_the_named_end_is_over() {
    let over = |until_ms: u64| Err(Error::later("limit").until(until_ms));
    let (done, asked, slept) = retried([over(1), over(clock::now_ms()), Ok(good())]);
    assert_eq!((done.unwrap(), asked, slept.len()), (good(), 3, 2));
    for (wait, least) in slept.iter().zip([1000, 2000]) {
        let least = Duration::from_millis(least);
        assert!((least..=least.mul_f64(1.25)).contains(wait), "{slept:?}");
    }
}

#[test]
fn retrying_leaves_other_faults_alone() {
    for kind in [Kind::Task, Kind::Host, Kind::Bug] {
        let (done, asked, slept) = retried([Err(Error::new(kind, "no"))]);
        assert_eq!((done.unwrap_err().kind(), asked, slept), (kind, 1, vec![]));
        let (done, asked, _) = retried([Err(Error::later("busy")), Err(Error::new(kind, "no"))]);
        assert_eq!((done.unwrap_err().kind(), asked), (kind, 2));
    }
    let mut model = Scripted::new([]);
    assert_eq!(Retrying::new(&mut model).probe().unwrap_err().sentence(), "probed");
}

fn rows(dir: &tempfile::TempDir) -> Vec<String> {
    let connection = rusqlite::Connection::open(dir.path().join("tasks.db")).unwrap();
    let sql = "SELECT provider || ' ' || model || ' ' || phase || ' ' || prompt_tokens || ' ' || completion_tokens || ' ' ||
        cached_tokens || ' ' || estimated || ' ' || COALESCE(error, '-') FROM llm_calls WHERE duration_ms >= 0 ORDER BY rowid";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn ledger_has_a_row_per_call_with_reported_or_estimated_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let db = RefCell::new(TaskDb::open(&dir.path().join("tasks.db")));
    let usage = Some(Usage { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 50 });
    let call = RawToolCall { id: None, name: Some("run_".into()), arguments: Some(json!("{\"a\":12}")), extra: None };
    let mut model = Scripted::new([
        Ok(Reply { usage, ..good() }),
        Ok(good()),
        Ok(Reply { content: String::new(), tool_calls: vec![call], ..good() }),
        Err(Error::later("busy").caused_by(std::io::Error::other("a key in the cause"))),
    ]);
    let mut ledger = Ledger::new(&mut model, &db);
    assert_eq!(ledger.model().model, "m");
    for _ in 0..3 {
        asked(&mut ledger, 0).unwrap();
    }
    assert_eq!(asked(&mut ledger, 0).unwrap_err().sentence(), "busy");
    assert_eq!(
        rows(&dir),
        [
            "openai m loop 100 10 50 0 -",
            "openai m loop 3 3 0 1 -",
            "openai m loop 3 3 0 1 -",
            "openai m loop 3 0 0 1 busy"
        ]
    );
}

#[test]
fn ledger_around_retrying_has_one_row_for_all_tries() {
    let dir = tempfile::tempdir().unwrap();
    let db = RefCell::new(TaskDb::open(&dir.path().join("tasks.db")));
    let mut model = Scripted::new([Err(Error::later("busy")), Ok(good())]);
    asked(&mut Ledger::new(Retrying::with_sleep(&mut model, |_| {}), &db), 0).unwrap();
    assert_eq!(rows(&dir), ["openai m loop 3 3 0 1 -"]);
}

#[test]
fn ledger_without_a_database_fails_nothing() {
    let db = RefCell::new(TaskDb::open(std::path::Path::new("/nonexistent/tasks.db")));
    let mut model = Scripted::new([Ok(good())]);
    assert_eq!(asked(&mut Ledger::new(&mut model, &db), 0).unwrap(), good());
}

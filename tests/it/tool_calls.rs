//! Tool calls as models really send them (cases C01, C02, C03, C05), without a disk: what
//! `prepare_reply` makes of a reply. `tool_calls_in_the_loop` shows the same end to end.

use std::collections::HashSet;

use coding_agent::chat::{Message, Usage, check_history};
use coding_agent::handler::{Fate, Prepared, prepare_reply};
use coding_agent::ports::{FinishReason, RawToolCall, Reply, ToolSpec};
use coding_agent::tools::finish;
use serde_json::{Value, json};

fn specs() -> Vec<ToolSpec> {
    let spec = |name: &str, properties: Value, required: &[&str]| ToolSpec {
        wire_name: name.into(),
        description: String::new(),
        schema: json!({ "type": "object", "properties": properties, "required": required }),
    };
    vec![
        spec("list_files", json!({}), &[]),
        spec("plan", json!({ "steps": { "type": "array" }, "facts": { "type": "object" } }), &["steps"]),
        spec("write", json!({ "text": { "type": "string" }, "line": { "type": "integer" } }), &["text"]),
        finish::spec(),
    ]
}

fn raw(name: &str, arguments: impl Into<Option<Value>>) -> RawToolCall {
    RawToolCall { id: Some("call_0".into()), name: Some(name.into()), arguments: arguments.into(), extra: None }
}

fn reply(tool_calls: Vec<RawToolCall>) -> Reply {
    Reply { content: String::new(), tool_calls, reasoning: None, finish: FinishReason::Ended, usage: None }
}

/// Prepares a reply and checks what must hold for every one: valid history, one slot per call.
fn prepared(reply: Reply, max_output_tokens: Option<u64>) -> Prepared {
    let count = reply.tool_calls.len();
    let prepared = prepare_reply(reply, 7, &specs(), max_output_tokens);
    assert_eq!(prepared.calls.len(), count);
    let calls: Vec<_> = prepared.calls.iter().map(|prepared| prepared.call.clone()).collect();
    let mut history = vec![Message::assistant("text", calls.clone())];
    history.extend(calls.iter().map(|call| Message::tool_result(call, "result")));
    history.push(Message::text(coding_agent::chat::Role::User, "go on"));
    assert_eq!(check_history(&history), Ok(()));
    prepared
}

fn fate(name: &str, arguments: impl Into<Option<Value>>) -> (Fate, String) {
    let mut calls = prepared(reply(vec![raw(name, arguments)]), None).calls;
    let one = calls.remove(0);
    (one.fate, one.call.arguments)
}

#[track_caller]
fn runs_with(name: &str, arguments: impl Into<Option<Value>>, expected: &Value) {
    let (fate, stored) = fate(name, arguments);
    assert_eq!(fate, Fate::Run(expected.as_object().unwrap().clone()));
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), *expected, "what is stored is what ran");
}

#[track_caller]
fn refused(name: &str, arguments: impl Into<Option<Value>>) -> String {
    match fate(name, arguments) {
        (Fate::Refuse(why), stored) => {
            assert_eq!(stored, "{}");
            assert!(why.contains("Nothing was run") && why.contains(&format!("`{name}`")), "{why}");
            why
        }
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn c01_no_arguments_are_an_empty_object() {
    for sent in
        [Some(json!("")), None, Some(json!(null)), Some(json!("  \n")), Some(json!("null")), Some(json!("\"\""))]
    {
        runs_with("list_files", sent, &json!({}));
    }
    assert_eq!(fate("list_files", json!("")).1, "{}", "never the empty text");
}

#[test]
fn c01_an_object_encoded_twice_is_unwrapped_once() {
    runs_with("list_files", json!(r#"{"path":"a.txt"}"#), &json!({ "path": "a.txt" }));
    runs_with("list_files", json!(r#""{\"path\":\"a.txt\"}""#), &json!({ "path": "a.txt" }));
    let thrice = json!(json!(json!(r#"{"path":1}"#).to_string()).to_string());
    assert!(refused("list_files", thrice).contains("not an object"));
}

#[test]
fn c01_nested_values_are_decoded_where_the_schema_wants_it() {
    runs_with("plan", json!(r#"{"steps":"[{\"s\":1}]"}"#), &json!({ "steps": [{ "s": 1 }] }));
    runs_with("plan", json!({ "steps": [], "facts": "{\"a\":1}" }), &json!({ "steps": [], "facts": { "a": 1 } }));
    // A text that holds something else stays, and so does one the schema calls a text.
    runs_with("plan", json!({ "steps": "one, two" }), &json!({ "steps": "one, two" }));
    runs_with("plan", json!({ "steps": "{\"a\":1}" }), &json!({ "steps": "{\"a\":1}" }));
    runs_with("write", json!(r#"{"text":"[1,2]"}"#), &json!({ "text": "[1,2]" }));
    runs_with("write", json!({ "text": "7", "line": "7" }), &json!({ "text": "7", "line": 7 }));
    // Names that mean something in a JSON pointer.
    runs_with("list_files", json!({ "a/b": "[1]", "~1": "{}" }), &json!({ "a/b": "[1]", "~1": "{}" }));
}

#[test]
fn c02_broken_arguments_run_nothing_and_are_explained() {
    let why = refused("write", json!("{\"path\": a.txt}"));
    assert!(why.contains("not valid JSON (expected value at line 1 column 10)"), "{why}");
    assert!(why.contains("You sent: {\"path\": a.txt}"), "{why}");
    assert!(why.contains("\"required\":[\"text\"]"), "the schema: {why}");
    assert!(refused("write", json!("[1]")).contains("a list, not an object"));
    assert!(refused("write", json!([1])).contains("a list, not an object"));
    assert!(refused("write", json!("null")).contains("`text` is missing"));
    assert!(refused("write", json!(null)).contains("`text` is missing"));
    assert!(refused("write", json!("{}")).contains("`text` is missing"));
    assert!(refused("write", json!(7)).contains("not an object"));
    assert!(refused("write", json!("true")).contains("not an object"));
    // Two objects in a row, as some models send them, and one nested deeper than any tool wants.
    refused("list_files", json!("{}{}"));
    refused("list_files", json!(format!("{}{}", "{\"a\":".repeat(500), "}".repeat(500))));
}

#[test]
fn c02_a_long_broken_text_is_echoed_in_part() {
    for long in [json!(format!("{{\"text\": \"{}", "あ".repeat(70_000))), json!(vec!["あ".repeat(100); 700])] {
        let why = refused("write", long);
        assert!(why.len() < 1000, "{} bytes", why.len());
        assert!(why.contains("characters left out"), "{why}");
    }
}

#[test]
fn c02_a_tool_that_does_not_exist() {
    assert_eq!(fate("search_files", json!("{}")), (Fate::Unknown, "{}".into()));
    // The name as sent would be refused by a strict server for as long as it stands in the history.
    for (sent, kept) in [("functions.write", "functionswrite"), ("", "unnamed"), ("あ", "unnamed"), ("a b", "ab")] {
        let prepared = prepared(reply(vec![raw(sent, json!("{}"))]), None);
        assert_eq!(prepared.calls[0].call.name, kept);
        assert_eq!(prepared.calls[0].fate, Fate::Unknown);
    }
    let long = prepared(reply(vec![raw(&"x".repeat(200), json!("{}"))]), None);
    assert_eq!(long.calls[0].call.name.len(), 64);
}

#[test]
fn c02_valid_siblings_of_a_bad_call_run() {
    let prepared = prepared(
        reply(vec![raw("write", json!("{")), raw("list_files", json!("{}")), raw("nothing", json!("{}"))]),
        None,
    );
    assert!(matches!(prepared.calls[0].fate, Fate::Refuse(_)));
    assert!(matches!(prepared.calls[1].fate, Fate::Run(_)));
    assert_eq!(prepared.calls[2].fate, Fate::Unknown);
    assert!(!prepared.is_cut);
}

#[test]
fn c03_ids_are_ours() {
    let given = [None, Some(String::new()), Some("x".into()), Some("x".into()), Some("a b/ü".into())];
    let mut seen = HashSet::new();
    for turn in [0, 1, 2, 10, 99_999] {
        let calls = given.iter().cycle().take(200).map(|id| RawToolCall { id: id.clone(), ..raw("list_files", None) });
        for prepared in prepare_reply(reply(calls.collect()), turn, &specs(), None).calls {
            let id = prepared.call.id;
            assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
            assert!(seen.insert(id.clone()), "{id} is used twice");
        }
    }
}

#[test]
fn c03_object_arguments_and_a_call_without_a_function() {
    runs_with("list_files", json!({ "path": "a.txt" }), &json!({ "path": "a.txt" }));
    let nameless = RawToolCall { id: Some(String::new()), name: None, arguments: None, extra: None };
    let prepared = prepared(reply(vec![raw("list_files", json!({ "path": "a.txt" })), nameless]), None);
    assert!(matches!(prepared.calls[0].fate, Fate::Run(_)));
    assert_eq!(prepared.calls[0].call.arguments, r#"{"path":"a.txt"}"#);
    assert_eq!((&prepared.calls[1].fate, prepared.calls[1].call.name.as_str()), (&Fate::Unknown, "unnamed"));
}

fn used(completion_tokens: u64) -> Option<Usage> {
    Some(Usage { prompt_tokens: 10, completion_tokens, cached_tokens: 0 })
}

#[test]
fn c05_an_honest_cut_runs_nothing_though_the_arguments_parse() {
    let calls = vec![raw("list_files", json!("{}")), raw("write", json!(r#"{"text":"rm -rf build\n"}"#))];
    let prepared = prepared(Reply { finish: FinishReason::Length, ..reply(calls) }, None);
    assert!(prepared.is_cut);
    for call in prepared.calls {
        assert_eq!((call.fate, call.call.arguments.as_str()), (Fate::CutOff, "{}"));
    }
}

#[test]
fn c05_a_cut_that_is_called_tool_calls_is_known_by_the_count() {
    let cut = || vec![raw("list_files", json!("{}")), raw("write", json!(r#"{"text":"abc"#))];
    let at = |completion_tokens, limit| {
        let prepared = prepared(Reply { usage: used(completion_tokens), ..reply(cut()) }, limit);
        assert_eq!(prepared.calls.iter().all(|call| call.fate == Fate::CutOff), prepared.is_cut);
        prepared.is_cut
    };
    assert!(at(300, Some(300)));
    assert!(at(301, Some(300)));
    assert!(!at(299, Some(300)));
    assert!(!at(300, None));
    assert!(!prepared(reply(cut()), Some(300)).is_cut, "without usage nobody knows");
    // On the limit by chance, with arguments that are whole.
    let whole = Reply { usage: used(300), ..reply(vec![raw("write", json!(r#"{"text":"abc"}"#))]) };
    assert!(!prepared(whole, Some(300)).is_cut);
}

#[test]
fn c05_a_mere_syntax_error_is_no_cut() {
    let broken = Reply { usage: used(189), ..reply(vec![raw("write", json!("{\"action\": listt}"))]) };
    let prepared = prepared(broken, Some(300));
    assert!(!prepared.is_cut);
    let Fate::Refuse(why) = &prepared.calls[0].fate else { panic!("{prepared:?}") };
    assert!(why.contains("not valid JSON"), "{why}");
}

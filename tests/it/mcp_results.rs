//! What a tool of an MCP server gave, as the model sees it: case C39 and the shapes around it.

use coding_agent::tools::mcp::read_result;
use serde_json::{Value, json};

use crate::support::Random;

/// Reads a result that holds all of its text.
#[track_caller]
fn reads(result: Value, text: &str, is_error: bool) {
    let read = read_result(&result);
    assert_eq!((read.text.as_str(), read.is_error, read.whole), (text, is_error, None), "{result}");
}

#[test]
fn c39_every_shape_has_a_reading() {
    let image = "AAAA".repeat(20_000);
    let table = [
        (json!({ "content": [], "structuredContent": { "a": 1 } }), r#"{"a":1}"#.to_owned(), false),
        (json!({ "content": [], "isError": true }), "tool failed without message".into(), true),
        (
            json!({ "content": [{ "type": "image", "data": image, "mimeType": "image/png" }], "structuredContent": { "w": 1 } }),
            "[image, image/png, 60000 bytes, not shown]\n{\"w\":1}".into(),
            false,
        ),
        (json!({ "content": [{ "type": "text", "text": "boom" }], "isError": true }), "boom".into(), true),
        (json!({ "content": [{ "type": "resource_link", "uri": "file:///x" }] }), "[resource file:///x]".into(), false),
    ];
    for (result, text, is_error) in table {
        reads(result, &text, is_error);
    }
}

#[test]
fn texts_are_joined_and_hide_what_says_the_same() {
    let two = json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }]);
    reads(json!({ "content": two, "structuredContent": { "result": "one two" } }), "one\ntwo", false);
    reads(json!({ "content": [{ "type": "text", "text": " " }], "structuredContent": [1] }), " \n[1]", false);
    reads(json!({ "content": [{ "type": "text", "text": "{\"a\": 1}" }] }), "{\"a\": 1}", false);
}

#[test]
fn resources_are_shown_as_text_or_named() {
    let part = |resource: Value| json!({ "content": [{ "type": "resource", "resource": resource }] });
    reads(part(json!({ "uri": "a://b", "text": "words" })), "[resource a://b]\nwords", false);
    reads(
        part(json!({ "uri": "a://b", "blob": "AAAA", "mimeType": "application/zip" })),
        "[resource a://b, application/zip, 3 bytes, not shown]",
        false,
    );
    reads(part(json!({ "uri": "a://b" })), "[resource a://b, without content]", false);
    reads(json!({ "content": [{ "type": "resource" }] }), "[resource unknown, without content]", false);
    let link = json!({ "type": "resource_link", "uri": "a://b", "name": "n", "description": "d" });
    reads(json!({ "content": [link], "structuredContent": {} }), "[resource n a://b: d]", false);
    let audio = json!({ "type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav" });
    reads(json!({ "content": [audio] }), "[audio, audio/wav, 6 bytes, not shown]", false);
}

#[test]
fn odd_shapes_are_read_as_far_as_they_go() {
    reads(json!({}), "the tool worked and returned nothing", false);
    reads(json!({ "_meta": {} }), "the tool worked and returned nothing", false);
    reads(json!({ "content": null }), "the tool worked and returned nothing", false);
    reads(Value::Null, "the tool worked and returned nothing", false);
    reads(json!("bare"), "\"bare\"", false);
    reads(json!({ "content": "bare" }), "bare", false);
    reads(json!({ "content": { "type": "text", "text": "one" } }), "one", false);
    reads(json!({ "content": ["bare", 7, null] }), "bare\n7", false);
    reads(json!({ "content": [{ "type": "text" }] }), "the tool worked and returned nothing", false);
    reads(json!({ "content": [{ "type": "text", "text": { "a": 1 } }] }), "{\"a\":1}", false);
    reads(json!({ "content": [{ "type": "hologram" }] }), "[a part of the type `hologram`, not shown]", false);
    reads(json!({ "content": [{ "text": "no type" }] }), "{\"text\":\"no type\"}", false);
    reads(json!({ "toolResult": { "old": true } }), "{\"toolResult\":{\"old\":true}}", false);
    reads(json!({ "content": [], "isError": "true" }), "tool failed without message", true);
    reads(
        json!({ "content": [], "isError": null, "structuredContent": null }),
        "the tool worked and returned nothing",
        false,
    );
}

#[test]
fn what_a_terminal_would_act_on_is_gone_and_data_is_left_out() {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    reads(text("\u{1b}[31mred\u{1b}[0m and \u{0}"), "red and \\u{0}", false);
    let long = format!("{{\"rows\":\"{}\"}}", "x".repeat(10_000));
    reads(text(&long), &long, false);
    let uri = format!("see data:image/png;base64,{} there", "A".repeat(5_000));
    let read = read_result(&text(&uri));
    assert_eq!(read.text, "see data:image/png;base64,[… 5000 characters of data …] there");
    assert_eq!(read.whole, Some(uri));
}

#[test]
fn nothing_makes_it_stumble() {
    let mut random = Random::new(39);
    for _ in 0..2_000 {
        let result = any(&mut random, 4);
        let read = read_result(&result);
        assert!(!read.text.is_empty(), "{result}");
    }
}

/// Any JSON, with the words of results more often than chance would have them.
fn any(random: &mut Random, depth: usize) -> Value {
    const WORDS: [&str; 14] = [
        "content",
        "type",
        "text",
        "image",
        "audio",
        "resource",
        "resource_link",
        "data",
        "blob",
        "uri",
        "mimeType",
        "isError",
        "structuredContent",
        "x",
    ];
    let word = |random: &mut Random| WORDS[random.below(WORDS.len())];
    match random.below(if depth == 0 { 4 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(random.below(1000)),
        3 => json!(word(random)),
        4 => (0..random.below(4)).map(|_| any(random, depth - 1)).collect(),
        _ => {
            let object = (0..random.below(5)).map(|_| (word(random).to_owned(), any(random, depth - 1)));
            Value::Object(object.collect())
        }
    }
}

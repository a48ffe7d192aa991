//! Odd replies of chat completions servers (case C06 and its kin), and the pure parts behind them:
//! mending JSON, leaving out thinking, recognising a full window.

use coding_agent::llm::{is_overflow, is_quota};
use coding_agent::text::{parse_json, without_thinking};
use serde_json::{Value, json};

use crate::support::{Answer, FakeModel, World, finish, reply};

const BRANCH: &str = "coding-agent/issue-fix";

/// Runs a task that gets `answer` and then finishes; what the model is said to have said.
#[track_caller]
fn said(answer: Answer) -> String {
    let (world, _fake) = ran(answer);
    let history = world.history();
    history.0.iter().find(|line| line["role"] == "assistant").unwrap()["content"].as_str().unwrap().to_owned()
}

fn ran(answer: Answer) -> (World, FakeModel) {
    let fake = FakeModel::new([answer, reply(&finish("done", "Done."))]);
    let world = fake.world();
    world.run(&[]).expect(0);
    world.assert_settled();
    (world, fake)
}

/// An answer with this message alone.
fn message(message: Value) -> Answer {
    Answer::json(200, &json!({ "choices": [{ "message": message }] }))
}

#[test]
fn content_in_every_form() {
    assert_eq!(said(message(json!({ "content": "plain" }))), "plain");
    let parts = json!([{ "type": "text", "text": "in " }, { "type": "thinking", "text": "no" }, { "type": "text", "text": "parts" }]);
    assert_eq!(said(message(json!({ "content": parts }))), "in parts");
    assert_eq!(said(message(json!({ "content": null, "refusal": "I will not." }))), "I will not.");
    for nothing in
        [json!({ "content": null }), json!({}), json!({ "content": "", "tool_calls": null }), json!({ "content": [] })]
    {
        assert_eq!(said(message(nothing)), "(no answer)", "told as that, and reminded");
    }
}

#[test]
fn a_call_written_as_text_is_text_and_reminded() {
    let text = "<tool_call>{\"name\": \"finish\", \"arguments\": {}}</tool_call>";
    let (world, _fake) = ran(message(json!({ "content": text })));
    assert_eq!(world.history().0[2]["content"], text);
    assert!(world.history().0[3]["content"].as_str().unwrap().contains("You called no tool"));
}

#[test]
fn thinking_without_a_call_is_not_sent_back() {
    let answer = message(
        json!({ "content": "<think>secret plan</think>\nShort.", "reasoning_content": "secret plan", "reasoning": "secret plan" }),
    );
    let (world, fake) = ran(answer);
    assert_eq!(world.history().0[2]["content"], "Short.");
    assert!(!json!(fake.chats()).to_string().contains("secret plan"));
    assert!(!world.comments("fix").contains("secret plan"));
    assert_eq!(world.branches(), Vec::<String>::new(), "{BRANCH}");
}

#[test]
fn c06_answers_without_a_reply_are_tried_again_and_never_the_end() {
    let unusable = [
        Answer::raw(200, ""),
        Answer::raw(200, " \n"),
        Answer::raw(200, "<html>Welcome</html>"),
        Answer::raw(200, "{\"choices\":[{\"message\":{\"content\":\"cut"),
        Answer::raw(200, "[]"),
        Answer::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [] })),
        Answer::json(200, &json!({ "choices": [{ "message": null }] })),
        Answer::json(200, &json!({ "error": { "message": "overloaded", "code": 502 } })),
        Answer::json(
            200,
            &json!({ "choices": [{ "message": { "content": "" }, "error": { "code": 502 }, "finish_reason": "error" }] }),
        ),
    ];
    for answer in unusable {
        let shown = format!("{answer:?}");
        let fake = FakeModel::new([answer.clone().at_once(), answer.at_once(), reply(&finish("done", "Done."))]);
        let world = fake.world();
        world.run(&[]).expect(0);
        assert_eq!(fake.chats().len(), 3, "{shown}");
        assert_eq!(world.history().replies(), 1, "{shown}");
    }
    let overloaded = || Answer::json(200, &json!({ "error": { "message": "overloaded", "code": 502 } })).at_once();
    let fake = FakeModel::new([overloaded(), overloaded(), overloaded()]);
    let world = fake.world();
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("sent no usable reply: an error: overloaded"), "{ended:?}");
    assert!(world.read("logs/agent.log").contains("an unusable answer"), "an excerpt is in the log");
    assert_eq!(world.comments("fix"), "");
}

#[test]
fn an_error_inside_a_good_status_keeps_its_meaning() {
    let table = [
        (json!({ "code": 401, "message": "no" }), 78),
        (json!({ "code": "insufficient_quota", "message": "no" }), 75),
        (json!({ "code": 400, "message": "maximum context length is 8192 tokens" }), 1),
    ];
    for (error, code) in table {
        let fake = FakeModel::new([Answer::json(200, &json!({ "error": error }))]);
        fake.world().run(&[]).expect(code);
        assert_eq!(fake.chats().len(), 1, "{error}");
    }
}

#[test]
fn usage_missing_null_and_partial() {
    let table = [
        (json!(null), "1", None),
        (json!({}), "1", None),
        (json!({ "prompt_tokens": 10 }), "1", None),
        (json!({ "prompt_tokens": 0, "completion_tokens": 0 }), "1", None),
        (json!({ "prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": null }), "0", Some("10 2 0")),
        (json!({ "prompt_tokens": 10, "total_tokens": 12 }), "0", Some("10 2 0")),
        (
            json!({ "prompt_tokens": 10.0, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 8 } }),
            "0",
            Some("10 2 8"),
        ),
    ];
    for (usage, estimated, counts) in table {
        let answer = Answer::json(200, &json!({ "choices": [{ "message": { "content": "ok" } }], "usage": usage }));
        let (world, _fake) = ran(answer);
        let first = |sql: &str| world.query(&format!("SELECT {sql} FROM llm_calls ORDER BY rowid LIMIT 1")).remove(0);
        assert_eq!(first("estimated"), estimated, "{usage}");
        if let Some(counts) = counts {
            assert_eq!(first("prompt_tokens || ' ' || completion_tokens || ' ' || cached_tokens"), counts, "{usage}");
        } else {
            assert_ne!(first("prompt_tokens"), "0", "{usage}");
        }
    }
}

#[test]
fn tool_calls_that_are_no_list_are_none() {
    assert_eq!(said(message(json!({ "content": "x", "tool_calls": {} }))), "x");
    assert_eq!(said(message(json!({ "content": "x", "tool_calls": "none" }))), "x");
}

// The pure parts.

#[test]
fn json_is_mended_and_only_where_it_must() {
    let table: &[(&[u8], Value)] = &[
        (br#""hi \ud83c end""#, json!("hi \u{FFFD} end")),
        (br#""\ud83c\udf78""#, json!("\u{1F378}")),
        (br#""\ud83c\ud83c\udf78\udf78""#, json!("\u{FFFD}\u{1F378}\u{FFFD}")),
        (br#""\\ud83c \ud83c""#, json!("\\ud83c \u{FFFD}")),
        (br#""\"\ud83c\"""#, json!("\"\u{FFFD}\"")),
        (br#"{"\udc00":"\uD800"}"#, json!({ "\u{FFFD}": "\u{FFFD}" })),
        (b"\xEF\xBB\xBF[1]", json!([1])),
        (b"{\"a\":\n\"x\ny\tz\"}", json!({ "a": "x\ny\tz" })),
        (b"\"caf\xe9\"", json!("caf\u{FFFD}")),
        ("\"\u{1F378}\\ud83c\u{3042}\"".as_bytes(), json!("\u{1F378}\u{FFFD}\u{3042}")),
    ];
    for (bytes, expected) in table {
        assert_eq!(parse_json(bytes).unwrap(), *expected, "{}", String::from_utf8_lossy(bytes));
    }
    let broken: &[&[u8]] =
        &[b"", b"{", b"\"\\ud83c", b"\"\\ud8", b"\"\\", b"\"\\u", b"[1,]", b"\xFF", b"\\ud83c", b"\"a\nb"];
    for bytes in broken {
        assert!(parse_json(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn c16_thinking_is_left_out_in_front_and_kept_inside() {
    let table = [
        ("plain", "plain"),
        ("  two spaces stay", "  two spaces stay"),
        ("<think>a</think>\n\nb", "b"),
        ("\n<THINK lang=\"en\">a</THINK>b", "b"),
        ("<think>a</think><think>b</think> c", "c"),
        ("<think>never ends", ""),
        ("<think></think>", ""),
        ("reasons\n</think>\nanswer", "answer"),
        ("</think>\nanswer", "answer"),
        ("write `</think>` there", "write `</think>` there"),
        ("{\"text\":\"a <think>b</think> c\"}", "{\"text\":\"a <think>b</think> c\"}"),
        ("<thinking>another word</thinking>", "<thinking>another word</thinking>"),
        ("<think", "<think"),
        ("\u{3042}<think>", "\u{3042}<think>"),
        ("<thin\u{3042}", "<thin\u{3042}"),
    ];
    for (text, expected) in table {
        assert_eq!(without_thinking(text), expected, "{text}");
    }
}

#[test]
fn c13_spellings_of_overflow() {
    let overflow = [
        (400, r#"{"error":{"code":"context_length_exceeded"}}"#),
        (400, "prompt is too long: 9500 tokens > 8000 maximum"),
        (413, ""),
        (400, "request exceeds the available context size"),
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
        (422, "Input is too long for requested model."),
        (500, r#"{"error":{"code":500,"type":"exceed_context_size_error"}}"#),
        (400, "The input token count exceeds the maximum number of tokens allowed"),
        (200, r#"{"error":{"message":"Context length exceeded"}}"#),
    ];
    for (status, body) in overflow {
        assert!(is_overflow(status, body.as_bytes()), "{status} {body}");
        assert!(!is_quota(status, body.as_bytes()), "{status} {body}");
    }
    let other = [
        (429, "maximum context length, but a rate limit all the same"),
        (429, r#"{"error":{"code":"insufficient_quota"}}"#),
        (401, "context_length_exceeded"),
        (400, "'messages' is too short"),
        (500, "internal error"),
    ];
    for (status, body) in other {
        assert!(!is_overflow(status, body.as_bytes()), "{status} {body}");
    }
    assert!(is_quota(402, b"") && is_quota(429, b"Rate limit reached: requests per day (RPD)"));
    assert!(!is_quota(429, b"Rate limit reached: tokens per min (TPM)") && !is_quota(503, b"quota exceeded"));
}

#[test]
fn a_refusal_that_repeats_the_request_is_no_quota() {
    let issue =
        "allow at most 5 requests per day, a daily limit; insufficient_quota; quota exceeded; insufficient credits";
    let echoes = [
        json!({ "error": { "message": format!("Invalid 'messages[1].content': {issue}"), "code": null } }),
        json!({ "error": { "message": "bad", "type": "invalid_request_error", "param": issue, "code": 400 } }),
        json!({ "detail": [{ "msg": "bad", "input": issue }], "code": { "insufficient_quota": 1 } }),
        json!(format!("bad request: {issue}. Your credit balance is too low to access the Anthropic API")),
    ];
    for body in echoes {
        for status in [200, 400, 403] {
            assert!(!is_quota(status, body.to_string().as_bytes()), "{status} {body}");
        }
        let fake = FakeModel::new([Answer::json(400, &body).at_once()]);
        let world = fake.world();
        world.run(&[]).expect(1);
        assert!(!world.path("spool/budget.json").exists(), "nobody else waits for it: {body}");
    }
    // Outside the sentence too, where prose counts.
    let beside = json!({ "error": { "message": "slow down", "input": issue } }).to_string();
    assert!(!is_quota(429, beside.as_bytes()));
    let told = [
        json!({ "error": { "code": "insufficient_quota", "message": "no" } }),
        json!({ "error": { "type": "insufficient_quota" } }),
        json!([{ "error": { "code": "Billing_Hard_Limit_Reached" } }]),
        json!({ "error": { "message": "user quota is not enough", "code": "insufficient_user_quota" } }),
        json!({ "error": { "message": "Budget has been exceeded!", "type": "budget_exceeded", "code": "400" } }),
        json!({ "type": "error", "error": { "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing." } }),
        json!({ "error": { "message": "Key limit exceeded (daily limit). Manage it in your settings", "code": 403 } }),
    ];
    for body in told {
        for status in [400, 403, 429] {
            assert!(is_quota(status, body.to_string().as_bytes()), "{status} {body}");
        }
    }
}

#[test]
fn a_request_too_large_for_a_minute_is_an_overflow_not_a_wait() {
    let body = json!({ "error": {
        "message": "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested \
                    41210. The input or output tokens must be reduced in order to run successfully.",
        "type": "tokens", "param": null, "code": "rate_limit_exceeded",
    } });
    let per_day = body.to_string().replace("per min (TPM)", "per day (TPD)");
    for text in [body.to_string(), per_day] {
        assert!(is_overflow(429, text.as_bytes()) && !is_quota(429, text.as_bytes()), "{text}");
    }
    // Only what the server itself says.
    let beside = json!({ "error": { "message": "slow down", "input": "Request too large" } }).to_string();
    assert!(!is_overflow(429, beside.as_bytes()));
    let reached = b"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000.";
    assert!(!is_overflow(429, reached) && !is_quota(429, reached));
    // With nothing to shorten the task ends and says why, instead of waiting for a week.
    let fake = FakeModel::new([Answer::json(429, &body)]);
    let world = fake.world();
    world.run(&[]).expect(1);
    let comment = world.comments("fix");
    assert!(comment.contains("Request too large for gpt-4o") && comment.contains("Requested 41210"), "{comment}");
    assert_eq!(fake.chats().len(), 1, "not sent again as it is");
}

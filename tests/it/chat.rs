//! The token estimate of the first seed, and each rule of `check_history` broken once.

use coding_agent::chat::{Message, Role, ToolCall, check_history, estimate_tokens, is_wire_name, within_tokens};

#[test]
fn token_estimate() {
    let table: &[(&str, u64)] = &[
        ("", 0),
        ("abc", 0),
        ("abcd", 1),
        ("abcdefg", 1),
        ("abcdefgh", 2),
        // Japanese throughout, halved with integer division.
        ("日", 0),
        ("日本", 1),
        ("日本語", 1),
        ("日本語で", 2),
        // Exactly half is enough, one character less is not.
        ("日本ab", 2),
        ("日本abc", 1),
        ("日a", 1),
        ("日本語abc", 3),
        ("日本語abcd", 1),
        // Emoji and other scripts count as characters, not as bytes and not as Japanese.
        ("🦀🦀🦀🦀", 1),
        ("👩‍👩‍👧", 1),
        ("éééé", 1),
        ("한국어로", 1),
    ];
    for (text, expected) in table {
        assert_eq!(estimate_tokens(text), *expected, "{text:?}");
    }
}

#[test]
fn token_estimate_at_the_borders_of_the_japanese_ranges() {
    let table: &[(u32, bool)] = &[
        (0x2FFF, false),
        (0x3000, true),
        (0x30FF, true),
        (0x3100, false),
        (0x33FF, false),
        (0x3400, true),
        (0x9FFF, true),
        (0xA000, false),
        (0xFEFF, false),
        (0xFF00, true),
        (0xFFEF, true),
        (0xFFF0, false),
    ];
    for (code, is_japanese) in table {
        let text = char::from_u32(*code).unwrap().to_string().repeat(8);
        assert_eq!(estimate_tokens(&text), if *is_japanese { 4 } else { 2 }, "U+{code:04X}");
    }
}

#[test]
fn a_text_is_cut_to_a_number_of_tokens() {
    let mixed = format!("{}{}", "日本語".repeat(400), "words and lines\n".repeat(400));
    let texts = ["x".repeat(9000), "日本".repeat(3000), mixed.clone(), mixed.chars().rev().collect()];
    for text in &texts {
        for tokens in [0, 1, 20, 100, 1000, 1_000_000] {
            let cut = within_tokens(text, tokens, None);
            assert!(estimate_tokens(&cut) <= tokens, "{tokens}");
            assert_eq!(cut == *text, estimate_tokens(text) <= tokens);
            let said = within_tokens(text, tokens, Some("/outputs/4.txt"));
            assert!(estimate_tokens(&said) <= tokens);
            if (100..10_000).contains(&tokens) {
                assert!(said.contains("the whole is in /outputs/4.txt"), "{tokens}: {said}");
            }
        }
    }
}

#[test]
fn a_message_counts_everything_that_is_sent() {
    let call = ToolCall { id: "c00000000".into(), name: "read".into(), arguments: r#"{"a":12}"#.into(), extra: None };
    assert_eq!(Message::assistant("abcdefgh", vec![call.clone(), call.clone()]).estimated_tokens(), 2 + 2 * (1 + 2));
    assert_eq!(Message::tool_result(&call, "abcd").estimated_tokens(), 1);
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "read".into(), arguments: "{}".into(), extra: None }
}

fn asks(ids: &[&str]) -> Message {
    Message::assistant("", ids.iter().map(|id| call(id)).collect())
}

fn answers(id: &str) -> Message {
    Message::tool_result(&call(id), "text")
}

fn says(role: Role) -> Message {
    Message::text(role, "text")
}

#[test]
fn a_good_history_passes() {
    let good: &[&[Message]] = &[
        &[says(Role::User)],
        &[says(Role::System), says(Role::User)],
        &[says(Role::User), says(Role::Assistant), says(Role::User)],
        &[says(Role::User), asks(&["a", "b"]), answers("a"), answers("b")],
        &[says(Role::User), asks(&["a"]), answers("a"), asks(&["b"]), answers("b"), says(Role::User)],
        // An empty result is a result.
        &[says(Role::User), asks(&["a"]), Message::tool_result(&call("a"), "")],
    ];
    for history in good {
        assert_eq!(check_history(history), Ok(()), "{history:?}");
    }
}

#[test]
fn each_rule_of_a_history_broken_once() {
    let with = |change: fn(&mut ToolCall)| {
        let mut broken = call("a");
        change(&mut broken);
        vec![says(Role::User), Message::assistant("", vec![broken]), answers("a")]
    };
    let calling = |role: Role| Message { tool_calls: vec![call("z")], ..says(role) };
    let nameless = Message { tool_call_id: None, ..answers("a") };
    let table: Vec<(Vec<Message>, &str)> = vec![
        (vec![], "the last message must be of user or tool"),
        (vec![says(Role::System)], "the last message must be of user or tool, not Some(\"system\")"),
        (vec![says(Role::User), says(Role::Assistant)], "the last message must be of user or tool"),
        (
            vec![says(Role::User), says(Role::System), says(Role::User)],
            "message 1 (system): standing orders stand first",
        ),
        (vec![says(Role::User), asks(&["a"])], "call `a` at the end has no result"),
        (vec![says(Role::User), asks(&["a", "b"]), answers("a")], "call `b` at the end has no result"),
        (vec![says(Role::User), asks(&["a"]), says(Role::User)], "message 2 (user): call `a` has no result"),
        (vec![says(Role::User), asks(&["a"]), asks(&["b"]), answers("b")], "message 2 (assistant): call `a`"),
        (vec![says(Role::User), answers("a")], "result for `a`, which is not the next call to answer"),
        (vec![says(Role::User), asks(&["a"]), answers("b")], "result for `b`, which is not the next call"),
        (vec![says(Role::User), asks(&["a", "b"]), answers("b"), answers("a")], "result for `b`"),
        (vec![says(Role::User), asks(&["a"]), answers("a"), answers("a")], "message 3 (tool): result for `a`"),
        (vec![says(Role::User), asks(&["a"]), nameless], "a tool result without a call id"),
        (vec![calling(Role::User)], "message 0 (user): only the model calls tools"),
        (vec![calling(Role::System), says(Role::User)], "message 0 (system): only the model calls tools"),
        (
            vec![says(Role::User), asks(&["a"]), Message { tool_calls: vec![call("z")], ..answers("a") }],
            "message 2 (tool): only the model calls tools",
        ),
        (vec![says(Role::User), Message::assistant("", vec![]), says(Role::User)], "neither text nor calls"),
        (vec![says(Role::User), asks(&["a", "a"]), answers("a"), answers("a")], "call id `a` is empty or used twice"),
        (
            vec![says(Role::User), asks(&["a"]), answers("a"), asks(&["a"]), answers("a")],
            "message 3 (assistant): call id `a` is empty or used twice",
        ),
        (with(|call| call.id.clear()), "call id `` is empty or used twice"),
        (with(|call| call.arguments.clear()), "arguments of `a` are not a JSON object"),
        (with(|call| call.arguments = "[1]".into()), "arguments of `a` are not a JSON object"),
        (with(|call| call.arguments = "{\"a\":".into()), "arguments of `a` are not a JSON object"),
        (with(|call| call.name.clear()), "`` is no tool name"),
        (with(|call| call.name = "a/b".into()), "`a/b` is no tool name"),
    ];
    for (history, expected) in table {
        let told = check_history(&history).expect_err(expected);
        assert!(told.contains(expected), "{told} should say: {expected}");
    }
}

#[test]
fn wire_names() {
    for good in ["a", "A-b_9", &"x".repeat(64)] {
        assert!(is_wire_name(good), "{good}");
    }
    for bad in ["", &"x".repeat(65), "a b", "a.b", "a/b", "é", "a\n"] {
        assert!(!is_wire_name(bad), "{bad:?}");
    }
}

#[test]
fn roles_by_name() {
    for role in [Role::System, Role::User, Role::Assistant, Role::Tool] {
        assert_eq!(Role::parse(role.name()), Some(role));
    }
    assert_eq!(Role::parse("developer"), None);
}

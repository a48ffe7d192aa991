//! Quotas of models: when a server that refuses says it will answer again, and that a later start knows it.

use coding_agent::llm::quota::end_ms;
use serde_json::json;

use crate::support::{Answer, Cassette, FakeModel, KEY, MODEL, World, reply};

/// 2026-01-01T00:00:00Z.
const NOW_MS: u64 = 1_767_225_600_000;
const DAY_MS: u64 = 24 * 3_600_000;

/// Milliseconds from now until the server answers again.
fn wait_ms(headers: &[(&str, &str)], body: Option<&str>) -> Option<u64> {
    let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    end_ms(header, body.map(str::as_bytes), NOW_MS).map(|until_ms| until_ms.saturating_sub(NOW_MS))
}

#[test]
fn headers_name_the_end_of_a_wait() {
    type Case<'a> = (&'a [(&'a str, &'a str)], Option<u64>);
    let cases: &[Case<'_>] = &[
        (&[], None),
        (&[("retry-after", "20")], Some(20_000)),
        // Over already: no time at all, and the next best counts.
        (&[("retry-after", "0")], None),
        (&[("retry-after-ms", "0")], None),
        (&[("retry-after", "Thu, 01 Jan 2026 00:00:00 GMT")], None),
        (&[("retry-after", "Wed, 31 Dec 2025 23:00:00 GMT")], None),
        (&[("retry-after-ms", "0"), ("retry-after", "3")], Some(3000)),
        (&[("retry-after", "0"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225660")], Some(60_000)),
        (&[("retry-after", "1.5")], Some(1500)),
        (&[("retry-after", "Thu, 01 Jan 2026 00:01:00 GMT")], Some(60_000)),
        (&[("retry-after", "-5")], None),
        (&[("retry-after", "inf")], None),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "99999999999999999999")], Some(DAY_MS)),
        (&[("retry-after-ms", "350"), ("retry-after", "1")], Some(350)),
        // A counter tells something only when it is used up.
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")], Some(360_000)),
        (&[("x-ratelimit-remaining-requests", "7"), ("x-ratelimit-reset-requests", "6m0s")], None),
        (&[("x-ratelimit-reset-tokens", "6m0s")], None),
        (
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "120ms"),
            ],
            Some(1000),
        ),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "59")], Some(59_000)),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "49"),
                ("anthropic-ratelimit-requests-reset", "2026-01-01T02:00:00Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-01-01T00:00:30Z"),
            ],
            Some(30_000),
        ),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225660")], Some(60_000)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225660000")], Some(60_000)),
        // Over already: not a time to wait for.
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000000")], None),
        // What the server says directly is nearer than a counter that is full again.
        (
            &[("retry-after", "2"), ("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "24h0m0s")],
            Some(2000),
        ),
    ];
    for (headers, expected) in cases {
        assert_eq!(wait_ms(headers, None), *expected, "{headers:?}");
    }
}

#[test]
fn fields_of_the_body_name_the_end_of_a_wait() {
    let gemini = json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        { "@type": "type.googleapis.com/google.rpc.Help", "links": [] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s" },
    ] } });
    let openrouter = |reset: serde_json::Value| {
        json!({ "error": { "code": 429, "message": "Rate limit exceeded: free-models-per-day",
                           "metadata": { "headers": { "X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0",
                                                      "X-RateLimit-Reset": reset } } } })
    };
    let cases = [
        (gemini.clone(), Some(34_000)),
        (json!([gemini]), Some(34_000)),
        (json!({ "error": { "details": [{ "retryDelay": "34.074824224s" }] } }), Some(34_075)),
        (json!({ "error": { "details": [{ "retryDelay": 7 }, {}, "x"] } }), None),
        (openrouter(json!("1767229200000")), Some(3_600_000)),
        (openrouter(json!(1_767_229_200_000_u64)), Some(3_600_000)),
        (openrouter(json!("4102444800000")), Some(DAY_MS)),
        (openrouter(json!("1")), Some(1000)),
        (openrouter(json!("1700000000000")), None),
        (json!({ "error": { "message": "slow down", "retry_after": 12.5 } }), Some(12_500)),
        (json!({ "retry_after": 3 }), Some(3000)),
        (json!({ "error": "no" }), None),
        (json!([]), None),
    ];
    for (body, expected) in cases {
        assert_eq!(wait_ms(&[], Some(&body.to_string())), expected, "{body}");
    }
}

#[test]
fn prose_names_the_end_of_a_wait() {
    let long = "Rate limit reached for model `m` in organization `org_0123456789` service tier `on_demand` on tokens \
                per minute (TPM): Limit 6000, Used 5820, Requested 2049. Please try again in 18.69s. Need more \
                tokens? Upgrade to Dev Tier today at https://example.org/settings/billing";
    let cases = [
        (long, Some(18_690)),
        ("Please try again in 6m23.5s.", Some(383_500)),
        ("Rate limit reached. Please try again in 20s. Visit https://example.org to learn more.", Some(20_000)),
        ("Rate limit, try again in 1h2m", Some(3_720_000)),
        ("Please try again in 120ms", Some(120)),
        ("Please retry after 34 seconds.", Some(34_000)),
        ("Please retry in 1 hour and 5 minutes", Some(3_900_000)),
        ("You must wait 5 minutes", Some(300_000)),
        ("Quota will reset after 2h13m5s.", Some(7_985_000)),
        ("TRY AGAIN IN 2 MIN", Some(120_000)),
        ("try again in 3 days", Some(DAY_MS)),
        ("Your limit resets at 2026-01-01T03:00:00Z.", Some(10_800_000)),
        ("Your limit resets at 2026-01-01T04:00:00+01:00, sorry", Some(10_800_000)),
        ("resets at 2026-01-01 03:00:00 UTC", Some(10_800_000)),
        ("resets at 2099-01-01T00:00:00Z", Some(DAY_MS)),
        ("resets at 2020-01-01T00:00:00Z", None),
        ("Reset at: 1767225660", Some(60_000)),
        ("制限を超えました。Please try again in 2s。", Some(2000)),
        ("Please try again later", None),
        ("Please try again in a while", None),
        ("try again in 5", None),
        ("wait", None),
        ("try again in 1.2.3s", None),
        ("", None),
    ];
    for (text, expected) in cases {
        let body = json!({ "error": { "message": text } }).to_string();
        assert_eq!(wait_ms(&[], Some(&body)), expected, "{text:?}");
        assert_eq!(wait_ms(&[], Some(text)), expected, "{text:?} as plain text");
    }
    assert_eq!(wait_ms(&[], Some("<html>try again in 5 minutes</html>")), None, "a page of a proxy");
}

#[test]
fn points_in_time_are_those_of_the_servers_clock() {
    // The server's clock is two hours behind ours, then an hour ahead.
    for (date, reset, text) in [
        ("Wed, 31 Dec 2025 22:00:00 GMT", 1_767_218_460_u64, "2025-12-31T22:01:00Z"),
        ("Thu, 01 Jan 2026 01:00:00 GMT", 1_767_229_260, "2026-01-01T01:01:00Z"),
    ] {
        let counter = reset.to_string();
        let headers: &[(&str, &str)] = &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &counter)];
        let anthropic: &[(&str, &str)] =
            &[("anthropic-ratelimit-tokens-remaining", "0"), ("anthropic-ratelimit-tokens-reset", text)];
        let minute_later = date.replace(":00:00 GMT", ":01:00 GMT");
        for named in [headers, anthropic, &[("retry-after", &minute_later)], &[("retry-after", "60")]] {
            let with_date: Vec<_> = named.iter().copied().chain([("date", date)]).collect();
            assert_eq!(wait_ms(&with_date, None), Some(60_000), "{with_date:?}");
        }
        let openrouter = json!({ "error": { "metadata": { "headers": { "X-RateLimit-Reset": reset * 1000 } } } });
        assert_eq!(wait_ms(&[("date", date)], Some(&openrouter.to_string())), Some(60_000));
        assert_eq!(wait_ms(&[("date", date)], Some(&format!("Your limit resets at {text}"))), Some(60_000));
        assert_eq!(wait_ms(&[("date", date)], Some("try again in 1m")), Some(60_000));
    }
    // A date that is none, and one that differs by the way the answer took.
    for date in ["yesterday", "Wed, 31 Dec 2025 23:59:59 GMT"] {
        let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225660"), ("date", date)];
        assert_eq!(wait_ms(&headers, None), Some(60_000), "{date}");
    }
}

#[test]
fn property_no_text_is_too_strange() {
    let pieces =
        ["try again in ", "resets at ", "9", "99999999999999999999", ".", "m", "s", " and ", "-", "あ", "T", ":"];
    let mut random = crate::support::Random::new(7);
    for _ in 0..2000 {
        let text: String = (0..random.below(9)).map(|_| pieces[random.below(pieces.len())]).collect();
        let found = wait_ms(&[("retry-after", &text), ("date", "Wed, 31 Dec 2025 22:00:00 GMT")], Some(&text));
        assert!(found.is_none_or(|wait| wait <= DAY_MS), "{text:?}: {found:?}");
    }
}

/// A model that refuses like this once, in a world with the issue `fix`.
fn refusing(answer: Answer) -> (FakeModel, World) {
    let fake = FakeModel::new([answer]);
    let world = fake.world();
    (fake, world)
}

fn limit(words: &str) -> Answer {
    Answer::json(429, &json!({ "error": { "message": words, "type": "rate_limit" } }))
}

#[test]
fn a_known_quota_ends_later_starts_before_the_first_claim() {
    let (fake, world) = refusing(limit("Rate limit reached. Please try again in 2h0m0s."));
    let before_ms = coding_agent::sys::clock::now_ms();
    world.run(&[]).expect(75);
    let due_ms: u64 = world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap();
    assert!((before_ms + 7_200_000..before_ms + 7_300_000).contains(&due_ms), "{due_ms}");
    world.issue("other", "coding agent");
    let asked = fake.requests().len();
    for _ in 0..2 {
        let ended = world.run(&[]).expect(75);
        assert_eq!(ended.stderr, "", "it was told when it was met");
    }
    assert_eq!(fake.requests().len(), asked, "nobody was asked");
    let queued = world.names("spool/queue");
    assert!(queued.len() == 1 && queued[0].ends_with(".a0.json"), "queued, not claimed: {queued:?}");
    assert!(world.read("logs/agent.log").contains("what waits stays queued: no request to"));
    // Status tells it too.
    let text = world.run(&["status"]).expect(0).stdout;
    let line = format!("Limit: no request to `{}` for `{MODEL}` before ", fake.base_url());
    assert!(text.lines().any(|found| found.starts_with(&line)), "{text}");
    let report: serde_json::Value = serde_json::from_str(&world.run(&["status", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(report["waits"][0]["server"], fake.base_url());
    assert_eq!(report["waits"][0]["model"], MODEL);
    assert!(report["waits"][0]["reason"].as_str().unwrap().contains("try again in 2h"), "{report}");
    // It ends.
    fake.then(Cassette::new().finishes("x").finishes("y").lines().iter().map(reply));
    world.pass_time();
    world.run(&[]).expect(0);
    world.assert_settled();
}

#[test]
fn another_key_is_not_held_back() {
    let (fake, mut world) = refusing(limit("try again in 2 hours"));
    world.run(&[]).expect(75);
    world.issue("other", "coding agent");
    let asked = fake.requests().len();
    world.run(&[]).expect(75);
    assert_eq!(fake.requests().len(), asked);
    fake.wants_key("sk-of-somebody-else");
    world.set_env("OPENAI_API_KEY", "sk-of-somebody-else");
    fake.then(Cassette::new().finishes("x").lines().iter().map(reply));
    world.run(&[]).expect(0);
    assert_eq!(fake.requests().len(), asked + 2, "the probe and a reply");
    assert_eq!(world.labels("other"), ["coding agent done"]);
    let budget = world.read("spool/budget.json");
    assert!(!budget.contains(KEY) && !budget.contains("sk-of-somebody-else"), "{budget}");
}

#[test]
fn what_has_to_be_paid_for_ends_at_no_time_that_a_server_names() {
    for (body, least_ms, most_ms) in [
        (
            json!({ "message": "You exceeded your current quota, please check your plan", "code": "insufficient_quota" }),
            3_600_000,
            3_700_000,
        ),
        (json!({ "message": "insufficient credits, try again in 20s" }), 3_600_000, 3_700_000),
        // Gemini says the same words about its limit per minute.
        (
            json!({ "message": "You exceeded your current quota, please check your plan", "details": [{ "retryDelay": "134s" }] }),
            134_000,
            200_000,
        ),
    ] {
        let (_fake, world) = refusing(Answer::json(429, &json!({ "error": body })));
        let before_ms = coding_agent::sys::clock::now_ms();
        world.run(&[]).expect(75);
        let due_ms: u64 = world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap();
        let wait_ms = due_ms - before_ms;
        assert!((least_ms..most_ms).contains(&wait_ms), "{body}: {wait_ms}");
    }
}

#[test]
fn words_in_an_answer_without_a_reply_name_no_time() {
    let (fake, world) = refusing(Answer::raw(200, "You should wait 5 hours before you deploy"));
    fake.then([Answer::raw(200, "wait 5 hours"), Answer::raw(200, "wait 5 hours")]);
    let before_ms = coding_agent::sys::clock::now_ms();
    world.run(&[]).expect(75);
    let due_ms: u64 = world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap();
    assert!(due_ms - before_ms < 3_600_000, "the usual back-off: {}", due_ms - before_ms);
}

#[test]
fn a_retry_after_that_is_over_backs_off_like_none() {
    for header in ["0", "Sat, 01 Jan 2000 00:00:00 GMT"] {
        let busy = || Answer::json(503, &json!({ "error": "busy" })).header("retry-after", header);
        let (fake, world) = refusing(busy());
        fake.then([busy(), busy()]);
        let before_ms = coding_agent::sys::clock::now_ms();
        world.run(&[]).expect(75);
        assert_eq!(fake.chats().len(), 3, "three tries");
        let log = world.read("logs/agent.log");
        let waits: Vec<u64> = log
            .lines()
            .filter_map(|line| line.split_once("trying again in ")?.1.split_once(" ms")?.0.parse().ok())
            .collect();
        assert!(waits.len() == 2 && waits[0] >= 1000 && waits[1] >= 2000, "{header}: {waits:?}");
        let due_ms: u64 = world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap();
        assert!(due_ms >= before_ms + 300_000, "{header}: parked for {}", due_ms - before_ms);
        let parking = std::fs::read_to_string(world.context("running").join("parking.json")).unwrap();
        assert!(parking.contains("\"count\":1"), "a failure like any other: {parking}");
    }
}

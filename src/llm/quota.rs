//! When a server that refuses us will answer again: read from headers, from the body's fields, and from
//! its prose. The spellings of many servers are gathered here. Pure.

use serde_json::Value;

use crate::sys::clock;
use crate::text::{parse_json, server_sentence};

/// Servers that name a later time are asked again after this all the same.
const LONGEST_WAIT_MS: u64 = 24 * 3_600_000;

/// Phrases in front of a length of time.
const IN: &[&str] = &[
    "try again in",
    "try again after",
    "retry in",
    "retry after",
    "again in",
    "resets in",
    "reset in",
    "reset after",
    "wait for",
    "wait",
];
/// Phrases in front of a point in time.
const AT: &[&str] =
    &["try again at", "retry at", "resets at", "reset at", "resets on", "will reset at", "available at"];

/// The earliest time at which asking again makes sense, in milliseconds since the epoch, at most a day
/// from now; `None` where the server names none. `header` looks up a header in lower case; `body` is that
/// of a refusal, and `None` where it may be a model's words.
///
/// In order: `retry-after-ms` (Azure OpenAI) and `Retry-After`, in seconds or as a date (RFC 9110, section
/// 10.2.3); fields of the body; its prose; the resets of those counters that are used up. A reset says when
/// a counter is full again, which is later than when it lets one request through, so it comes last. An end that
/// is over already says nothing. Points in time are those of the server's clock, which its `Date` shows.
pub fn end_ms<'a>(header: impl Fn(&str) -> Option<&'a str>, body: Option<&[u8]>, now_ms: u64) -> Option<u64> {
    let there_ms = clock::server_now_ms(header("date"), now_ms);
    let until_ms = end_there_ms(header, body, there_ms)?;
    Some(now_ms.saturating_add((until_ms - there_ms).min(LONGEST_WAIT_MS)))
}

/// The same by the server's clock, which shows `now_ms`.
fn end_there_ms<'a>(header: impl Fn(&str) -> Option<&'a str>, body: Option<&[u8]>, now_ms: u64) -> Option<u64> {
    let is_ahead = |at_ms: &u64| *at_ms > now_ms;
    let after = |factor: f64| {
        move |text: &str| {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
            Some(now_ms.saturating_add((number * factor) as u64))
        }
    };
    let exact = || header("retry-after-ms").and_then(after(1.0));
    let usual = || {
        let text = header("retry-after")?;
        after(1000.0)(text).or_else(|| clock::parse_http_date(text))
    };
    let told = || {
        let body = body?;
        let fields = parse_json(body).ok().and_then(|value| in_fields(&value, now_ms));
        fields.filter(is_ahead).or_else(|| in_prose(&server_sentence(body), now_ms).filter(is_ahead))
    };
    let named = exact().filter(is_ahead).or_else(|| usual().filter(is_ahead)).or_else(told);
    named.or_else(|| in_counters(&header, now_ms))
}

/// Gemini's `RetryInfo` (`google.rpc.RetryInfo`: `retryDelay: "34s"`), OpenRouter's
/// `error.metadata.headers`, and plain `retry_after` in seconds.
fn in_fields(body: &Value, now_ms: u64) -> Option<u64> {
    let error = body.pointer("/0/error").or_else(|| body.get("error")).unwrap_or(body);
    let details = error.get("details").and_then(Value::as_array);
    let delay = details.into_iter().flatten().find_map(|detail| detail.get("retryDelay")?.as_str());
    if let Some(wait_ms) = delay.and_then(length_ms) {
        return Some(now_ms.saturating_add(wait_ms));
    }
    let headers = error.pointer("/metadata/headers").and_then(Value::as_object);
    let reset = headers.into_iter().flatten().find(|(name, _)| name.eq_ignore_ascii_case("x-ratelimit-reset"));
    let reset_ms = reset.and_then(|(_, value)| time_ms(&text_of(value), now_ms));
    if let Some(at_ms) = reset_ms.filter(|at_ms| *at_ms > now_ms) {
        return Some(at_ms);
    }
    let seconds = ["retry_after", "retry_after_seconds"].iter().find_map(|name| error.get(name)?.as_f64());
    let seconds = seconds.filter(|seconds| *seconds >= 0.0)?;
    Some(now_ms.saturating_add((seconds * 1000.0) as u64))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// "Please try again in 6m23.5s", "retry after 34 seconds", "resets at 2026-01-01T00:00:00Z".
fn in_prose(text: &str, now_ms: u64) -> Option<u64> {
    // In lower case byte for byte, so that places stay the same.
    let plain = text.to_ascii_lowercase();
    let after =
        |phrase: &&str| plain.find(phrase).map(|at| plain[at + phrase.len()..].trim_start_matches([' ', ':', '~']));
    let length = || IN.iter().filter_map(after).find_map(length_ms).map(|wait_ms| now_ms.saturating_add(wait_ms));
    let at = AT.iter().filter_map(after).find_map(|rest| time_ms(&rest.to_ascii_uppercase(), now_ms));
    at.filter(|at_ms| *at_ms > now_ms).or_else(length)
}

/// Counters of OpenAI and Groq (`x-ratelimit-reset-requests: 6m0s`), Anthropic
/// (`anthropic-ratelimit-tokens-reset`, a time), and gateways (`x-ratelimit-reset`, a time): the last reset
/// of those of which nothing is left.
fn in_counters<'a>(header: &impl Fn(&str) -> Option<&'a str>, now_ms: u64) -> Option<u64> {
    let openai =
        ["requests", "tokens"].map(|name| ("x-ratelimit", format!("reset-{name}"), format!("remaining-{name}")));
    let anthropic = ["requests", "tokens", "input-tokens", "output-tokens"]
        .map(|name| ("anthropic-ratelimit", format!("{name}-reset"), format!("{name}-remaining")));
    let gateway = [("x-ratelimit", "reset".to_owned(), "remaining".to_owned())];
    let used_up = openai.into_iter().chain(anthropic).chain(gateway).filter_map(|(family, reset, remaining)| {
        let left = header(&format!("{family}-{remaining}"))?.trim();
        let text = header(&format!("{family}-{reset}"))?.trim();
        let at_ms = length_ms(text).map(|wait_ms| now_ms.saturating_add(wait_ms)).or_else(|| time_ms(text, now_ms))?;
        (left == "0").then_some(at_ms)
    });
    used_up.max().filter(|at_ms| *at_ms > now_ms)
}

/// A point in time at the beginning of `text`: RFC 3339, with a space in it too, or seconds or milliseconds
/// since the epoch, or a small number of seconds from now.
fn time_ms(text: &str, now_ms: u64) -> Option<u64> {
    let number: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    if number.len() == text.trim_end().len() {
        let number = number.parse::<f64>().ok().filter(|number| number.is_finite())?;
        return Some(match number {
            0.0..1e9 => now_ms.saturating_add((number * 1000.0) as u64),
            1e9..1e11 => (number * 1000.0) as u64,
            _ => number as u64,
        });
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || "-:.+TZ ".contains(c))).unwrap_or(text.len());
    let text = text[..end].trim_end_matches([' ', '.', ':', '-', '+']);
    clock::parse_time_loosely(text.strip_suffix(" Z").unwrap_or(text))
}

/// A length of time at the beginning of `text`, with units: `6m23.5s`, `1h2m`, `120ms`, `34 seconds`,
/// `1 hour and 5 minutes`.
fn length_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim_start();
    let mut sum = None;
    loop {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        let word = rest[digits..].trim_start_matches([' ', '-']);
        let letters = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        let Some(unit_ms) = unit_ms(&word[..letters]) else { break };
        sum = Some(sum.unwrap_or(0.0) + number * unit_ms);
        rest = word[letters..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start();
    }
    // Rounded up: a moment too early is too early.
    sum.filter(|sum| sum.is_finite()).map(|sum| sum.ceil() as u64)
}

fn unit_ms(word: &str) -> Option<f64> {
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        _ => return None,
    })
}

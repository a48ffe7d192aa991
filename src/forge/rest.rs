//! What clients of REST APIs share, whatever the forge: patience with passing faults, the next page
//! of a list, writes that must not happen twice. Knows no forge.

use std::time::Duration;

use crate::budget::RateLimit;
use crate::error::{Error, Kind, Result};
use crate::ports::{COMMENT_MARK, Finding};
use crate::sys::http::origin;
use crate::sys::{clock, signal};
use crate::text::counted;

/// Tries of one request in all, where it may be repeated.
pub const TRIES: u32 = 4;
/// An answer larger than this is none of a forge's.
pub const MOST_BODY_BYTES: u64 = 64 << 20;
/// Pages of one list; with 100 items each nobody has more.
pub const MOST_PAGES: usize = 1000;
/// A server that names a later time is asked again after this all the same.
const LONGEST_WAIT_MS: u64 = 24 * 3_600_000;
/// How long the answer to "who am I" holds; a refused token ends it.
pub const IDENTITY_GOOD_FOR_MS: u64 = 24 * 3_600_000;
/// A longer wait ends the pass instead.
const LONGEST_SLEEP_MS: u64 = 60_000;
/// Tries of a write that is looked up in between.
const WRITE_TRIES: u32 = 3;

/// Repeats after passing faults, `tries` in all; short waits for a limit do not count.
///
/// # Errors
/// That of the last try.
pub fn patiently<T>(tries: u32, send: impl Fn() -> Result<T>) -> Result<T> {
    let (mut tried, mut waited) = (1, 0);
    loop {
        let error = match send() {
            Err(error) if error.kind() == Kind::Later && !signal::termination_requested() => error,
            done => return done,
        };
        let now_ms = clock::now_ms();
        let wait_ms = match error.not_before_ms().filter(|until_ms| *until_ms > now_ms) {
            Some(until_ms) => {
                waited += 1;
                until_ms - now_ms
            }
            None => {
                tried += 1;
                let backoff = 500 << tried;
                backoff + now_ms % (backoff / 4)
            }
        };
        if tried > tries || waited > 3 || wait_ms > LONGEST_SLEEP_MS {
            return Err(error);
        }
        log::info!("{error:#}; trying again in {wait_ms} ms");
        clock::sleep(Duration::from_millis(wait_ms));
        // A signal ends the sleep; nobody waits for another answer then.
        if signal::termination_requested() {
            return Err(error);
        }
    }
}

/// A write that must not happen twice: after an answer we did not get, `look` says whether it did.
///
/// # Errors
/// As `write` and `look`.
pub fn write_once<T>(write: impl Fn() -> Result<T>, look: impl Fn() -> Result<Option<T>>) -> Result<T> {
    let mut tried = 1;
    loop {
        let error = match write() {
            Err(error) if error.kind() == Kind::Later && error.not_before_ms().is_none() => error,
            done => return done,
        };
        // First the wait: a server that is still at it would not show it yet.
        clock::sleep(Duration::from_secs(1 << tried));
        if let Some(found) = look()? {
            log::info!("{error}, but it took effect");
            return Ok(found);
        }
        if tried == WRITE_TRIES || signal::termination_requested() {
            return Err(error);
        }
        tried += 1;
    }
}

/// A time of a server's clock by ours, both in milliseconds since the epoch; `header` is that of the answer that
/// names it.
pub fn by_our_clock<'a>(at_ms: u64, header: impl Fn(&str) -> Option<&'a str>, now_ms: u64) -> u64 {
    at_ms.saturating_sub(clock::server_now_ms(header("date"), now_ms)).saturating_add(now_ms)
}

/// What is left of a limit, by the headers `limit`, `remaining` and `reset`, whatever stands before these words.
pub fn limit_left<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<RateLimit> {
    let number = |what: &str| header(what)?.trim().parse::<u64>().ok();
    Some(RateLimit {
        limit: number("limit").unwrap_or(0),
        remaining: number("remaining")?,
        reset_ms: number("reset")?.saturating_mul(1000),
    })
}

/// When a server that refuses for a limit may be asked again, by our clock: after `Retry-After`, else at the reset
/// it names (in seconds), else after `otherwise_ms`; at most a day from now.
pub fn limit_end_ms<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    reset_seconds: Option<u64>,
    otherwise_ms: u64,
) -> u64 {
    let now_ms = clock::now_ms();
    let reset_ms = || {
        let at_ms = reset_seconds?.saturating_mul(1000);
        Some(by_our_clock(at_ms, &header, now_ms)).filter(|until_ms| *until_ms > now_ms)
    };
    let until_ms = retry_after_ms(&header, now_ms).or_else(reset_ms).unwrap_or(now_ms + otherwise_ms);
    until_ms.min(now_ms + LONGEST_WAIT_MS)
}

/// The end that `Retry-After` names, by our clock: seconds, or a date (RFC 9110, section 10.2.3). `None` where it
/// is over already, which says nothing.
fn retry_after_ms<'a>(header: impl Fn(&str) -> Option<&'a str>, now_ms: u64) -> Option<u64> {
    let text = header("retry-after")?.trim();
    let seconds = text.parse::<u64>().ok().map(|seconds| now_ms.saturating_add(seconds.saturating_mul(1000)));
    let date = || Some(by_our_clock(clock::parse_http_date(text)?, &header, now_ms));
    seconds.or_else(date).filter(|until_ms| *until_ms > now_ms)
}

/// The hidden line by which one of our comments is known again, the last of its kind in `body`.
pub fn marker(body: &str) -> Option<&str> {
    body.lines().rfind(|line| line.starts_with(COMMENT_MARK))
}

/// The URL of `rel="next"` in a Link header (RFC 8288); parameters in any order.
pub fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| {
            parameter.trim().split_once('=').is_some_and(|(name, value)| {
                name.trim() == "rel" && value.trim().trim_matches('"').split(' ').any(|rel| rel == "next")
            })
        });
        is_next.then_some(url)
    })
}

/// The next page of a list is on another host, which must not get our token.
pub fn elsewhere(what: &str, url: &str) -> Error {
    Error::task(format!("{what}: the next page is on another host, `{}`", origin(url)))
}

/// Whether a body may be JSON, whole or broken off; every answer of an API is. What a web server has for people
/// is not.
pub fn may_be_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_none_or(|first| matches!(first, b'{' | b'['))
}

/// Another server than the API stands at `base`; `shape` is how the address of `product` looks at one's own host.
pub fn not_the_api(base: &str, product: &str, setting: &str, shape: &str) -> Error {
    Error::host(format!("`{base}` is not the address of {product}'s API"))
        .hint(format!("set {setting}; of a server of your own it is {shape}"))
}

/// The path of a URL, for messages.
pub fn path_of(url: &str) -> &str {
    let path = &url[origin(url).len()..];
    path.split('?').next().unwrap_or(path)
}

/// Repositories that are looked at one by one when the surroundings are examined.
pub const MOST_EXAMINED: usize = 30;
/// A token that expires within this time is worth a word.
const EXPIRES_SOON_MS: u64 = 30 * 24 * 3_600_000;

/// That some of `count` repositories were not looked at.
pub fn left_out(count: usize) -> Option<Finding> {
    let more = count.checked_sub(MOST_EXAMINED).filter(|more| *more > 0)?;
    Some(Finding::skipped("other repositories", format!("{more} more are not looked at here")))
}

/// A token that is good otherwise, with its end, in milliseconds since the epoch.
pub fn expiry(name: &str, about: String, until_ms: Option<u64>, remedy: &str) -> Finding {
    let Some(until_ms) = until_ms else { return Finding::good(name, about) };
    let left_ms = until_ms.saturating_sub(clock::now_ms());
    let day = clock::rfc3339(until_ms).chars().take(10).collect::<String>();
    if left_ms < EXPIRES_SOON_MS {
        let left = counted(left_ms / (24 * 3_600_000), "day");
        return Finding::warning(name, format!("{about}; it expires in {left}"), remedy);
    }
    Finding::good(name, format!("{about}; it expires on {day}"))
}

/// What is left of a rate limit, by the headers `limit`, `remaining` and `reset`; `None` where there is none.
pub fn rate_limit<'a>(name: &str, header: impl Fn(&str) -> Option<&'a str>) -> Option<Finding> {
    let number = |what: &str| header(what)?.trim().parse::<u64>().ok();
    let (limit, left) = (number("limit")?, number("remaining")?);
    let until = number("reset").map(|seconds| format!(" until {}", clock::rfc3339(seconds.saturating_mul(1000))));
    let finding = format!("{left} of {limit} requests are left{}", until.unwrap_or_default());
    if left < limit / 10 {
        return Some(Finding::warning(name, finding, "see what else uses this token; start the agent less often"));
    }
    Some(Finding::good(name, finding))
}

//! Wall-clock time in the two forms we store, and sleeping.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};

/// Now, in milliseconds since the epoch; 0 on a clock before 1970.
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// Now as RFC 3339 in UTC with seconds: `2024-12-07T03:00:00+00:00`.
pub fn now_rfc3339() -> String {
    rfc3339(now_ms())
}

/// `ms` since the epoch as RFC 3339 in UTC with seconds.
pub fn rfc3339(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(DateTime::<Utc>::from_timestamp_millis).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Secs, false)
}

/// Reads an RFC 3339 time as milliseconds since the epoch.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    DateTime::parse_from_rfc3339(text).ok().and_then(|at| u64::try_from(at.timestamp_millis()).ok())
}

/// As [`parse_rfc3339`], also for a time without a zone, which counts as UTC, and with a space for the `T`.
pub fn parse_time_loosely(text: &str) -> Option<u64> {
    let text = text.trim();
    let without_zone = || {
        let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
        let at = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?;
        u64::try_from(at.and_utc().timestamp_millis()).ok()
    };
    parse_rfc3339(text).or_else(without_zone)
}

/// Reads the date of an HTTP header (RFC 9110, section 5.6.7: `Sun, 06 Nov 1994 08:49:37 GMT`) as
/// milliseconds since the epoch.
pub fn parse_http_date(text: &str) -> Option<u64> {
    DateTime::parse_from_rfc2822(text.trim()).ok().and_then(|at| u64::try_from(at.timestamp_millis()).ok())
}

/// What a server's clock showed when an answer came at `now_ms`: the `Date` of the answer, where it gives one.
/// That has whole seconds and was on its way, so clocks within two seconds are taken to agree.
pub fn server_now_ms(date: Option<&str>, now_ms: u64) -> u64 {
    const AGREE_WITHIN_MS: u64 = 2000;
    let there_ms = date.and_then(parse_http_date).unwrap_or(now_ms);
    if there_ms.abs_diff(now_ms) <= AGREE_WITHIN_MS { now_ms } else { there_ms }
}

/// Sleeps, or until a signal asks us to end.
pub fn sleep(duration: Duration) {
    const SLICE: Duration = Duration::from_millis(200);
    let end = std::time::Instant::now() + duration;
    while super::fault::sleeps() && !super::signal::termination_requested() {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(SLICE));
    }
}

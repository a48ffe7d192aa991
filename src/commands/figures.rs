//! Costs and durations, as `status` and `show` write them.

use serde_json::{Value, json};

use crate::context::Cost;

/// A duration for people: `17 ms`, `3.2 s`, `4 min 5 s`, `2 h 3 min`.
pub fn duration_text(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A cost for people. Without `has_times` nobody knows how long the calls took.
pub fn cost_text(cost: &Cost, has_times: bool) -> String {
    let mut text = format!("{} {}", cost.calls, if cost.calls == 1 { "call" } else { "calls" });
    if cost.failed_calls > 0 {
        text.push_str(&format!(" ({} failed)", cost.failed_calls));
    }
    let (prompt, cached, completion) = (cost.prompt_tokens, cost.cached_tokens, cost.completion_tokens);
    text.push_str(&format!(", {prompt} tokens in ({cached} cached), {completion} out"));
    if has_times {
        if cost.estimated_calls > 0 {
            text.push_str(&format!(" (estimated for {})", cost.estimated_calls));
        }
        text.push_str(&format!(", {}", duration_text(cost.model_ms)));
    } else if cost.estimated_calls > 0 {
        text.push_str(&format!(" (not told for {})", cost.estimated_calls));
    }
    text
}

/// A cost for scripts.
pub fn cost_json(cost: &Cost) -> Value {
    json!({
        "calls": cost.calls,
        "failed_calls": cost.failed_calls,
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "cached_tokens": cost.cached_tokens,
        "estimated_calls": cost.estimated_calls,
        "model_ms": cost.model_ms,
    })
}

//! What servers say in the bodies of refusals. Knows no API.

use serde_json::Value;

use super::json::parse_json;

/// Longest part of a server's own words that is passed on.
const LONGEST_WORDS_CHARS: usize = 200;

/// What the server said, short enough to be passed on, as `: words`; empty when it said nothing a
/// person could read.
pub fn server_words(body: &[u8]) -> String {
    let said = server_sentence(body);
    let words: String =
        said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_WORDS_CHARS).collect();
    let words = words.trim_end_matches('.');
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

/// What the server said, whole. Known forms: `{"error": {"message"}}` (OpenAI, JSON-RPC; from Gemini in a
/// list), `{"error": "…"}`, vLLM's `{"message"}`, FastAPI's `{"detail"}`, and plain text. A page of HTML is none.
pub fn server_sentence(body: &[u8]) -> String {
    let said = match parse_json(body) {
        Ok(Value::String(text)) => Some(text),
        Ok(value) => {
            let places = ["/error/message", "/0/error/message", "/error", "/message", "/detail", "/detail/0/msg"];
            places.iter().find_map(|place| value.pointer(place)?.as_str().map(str::to_owned))
        }
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            (!text.trim_start().starts_with(['<', '{', '['])).then(|| text.into_owned())
        }
    };
    said.unwrap_or_default()
}

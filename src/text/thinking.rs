//! The thinking that some models write in front of their answer. It is no part of the answer: it is
//! never acted on, posted, or sent back (cases C08, C16).

/// `text` without the thinking in front of it: leading `<think …>…</think>` blocks, in any case.
/// A block that never ends is thinking to the end. A closing tag alone on its line, with no opening
/// one before it, ends thinking whose opening tag the server's template had already written. Tags
/// further inside are the answer's own words and stay.
pub fn without_thinking(text: &str) -> &str {
    split_thinking(text).1
}

/// The thinking in front of an answer, tags included, and the answer, as [`without_thinking`] cuts it.
pub fn split_thinking(text: &str) -> (&str, &str) {
    let mut rest = text;
    while let Some(length) = thinking_at_start(rest.trim_start()) {
        rest = &rest.trim_start()[length..];
    }
    if rest.len() == text.len() {
        rest = after_lone_closing_tag(text).unwrap_or(text);
    }
    if rest.len() == text.len() { ("", text) } else { (text[..text.len() - rest.len()].trim(), rest.trim_start()) }
}

/// Bytes of the block of thinking that `text` begins with; one that never ends reaches to the end.
pub(super) fn thinking_at_start(text: &str) -> Option<usize> {
    let inside = after_opening_tag(text)?;
    let end = find(inside, "</think>").map_or(inside.len(), |at| at + "</think>".len());
    Some(text.len() - inside.len() + end)
}

fn after_opening_tag(text: &str) -> Option<&str> {
    let named = text.get(..6).filter(|tag| tag.eq_ignore_ascii_case("<think"))?;
    let rest = &text[named.len()..];
    // `<thinking>` is another word.
    let is_tag = rest.starts_with('>') || rest.starts_with(char::is_whitespace);
    let end = rest.find('>').filter(|_| is_tag)?;
    Some(&rest[end + 1..])
}

fn after_lone_closing_tag(text: &str) -> Option<&str> {
    let at = find(text, "</think>")?;
    let (before, after) = (&text[..at], &text[at + "</think>".len()..]);
    let begins_line = before.is_empty() || before.ends_with('\n');
    let ends_line = after.is_empty() || after.starts_with(['\n', '\r']);
    (begins_line && ends_line && find(before, "<think").is_none()).then_some(after)
}

/// Where `tag`, in lower case, stands in `text` in any case.
fn find(text: &str, tag: &str) -> Option<usize> {
    // Lower-casing ASCII alone keeps every offset.
    text.to_ascii_lowercase().find(tag)
}

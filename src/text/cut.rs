//! Cuts text at character boundaries and says how much was left out. Every place that shortens
//! text uses this; slicing a `str` at a computed byte offset anywhere else is a bug (case C19).

/// The longest prefix of at most `max_bytes` bytes that ends at a character boundary.
pub fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The longest suffix of at most `max_bytes` bytes that starts at a character boundary.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// Head and tail of `text` in at most `max_bytes` bytes with a line between them that says how
/// many characters are missing and, where given, `where_whole`. Text that fits is returned as is.
pub fn head_and_tail(text: &str, max_bytes: usize, where_whole: Option<&str>) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let whole = where_whole.map(|path| format!("; the whole is in {path}")).unwrap_or_default();
    // The number of characters is not known before the cut; its widest form reserves the room.
    let note = |left_out: usize| format!("\n[… {left_out} characters left out{whole} …]\n");
    let Some(room) = max_bytes.checked_sub(note(text.len()).len()) else {
        return head(text, max_bytes).to_owned();
    };
    // Two thirds for the head: errors of compilers start there, results of tests stand at the end.
    let first = head(text, room * 2 / 3);
    let last = tail(text, room - room * 2 / 3);
    let left_out = text[first.len()..text.len() - last.len()].chars().count();
    format!("{first}{}{last}", note(left_out))
}

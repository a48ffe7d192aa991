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

/// The longest prefix of at most `max_chars` characters that parts nothing which is shown as one
/// sign: no accent from its letter, no joined emoji, no flag.
pub fn head_chars(text: &str, max_chars: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text };
    let mut kept = &text[..end];
    let mut next = text[end..].chars().next();
    // Bounded: a text can be nothing but accents.
    for _ in 0..LONGEST_SIGN_CHARS {
        let Some(last) = kept.chars().next_back() else { break };
        let belongs = next.is_some_and(extends_sign)
            || last == ZERO_WIDTH_JOINER
            || (next.is_some_and(is_flag_half) && is_flag_half(last) && ends_in_half_a_flag(kept));
        if !belongs {
            return kept;
        }
        kept = &kept[..kept.len() - last.len_utf8()];
        next = Some(last);
    }
    &text[..end]
}

const ZERO_WIDTH_JOINER: char = '\u{200D}';
const LONGEST_SIGN_CHARS: usize = 32;

/// Accents, joiners, variation selectors, skin tones, tags: enough of Unicode's "Extend" for a cut
/// that looks well.
fn extends_sign(character: char) -> bool {
    matches!(character,
        ZERO_WIDTH_JOINER | '\u{300}'..='\u{36F}' | '\u{3099}'..='\u{309A}' | '\u{20D0}'..='\u{20FF}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{E0020}'..='\u{E007F}')
}

fn is_flag_half(character: char) -> bool {
    matches!(character, '\u{1F1E6}'..='\u{1F1FF}')
}

fn ends_in_half_a_flag(text: &str) -> bool {
    text.chars().rev().take_while(|character| is_flag_half(*character)).count() % 2 == 1
}

/// The line that stands for `count` bytes of a stream that were not kept.
pub fn bytes_left_out(count: u64) -> String {
    format!("\n[… {count} bytes left out …]\n")
}

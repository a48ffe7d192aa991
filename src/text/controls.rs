//! Control characters made visible: a terminal acts on them, some servers refuse them, people do not
//! see them. One mark everywhere: the character's escape, `\u{1b}`.

use std::borrow::Cow;

/// `text` with line breaks and tabs as its only control characters; CRLF becomes LF, every other
/// one its escape. Applied twice it changes nothing more.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    marked(text, "\n", |character| !character.is_control())
}

/// Bytes as text that holds all of them: control characters as escapes, bytes that are no UTF-8 as
/// `\xff`, CRLF as LF.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&without_controls(chunk.valid()));
        out.extend(chunk.invalid().iter().flat_map(|byte| byte.escape_ascii()).map(char::from));
    }
    out
}

/// `text` with the escapes of what is not fine; tabs are, line breaks become `line_break`.
pub(super) fn marked<'a>(text: &'a str, line_break: &str, is_fine: impl Fn(char) -> bool) -> Cow<'a, str> {
    let breaks_are_fine = line_break == "\n";
    let stays = |character| match character {
        '\n' => breaks_are_fine,
        '\t' => true,
        _ => is_fine(character),
    };
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' => out.push_str(line_break),
            _ if stays(character) => out.push(character),
            _ => out.extend(character.escape_default()),
        }
    }
    Cow::Owned(out)
}

//! Foreign text made fit for a terminal and for the log: nothing in it moves the cursor, changes
//! colours, turns the direction of writing or starts a line that it must not start. What would do so
//! is shown as an escape, so nothing is lost to the reader.

use std::borrow::Cow;

use super::visible::is_invisible;

/// Stands for a line break where only one line is allowed.
const LINE_BREAK_MARK: &str = " ⏎ ";

/// `text` for a terminal, with its line breaks and tabs; other control characters and invisible
/// ones are shown as escapes such as `\u{1b}`. Applied twice it changes nothing more.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, "\n")
}

/// As `printable`, in one line whatever `text` holds: line breaks become ` ⏎ `.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    shown(text, LINE_BREAK_MARK)
}

fn shown<'a>(text: &'a str, line_break: &str) -> Cow<'a, str> {
    let breaks_are_fine = line_break == "\n";
    let is_fine = |character| match character {
        '\n' => breaks_are_fine,
        '\t' => true,
        _ => !is_harmful(character),
    };
    if text.chars().all(is_fine) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' => out.push_str(line_break),
            _ if is_fine(character) => out.push(character),
            _ => out.extend(character.escape_default()),
        }
    }
    Cow::Owned(out)
}

/// The line and paragraph separators break a line in some viewers.
fn is_harmful(character: char) -> bool {
    character.is_control() || is_invisible(character) || matches!(character, '\u{2028}' | '\u{2029}')
}

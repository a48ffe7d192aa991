//! Foreign text made fit for a terminal and for the log: nothing in it moves the cursor, changes
//! colours, turns the direction of writing or starts a line that it must not start. What would do so
//! is shown as an escape, so nothing is lost to the reader.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::controls::marked;
use super::visible::is_invisible;

/// Stands for a line break where only one line is allowed.
const LINE_BREAK_MARK: &str = " ⏎ ";

/// `text` for a terminal, with its line breaks and tabs; other control characters and invisible
/// ones are shown as escapes such as `\u{1b}`. Applied twice it changes nothing more.
pub fn printable(text: &str) -> Cow<'_, str> {
    marked(text, "\n", is_harmless)
}

/// As `printable`, in one line whatever `text` holds: line breaks become ` ⏎ `.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    marked(text, LINE_BREAK_MARK, is_harmless)
}

/// JSON text that means the same and is fit for a terminal: escapes of JSON's own kind.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // In valid JSON the only control characters outside of strings are white space.
    let is_fine = |character| is_harmless(character) || matches!(character, '\n' | '\r' | '\t');
    if json.chars().all(is_fine) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_fine(character) {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(out)
}

/// The line and paragraph separators break a line in some viewers.
fn is_harmless(character: char) -> bool {
    !(character.is_control() || is_invisible(character) || matches!(character, '\u{2028}' | '\u{2029}'))
}

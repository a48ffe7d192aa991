//! One line out of a text: for logs and lists, and for titles that go out.

use super::cut::head_chars;
use super::visible::without_invisible;
use super::{printable_line, without_references};

const LONGEST_CHARS: usize = 200;

/// The first line of `text` that is not blank, cut, without invisible and control characters.
pub fn first_line(text: &str) -> String {
    let text = without_invisible(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    head_chars(&printable_line(&line.replace('\t', " ")), LONGEST_CHARS).trim_end().to_owned()
}

/// A title for a commit or a pull request: as `first_line`, with references broken, and without the
/// `#` that git takes for the start of a comment. May be empty.
pub fn subject(title: &str) -> String {
    let title = without_references(&first_line(title));
    let title = title.trim_start_matches(|character: char| character == '#' || character.is_whitespace());
    head_chars(title, LONGEST_CHARS).trim_end().to_owned()
}

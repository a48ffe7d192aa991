//! Long lines, `data:` URIs and endless repetitions shortened, each with a note of how much.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::head;

/// A longer line is minified code or data; its start says what it is.
const LONGEST_LINE_BYTES: usize = 2_000;
const LONGEST_DATA_URI_CHARS: usize = 200;
/// `data:` with a media type and `;base64,` is shorter than this.
const LONGEST_DATA_URI_HEAD_BYTES: usize = 100;
/// A line that stands more often than this in a row is shown once.
const MOST_REPEATS: usize = 10;

/// One line, short enough to show: at most 2,000 bytes and a note.
pub fn fold_line(line: &str) -> Cow<'_, str> {
    let line = fold_data_uris(line);
    let start = head(&line, LONGEST_LINE_BYTES);
    match line[start.len()..].chars().count() {
        0 => line,
        more => Cow::Owned(format!("{start}[… {more} more characters in this line …]")),
    }
}

/// Every line folded, and a line that stands many times in a row shown once with its count.
pub fn fold_lines(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut is_changed = false;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let mut repeats = 0;
        while lines.next_if(|next| *next == line).is_some() {
            repeats += 1;
        }
        let content = line.strip_suffix('\n').unwrap_or(line);
        let folded = fold_line(content);
        is_changed |= matches!(folded, Cow::Owned(_)) || repeats > MOST_REPEATS;
        let times = if repeats > MOST_REPEATS { 1 } else { repeats + 1 };
        for _ in 0..times {
            out.push_str(&folded);
            out.push_str(&line[content.len()..]);
        }
        if repeats > MOST_REPEATS {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "[… the line above {repeats} more times …]");
        }
    }
    if is_changed { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

/// The data of long `data:` URIs left out, with a note of how much.
pub fn fold_data_uris(line: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut is_changed = false;
    let mut rest = line;
    while let Some((before, uri)) = rest.find("data:").map(|at| rest.split_at(at)) {
        let ends_uri = |character: char| character.is_whitespace() || "\"'`<>()\\".contains(character);
        let (uri, behind) = uri.split_at(uri.find(ends_uri).unwrap_or(uri.len()));
        out.push_str(before);
        // Without its comma it is no URI but a word that happens to stand there.
        let kept = head(uri, LONGEST_DATA_URI_HEAD_BYTES).split_once(',').map(|(media, _)| media);
        let length = uri.chars().count();
        match kept {
            Some(media) if length > LONGEST_DATA_URI_CHARS => {
                let left_out = length - media.chars().count() - 1;
                let _ = write!(out, "{media},[… {left_out} characters of data …]");
                is_changed = true;
            }
            _ => out.push_str(uri),
        }
        rest = behind;
    }
    if !is_changed {
        return Cow::Borrowed(line);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

//! The comments file beside an issue file: reads it, and makes the bytes to append or to put in its
//! place. Pure; touches no disk.
//!
//! A comment is a heading line `## <author> · <RFC 3339 time> · <id>` and all lines up to the next
//! heading. Blank lines at both ends of a body, and carriage returns at the ends of its lines, are
//! not part of it. A line of a body that looks like a heading, with any number of backslashes before
//! it, is written with one backslash more and read with one less; so no body can fake a comment.
//! A heading counts only with its line break: without one it is the torn end of an append.

use std::ops::Range;

use super::issue_file::{GHOST, lines_of, without_blank_ends};
use crate::ports::Comment;
use crate::sys::clock;

const SEPARATOR: &str = " · ";

/// A comment and where it stands in the file.
struct Entry {
    comment: Comment,
    at_ms: u64,
    /// All between its heading and the next.
    body: Range<usize>,
}

struct Heading {
    author: String,
    at_ms: u64,
    id: String,
}

/// Why a comment cannot be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotReplaced {
    /// No comment of that author has the id.
    Unknown,
    /// Several have it.
    Ambiguous,
}

/// All comments, oldest first; those of one time in the order of the file.
pub(super) fn parse(bytes: &[u8]) -> Vec<Comment> {
    let mut entries = entries(bytes);
    entries.sort_by_key(|entry| entry.at_ms);
    entries.into_iter().map(|entry| entry.comment).collect()
}

/// The id of the next comment: one more than the highest number in the file.
pub(super) fn next_id(bytes: &[u8]) -> String {
    let number = |entry: &Entry| entry.comment.id.strip_prefix('c').and_then(|digits| digits.parse::<u64>().ok());
    let highest = entries(bytes).iter().filter_map(number).max().unwrap_or(0);
    format!("c{}", highest.saturating_add(1))
}

/// What to append to `before` for a new comment.
pub(super) fn addition(before: &[u8], author: &str, time: &str, id: &str, body: &str) -> String {
    let last_line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let gap = match () {
        () if before.is_empty() || before.ends_with(b"\n\n") => "",
        () if last_line.is_empty() => "\n",
        // The torn heading must not become one by our line break.
        () if heading(&String::from_utf8_lossy(last_line)).is_some() => " (torn)\n\n",
        () => "\n\n",
    };
    format!("{gap}## {author}{SEPARATOR}{time}{SEPARATOR}{id}\n\n{}\n", escaped(body))
}

/// The file with another body for comment `id` of `author`; all other bytes stay.
///
/// # Errors
/// When there is not exactly one such comment.
pub(super) fn replaced(bytes: &[u8], author: &str, id: &str, body: &str) -> Result<Vec<u8>, NotReplaced> {
    let mut found = entries(bytes).into_iter().filter(|entry| entry.comment.id == id && entry.comment.author == author);
    let entry = found.next().ok_or(NotReplaced::Unknown)?;
    if found.next().is_some() {
        return Err(NotReplaced::Ambiguous);
    }
    let (before, rest) = bytes.split_at(entry.body.start);
    let after = rest.get(entry.body.len()..).unwrap_or_default();
    let gap = if after.is_empty() { "" } else { "\n" };
    Ok([before, format!("\n{}\n{gap}", escaped(body)).as_bytes(), after].concat())
}

fn entries(bytes: &[u8]) -> Vec<Entry> {
    let mut found: Vec<(Heading, Range<usize>)> = Vec::new();
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        let text = String::from_utf8_lossy(line);
        let text = if at == 0 { text.trim_start_matches('\u{feff}') } else { &text };
        match heading(text).filter(|_| line.ends_with(b"\n")) {
            Some(heading) => found.push((heading, end..end)),
            // What stands before the first heading is nobody's comment; a person sees it, we do not.
            None => found.iter_mut().last().into_iter().for_each(|(_, body)| body.end = end),
        }
        at = end;
    }
    found
        .into_iter()
        .map(|(heading, body)| {
            let text = String::from_utf8_lossy(bytes.get(body.clone()).unwrap_or_default());
            let comment = Comment {
                id: heading.id,
                author: heading.author,
                body: unescaped(&text),
                created_at: clock::rfc3339(heading.at_ms),
                verdict: None,
                remarks: Vec::new(),
            };
            Entry { comment, at_ms: heading.at_ms, body }
        })
        .collect()
}

fn heading(line: &str) -> Option<Heading> {
    let mut parts = line.trim_end().strip_prefix("## ")?.rsplitn(3, SEPARATOR);
    let (id, time, author) = (parts.next()?.trim(), parts.next()?.trim(), parts.next()?.trim());
    let at_ms = clock::parse_rfc3339(time)?;
    let is_id = !id.is_empty() && !id.contains(char::is_whitespace);
    let author = if author.is_empty() { GHOST } else { author };
    is_id.then(|| Heading { author: author.to_owned(), at_ms, id: id.to_owned() })
}

fn looks_like_heading(line: &str) -> bool {
    heading(line.trim_start_matches('\\')).is_some()
}

fn escaped(body: &str) -> String {
    let lines = lines_of(body);
    let escape = |line: &&str| if looks_like_heading(line) { format!("\\{line}") } else { (*line).to_owned() };
    without_blank_ends(&lines).iter().map(escape).collect::<Vec<_>>().join("\n")
}

fn unescaped(text: &str) -> String {
    let lines = lines_of(text);
    let unescape = |line: &&str| match line.strip_prefix('\\') {
        Some(rest) if looks_like_heading(rest) => rest.to_owned(),
        _ => (*line).to_owned(),
    };
    without_blank_ends(&lines).iter().map(unescape).collect::<Vec<_>>().join("\n")
}

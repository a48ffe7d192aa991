//! Shows text to a model: numbered lines, folded, and overlong results cut. Pure; what it leaves out
//! it counts.

use std::fmt::Write as _;
use std::ops::Range;

use crate::text::fold_line;

/// The caller cuts by tokens of its model; this only keeps the memory bounded.
const LONGEST_RESULT_BYTES: usize = 100_000;
/// Lines shown on each side of an edit.
const CONTEXT_LINES: usize = 3;
/// Lines of an edit shown; the model wrote them and knows the rest.
const MOST_EDITED_LINES: usize = 20;

/// The lines `wanted` of `text`, counted from 1, each with its number.
pub(super) fn numbered(text: &str, wanted: Range<usize>) -> String {
    let mut out = String::new();
    for (index, line) in text.lines().enumerate().skip(wanted.start.saturating_sub(1)) {
        let number = index + 1;
        if number >= wanted.end {
            break;
        }
        let line = fold_line(line);
        if out.len() + line.len() > LONGEST_RESULT_BYTES {
            let last = wanted.end - 1;
            // Writing to a String cannot fail.
            let _ = write!(out, "[… lines {number} to {last} not shown; ask for them with view_range …]");
            return out;
        }
        let _ = writeln!(out, "{number:>6}\t{line}");
    }
    out
}

/// The surroundings of an edit; of a long one its start.
pub(super) fn around(text: &str, lines: Range<usize>) -> String {
    let end = (lines.end.min(lines.start + MOST_EDITED_LINES) + CONTEXT_LINES).min(text.lines().count() + 1);
    numbered(text, lines.start.saturating_sub(CONTEXT_LINES).max(1)..end)
}

/// The lines that `view_range` asks for in a file of `count` lines.
pub(super) fn check_range(range: Option<[i64; 2]>, count: usize) -> Result<Range<usize>, String> {
    let Some([first, last]) = range else {
        return Ok(1..count + 1);
    };
    let refuse = |what: &str| {
        Err(format!(
            "`view_range` is [{first}, {last}], but {what}; it must be [first, last] with 1 <= first <= last, or -1 as last"
        ))
    };
    if count == 0 {
        return refuse("the file is empty");
    }
    let within = |line: i64| usize::try_from(line).ok().filter(|line| (1..=count).contains(line));
    let end = if last == -1 { Some(count) } else { within(last) };
    match (within(first), end) {
        (Some(first), Some(end)) if first <= end => Ok(first..end + 1),
        (Some(_), Some(_)) => refuse("the first line comes after the last"),
        _ => refuse(&format!("the file has lines 1 to {count}")),
    }
}

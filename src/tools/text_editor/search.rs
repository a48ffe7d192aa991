//! Looks for a passage in a text: literal matches with their lines, and, for the error, the line
//! that a model most likely meant. Pure; never changes anything.

use std::ops::Range;

use super::endings::{line_number, part};
use crate::text::fold_line;

/// More lines than this help nobody, and a text of one repeated letter must not cost minutes.
const MOST_LINES_NAMED: usize = 10;

/// Literal matches of a passage, overlapping ones included.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Matches {
    None,
    One(Range<usize>),
    /// The line numbers, as a list for people.
    Several(String),
}

pub(super) fn find(text: &str, passage: &str) -> Matches {
    let Some(step) = passage.chars().next().map(char::len_utf8) else {
        return Matches::None;
    };
    let mut starts: Vec<usize> = Vec::new();
    let mut from = 0;
    while let Some(at) = part(text, from..text.len()).find(passage) {
        starts.push(from + at);
        if starts.len() > MOST_LINES_NAMED {
            break;
        }
        from += at + step;
    }
    match starts.as_slice() {
        [] => Matches::None,
        [start] => Matches::One(*start..start + passage.len()),
        several => {
            let named = several.iter().take(MOST_LINES_NAMED).map(|start| line_number(text, *start).to_string());
            let more = if several.len() > MOST_LINES_NAMED { " and more" } else { "" };
            Matches::Several(named.collect::<Vec<_>>().join(", ") + more)
        }
    }
}

/// What to tell a model whose `old` stands nowhere in `text`.
pub(super) fn closest(text: &str, old: &str) -> String {
    let none = "`old_str` does not occur in the file";
    if without_line_numbers(old).is_some_and(|bare| text.contains(&bare)) {
        return format!("{none}; leave out the line numbers that `view` puts before each line");
    }
    let wanted: Vec<String> = old.lines().map(squeezed).filter(|line| !line.is_empty()).collect();
    let lines: Vec<(usize, &str, String)> = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line, squeezed(line)))
        .filter(|(_, _, squeezed)| !squeezed.is_empty())
        .collect();
    let Some(first) = wanted.first() else {
        return format!("{none}; it is only white space");
    };
    let whole = lines.windows(wanted.len()).find(|window| fits(window, &wanted));
    if let Some([(number, line, _), ..]) = whole {
        let line = fold_line(line);
        return format!("{none}, but from line {number} on it does except for white space; that line is `{line}`");
    }
    match lines.iter().find(|(_, _, line)| line.contains(first.as_str())) {
        Some((number, line, _)) if first.chars().count() > 2 => {
            let line = fold_line(line);
            format!(
                "{none}; its first line resembles line {number}, `{line}`, but not what follows; view the file again"
            )
        }
        _ => format!("{none}; view the file again and copy the text exactly"),
    }
}

/// Whether the lines are `wanted`, of which the first and the last may be parts of a line.
fn fits(window: &[(usize, &str, String)], wanted: &[String]) -> bool {
    let last = wanted.len().saturating_sub(1);
    window.iter().zip(wanted).enumerate().all(|(index, ((_, _, line), wanted))| match index {
        0 if last == 0 => line.contains(wanted.as_str()),
        0 => line.ends_with(wanted.as_str()),
        _ if index == last => line.starts_with(wanted.as_str()),
        _ => line == wanted,
    })
}

fn squeezed(line: &str) -> String {
    line.chars().filter(|character| !character.is_whitespace()).collect()
}

/// `old` without the number and the tab that `view` puts before a line, if every line has them.
fn without_line_numbers(old: &str) -> Option<String> {
    let bare = |line| -> Option<&str> {
        let (number, line) = str::split_once(line, '\t')?;
        number.trim().parse::<usize>().ok().map(|_| line)
    };
    old.lines().map(bare).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n"))
}

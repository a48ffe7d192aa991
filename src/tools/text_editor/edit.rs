//! The two edits, as pure functions on a document: replace one passage, insert lines. Only the
//! characters that really differ are exchanged, so every other line keeps its bytes.

use std::ops::Range;

use super::document::{BOM, Document, without_bom};
use super::endings::{CRLF, Flat, first_ending, last_ending, line_number, part, with_crlf};
use super::search::{Matches, closest, find};

/// A changed document and the lines, from 1, that the change touches.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) document: Document,
    pub(super) lines: Range<usize>,
}

/// Replaces the one place where `old` stands.
pub(super) fn replace(document: &Document, old: &str, new: &str) -> Result<Edited, String> {
    if old.is_empty() {
        return Err("`old_str` is empty; give the text to replace, or use `insert` to add lines".to_owned());
    }
    let text = document.text.as_str();
    let found = locate(document, old)?;
    // What a CR belongs to is decided by its LF: neither end of the passage may part them.
    let starts_inside =
        part(text, found.start..found.end).starts_with('\n') && part(text, 0..found.start).ends_with('\r');
    let start = if starts_inside { found.start - 1 } else { found.start };
    let ends_inside =
        part(text, start..found.end).ends_with('\r') && part(text, found.end..text.len()).starts_with('\n');
    let (end, new) =
        if ends_inside { (found.end - 1, new.strip_suffix('\r').unwrap_or(new)) } else { (found.end, new) };
    // A mark that the model writes at the very start would double the one in the file, or add one.
    let new = if start == 0 { without_bom(new) } else { new };

    let passage = part(text, start..end);
    let flat = Flat::new(passage);
    let new = Flat::new(new).text;
    let Some((kept_before, kept_after)) = difference(&flat.text, &new) else {
        return Err(
            "no change: the file already holds exactly this text there (line endings are kept as they are)".to_owned()
        );
    };
    let changed = flat.original(kept_before..flat.text.len() - kept_after);
    let changed = start + changed.start..start + changed.end;
    let inserted = part(&new, kept_before..new.len() - kept_after);
    let ending = first_ending(part(text, changed.clone()))
        .or_else(|| first_ending(passage))
        .or_else(|| first_ending(part(text, changed.end..text.len())))
        .or_else(|| last_ending(part(text, 0..changed.start)));
    Ok(splice(document, changed, inserted, ending))
}

/// Inserts whole lines after line `after`; 0 is the top.
pub(super) fn insert(document: &Document, after: i64, new: &str) -> Result<Edited, String> {
    let text = document.text.as_str();
    let count = text.lines().count();
    let Some(after) = usize::try_from(after).ok().filter(|after| *after <= count) else {
        return Err(format!("`insert_line` is {after}; the file has {count} lines, so it must be 0 to {count}"));
    };
    let new = if after == 0 { without_bom(new) } else { new };
    if new.is_empty() {
        return Err("`new_str` is empty; give the lines to insert (\"\\n\" is one blank line)".to_owned());
    }
    if text.is_empty() {
        return Ok(splice(document, 0..0, new, None));
    }
    let offset: usize = text.split_inclusive('\n').take(after).map(str::len).sum();
    let (before, behind) = (part(text, 0..offset), part(text, offset..text.len()));
    let ending = last_ending(before).or_else(|| first_ending(behind));
    let flat = Flat::new(new).text;
    let lines = flat.strip_suffix('\n').unwrap_or(&flat);
    // After a last line without a break the new text takes the break before it, not behind it: so
    // the file still ends without one.
    let is_unfinished = !before.is_empty() && !before.ends_with('\n');
    let inserted = if is_unfinished { format!("\n{lines}") } else { format!("{lines}\n") };
    let mut edited = splice(document, offset..offset, &inserted, ending);
    edited.lines = after + 1..after + 2 + lines.matches('\n').count();
    Ok(edited)
}

/// Where `old` stands: exact bytes first, then with CRLF and LF taken as equal.
fn locate(document: &Document, old: &str) -> Result<Range<usize>, String> {
    let text = document.text.as_str();
    match find(text, old) {
        Matches::One(range) => return Ok(range),
        Matches::Several(lines) => return Err(ambiguous(&lines)),
        Matches::None => {}
    }
    let (flat, flat_old) = (Flat::new(text), Flat::new(old).text);
    match find(&flat.text, &flat_old) {
        Matches::One(range) => return Ok(flat.original(range)),
        Matches::Several(lines) => return Err(ambiguous(&lines)),
        Matches::None => {}
    }
    // The mark as the first character of `old_str` (seen through `cat`) can mean the start only.
    match flat_old.strip_prefix(BOM) {
        Some(start) if document.has_bom && !start.is_empty() && flat.text.starts_with(start) => {
            Ok(flat.original(0..start.len()))
        }
        _ => Err(closest(&flat.text, &flat_old)),
    }
}

fn ambiguous(lines: &str) -> String {
    format!("`old_str` occurs more than once, at lines {lines}; add neighbouring lines until it occurs exactly once")
}

/// Bytes that `old` and `new` share at the start and at the end; `None` when they are equal.
fn difference(old: &str, new: &str) -> Option<(usize, usize)> {
    let shared = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    if old == new {
        return None;
    }
    let before = shared(&mut old.chars().zip(new.chars()));
    let (old_rest, new_rest) = (part(old, before..old.len()), part(new, before..new.len()));
    let after = shared(&mut old_rest.chars().rev().zip(new_rest.chars().rev()));
    Some((before, after))
}

/// Puts `inserted` in place of `range`; its LFs take `ending` where one is known.
fn splice(document: &Document, range: Range<usize>, inserted: &str, ending: Option<&'static str>) -> Edited {
    let text = document.text.as_str();
    let inserted = if ending == Some(CRLF) { with_crlf(inserted) } else { inserted.to_owned() };
    let (before, behind) = (part(text, 0..range.start), part(text, range.end..text.len()));
    let first = line_number(text, range.start);
    let lines = first..first + 1 + inserted.matches('\n').count();
    Edited { document: Document { has_bom: document.has_bom, text: [before, &inserted, behind].concat() }, lines }
}

//! Words of a model as a Markdown quotation that keeps a limit. The quotation ends before the note
//! about what is missing, so nothing that is open in the words can reach over it.

use super::cut::head_chars;
use super::fence::Fences;
use super::inert::inert;

/// `words`, inert, each line behind a quote mark, in at most `max_chars` characters. Words that are
/// too long lose their end: an open code block is closed, and `note`, given the number of characters
/// left out, follows as a paragraph of its own. Where not even the note has room, nothing is left.
pub fn quoted(words: &str, max_chars: usize, note: impl Fn(usize) -> String) -> String {
    let words = inert(words.trim());
    let whole = quote(&words);
    if whole.chars().count() <= max_chars {
        return whole;
    }
    let count = words.chars().count();
    // The widest form of the note reserves its room.
    let room = max_chars.saturating_sub(note(count).chars().count());
    let kept = beginning(&words, room.saturating_sub(SEPARATOR.len()));
    let note = note(count - kept.kept_chars);
    let cut = if kept.quotation.is_empty() { note } else { format!("{}{SEPARATOR}{note}", kept.quotation) };
    if cut.chars().count() <= max_chars { cut } else { String::new() }
}

const SEPARATOR: &str = "\n\n";
const QUOTE_MARK: &str = "> ";

struct Beginning {
    quotation: String,
    /// Characters of the words that are in it.
    kept_chars: usize,
}

/// As many lines as go into `max_chars` characters when quoted, and of a long one its start.
fn beginning(words: &str, max_chars: usize) -> Beginning {
    let mut kept = Beginning { quotation: String::new(), kept_chars: 0 };
    let mut fences = Fences::default();
    let mut used = 0;
    for line in words.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let (after, needed) = with_line(&fences, content);
        if used + needed + closing_chars(&after) <= max_chars {
            push_line(&mut kept.quotation, content);
            (fences, used) = (after, used + needed);
            kept.kept_chars += line.chars().count();
            continue;
        }
        // Half of the room for nothing would be a poor cut. A fence is short; part of one is none.
        let is_long =
            needed > max_chars / 2 && content.trim_start().chars().next().is_some_and(|first| !"`~".contains(first));
        let room = max_chars.saturating_sub(used + QUOTE_MARK.len() + 1 + closing_chars(&fences));
        let start = head_chars(content, room);
        if is_long && !start.is_empty() {
            let (after, needed) = with_line(&fences, start);
            if used + needed + closing_chars(&after) <= max_chars {
                push_line(&mut kept.quotation, start);
                fences = after;
                kept.kept_chars += start.chars().count();
            }
        }
        break;
    }
    if let Some(closing) = fences.closing_line() {
        push_line(&mut kept.quotation, &closing);
    }
    kept.quotation.truncate(kept.quotation.trim_end().len());
    kept
}

/// The state behind a line, and the characters it takes with its quote mark and line break.
fn with_line(fences: &Fences, content: &str) -> (Fences, usize) {
    let mut after = fences.clone();
    after.read(content);
    (after, QUOTE_MARK.len() + content.chars().count() + 1)
}

fn closing_chars(fences: &Fences) -> usize {
    fences.closing_line().map_or(0, |line| QUOTE_MARK.len() + line.chars().count() + 1)
}

fn quote(words: &str) -> String {
    let mut quotation = String::with_capacity(words.len() + words.len() / 16);
    words.lines().for_each(|line| push_line(&mut quotation, line));
    quotation.truncate(quotation.trim_end().len());
    quotation
}

fn push_line(quotation: &mut String, line: &str) {
    quotation.push_str(QUOTE_MARK);
    quotation.push_str(line);
    quotation.push('\n');
}

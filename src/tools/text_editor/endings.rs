//! Line endings: finds, removes and puts back the CR of CRLF, with offsets that stay exact.
//! Pure. A CR that no LF follows is an ordinary character here.

use std::ops::Range;

pub(super) const CRLF: &str = "\r\n";

/// Text with every CRLF as LF, which knows where the CRs were.
#[derive(Debug)]
pub(super) struct Flat {
    pub(super) text: String,
    /// Offsets in `text` of the LFs that lost their CR, ascending.
    shortened: Vec<usize>,
}

impl Flat {
    pub(super) fn new(original: &str) -> Self {
        let mut flat = Self { text: String::with_capacity(original.len()), shortened: Vec::new() };
        for line in original.split_inclusive('\n') {
            if let Some(content) = line.strip_suffix(CRLF) {
                flat.text.push_str(content);
                flat.shortened.push(flat.text.len());
                flat.text.push('\n');
            } else {
                flat.text.push_str(line);
            }
        }
        flat
    }

    /// The range of the original that `range` of `text` stands for; never parts a CR from its LF.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        let at = |offset: usize| offset + self.shortened.partition_point(|shortened| *shortened < offset);
        at(range.start)..at(range.end)
    }
}

/// The line break that the first LF of `text` belongs to.
pub(super) fn first_ending(text: &str) -> Option<&'static str> {
    text.split_inclusive('\n').next().and_then(ending)
}

/// The line break that the last LF of `text` belongs to.
pub(super) fn last_ending(text: &str) -> Option<&'static str> {
    text.rsplit_once('\n').map(|(before, _)| if before.ends_with('\r') { CRLF } else { "\n" })
}

fn ending(line: &str) -> Option<&'static str> {
    match line {
        _ if line.ends_with(CRLF) => Some(CRLF),
        _ if line.ends_with('\n') => Some("\n"),
        _ => None,
    }
}

/// `text`, which has LF only, with CRLF.
pub(super) fn with_crlf(text: &str) -> String {
    text.replace('\n', CRLF)
}

/// `text[range]` for ranges that come from searching; a bound inside a character moves down.
pub(super) fn part(text: &str, range: Range<usize>) -> &str {
    let start = text.floor_char_boundary(range.start);
    let end = text.floor_char_boundary(range.end).max(start);
    &text[start..end]
}

/// The number, from 1, of the line that holds `offset`.
pub(super) fn line_number(text: &str, offset: usize) -> usize {
    part(text, 0..offset).matches('\n').count() + 1
}

//! What a program wrote, as a model gets to see it: text as a terminal would show it, binary data
//! named and not shown, what is endless folded.

use std::borrow::Cow;

use super::binary::{binary_format, binary_runs};
use super::cut::bytes_left_out;
use super::folding::fold_lines;
use super::terminal::as_displayed;

/// The output of a program, made fit to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Line breaks and tabs are its only control characters.
    pub text: String,
    /// Nothing was left out or replaced but terminal codes and what they overwrote.
    pub is_whole: bool,
}

impl ProgramOutput {
    /// Reads a stream of which `left_out_bytes` between `head` and `tail` were not kept.
    pub fn from_parts(head: &[u8], left_out_bytes: u64, tail: &[u8]) -> Self {
        if left_out_bytes == 0 {
            return Self::new(&[head, tail].concat());
        }
        // Each by itself: what the cut broke must not reach over it.
        let (head, tail) = (Self::new(head), Self::new(tail));
        Self {
            text: format!("{}{}{}", head.text, bytes_left_out(left_out_bytes), tail.text),
            is_whole: head.is_whole && tail.is_whole,
        }
    }

    /// Reads a whole stream.
    pub fn new(bytes: &[u8]) -> Self {
        let (text, has_all_bytes) = without_binary_runs(bytes);
        let displayed = as_displayed(&text);
        let folded = fold_lines(&displayed);
        let is_whole = has_all_bytes && matches!(folded, Cow::Borrowed(_));
        Self { text: folded.into_owned(), is_whole }
    }
}

/// The bytes as text, and whether all of them are in it.
fn without_binary_runs(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let runs = binary_runs(bytes);
    if runs.is_empty() {
        let text = String::from_utf8_lossy(bytes);
        let has_all = matches!(text, Cow::Borrowed(_));
        return (text, has_all);
    }
    let mut out = String::new();
    let mut done = 0;
    for run in runs {
        out.push_str(&String::from_utf8_lossy(&bytes[done..run.start]));
        let data = &bytes[run.clone()];
        let format = binary_format(data).map(|format| format!(" ({format})")).unwrap_or_default();
        out.push_str(&format!("[… {} bytes of binary data{format} …]\n", data.len()));
        done = run.end;
    }
    out.push_str(&String::from_utf8_lossy(&bytes[done..]));
    (Cow::Owned(out), false)
}

//! A text file as bytes and back: the byte order mark, the text, and what is not text at all.
//! Pure. Never shows the mark to anybody and never decides on a change.

use super::endings::{CRLF, with_crlf};
use crate::text::binary_format;

/// A byte order mark is this only as the first character; elsewhere it is text.
pub(super) const BOM: char = '\u{FEFF}';
const BOM_BYTES: &[u8] = "\u{FEFF}".as_bytes();

const LFS_FIRST_LINE: &str = "version https://git-lfs.github.com/spec/v1";

const NOT_UTF8: &str = "binary file (or text that is not UTF-8)";

/// How far a NUL byte is looked for; git looks as far.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) has_bom: bool,
    /// Everything after the mark, line endings as they are.
    pub(super) text: String,
}

impl Document {
    /// Reads a file; a refusal says type and size.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let refusal = |name: &str| format!("{name}, {} bytes", bytes.len());
        if let Some(name) = binary_name(bytes) {
            return Err(refusal(&name));
        }
        let (has_bom, rest) = bytes.strip_prefix(BOM_BYTES).map_or((false, bytes), |rest| (true, rest));
        match std::str::from_utf8(rest) {
            Ok(text) => Ok(Self { has_bom, text: text.to_owned() }),
            Err(_) => Err(refusal(NOT_UTF8)),
        }
    }

    /// The document that replaces `old` with what the model wrote. The model never sees the mark
    /// or CRLF, so both come from the old file; a new file has neither unless the text says CRLF.
    pub(super) fn rewrite(old: Option<&[u8]>, file_text: &str) -> Self {
        let has_bom = old.is_some_and(|bytes| bytes.starts_with(BOM_BYTES));
        let text = without_bom(file_text);
        let old_is_crlf = old.is_some_and(is_crlf_throughout);
        let text = if old_is_crlf && !text.contains('\r') { with_crlf(text) } else { text.to_owned() };
        Self { has_bom, text }
    }

    /// The bytes of the file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mark = if self.has_bom { BOM_BYTES } else { &[] };
        [mark, self.text.as_bytes()].concat()
    }

    /// What a Git LFS pointer stands for, as a sentence; `None` for every other file.
    pub(super) fn lfs_note(&self) -> Option<String> {
        let mut lines = self.text.lines();
        if lines.next() != Some(LFS_FIRST_LINE) {
            return None;
        }
        let size = lines.find_map(|line| line.strip_prefix("size ")).unwrap_or("an unknown number of");
        Some(format!(
            "a Git LFS pointer: its content ({size} bytes) is not in the work tree, only this reference to it"
        ))
    }
}

/// `text` without a byte order mark at its start.
pub(super) fn without_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

fn is_crlf_throughout(bytes: &[u8]) -> bool {
    let breaks = bytes.iter().filter(|byte| **byte == b'\n').count();
    breaks > 0 && breaks == bytes.windows(CRLF.len()).filter(|pair| *pair == CRLF.as_bytes()).count()
}

/// What kind of binary file this is by its first bytes; `None` for what may be text.
pub(super) fn binary_name(bytes: &[u8]) -> Option<String> {
    let probe = bytes.get(..BINARY_PROBE_BYTES).unwrap_or(bytes);
    // Only a NUL or broken UTF-8 makes a file binary: `GIF8` may start a sentence.
    let unknown = match probe {
        _ if probe.contains(&0) => "binary file",
        _ if is_broken_utf8(probe) => NOT_UTF8,
        _ => return None,
    };
    Some(binary_format(bytes).map_or(unknown.to_owned(), |format| format!("binary file ({format})")))
}

/// Whether `probe` cannot be the start of UTF-8 text; a character cut at its end is fine.
fn is_broken_utf8(probe: &[u8]) -> bool {
    std::str::from_utf8(probe).is_err_and(|error| error.error_len().is_some())
}

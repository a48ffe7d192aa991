//! Bytes that are no text: what format they are in, and where they stand in the output of a program.

use std::ops::Range;

/// A shorter run does no harm as it is.
const SHORTEST_RUN_BYTES: usize = 256;
/// A line is noise when at least this many percent of its bytes cannot be text. Text that ends in
/// NUL (`find -print0`) and text in an older encoding of Europe stay below.
const NOISE_PERCENT: usize = 30;
/// So many lines in a row can look like text by chance inside a binary file.
const CHANCE_LINES: usize = 3;
/// Some formats begin with a line that is text, or nearly.
const LONGEST_MAGIC_BYTES: usize = 64;

/// The format of a binary file, by its first bytes; `None` when unknown.
pub fn binary_format(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 9] = [
        (b"\x7FELF", "ELF program"),
        (b"\x89PNG\r\n\x1A\n", "PNG image"),
        (b"\xFF\xD8\xFF", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"%PDF-", "PDF"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1F\x8B", "gzip"),
        (b"\xFF\xFE", "perhaps UTF-16 text"),
        (b"\xFE\xFF", "perhaps UTF-16 text"),
    ];
    KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, name)| *name)
}

/// Runs of binary data in `bytes`, in order, apart from each other, each of whole lines.
pub(super) fn binary_runs(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut lines_since = usize::MAX;
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if is_noise(line) {
            match runs.last_mut().filter(|_| lines_since <= CHANCE_LINES) {
                Some(run) => run.end = end,
                None => runs.push(at..end),
            }
            lines_since = 0;
        } else {
            lines_since = lines_since.saturating_add(1);
        }
        at = end;
    }
    if let Some(first) = runs.first_mut().filter(|run| run.start <= LONGEST_MAGIC_BYTES)
        && binary_format(bytes).is_some()
    {
        first.start = 0;
    }
    runs.retain(|run| run.len() >= SHORTEST_RUN_BYTES);
    runs
}

fn is_noise(line: &[u8]) -> bool {
    let noise: usize = line
        .utf8_chunks()
        .map(|chunk| chunk.invalid().len() + chunk.valid().bytes().filter(is_no_text_byte).count())
        .sum();
    noise * 100 >= line.len() * NOISE_PERCENT
}

/// Control characters that neither text nor a terminal's codes use.
fn is_no_text_byte(byte: &u8) -> bool {
    matches!(byte, 0..=6 | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F)
}

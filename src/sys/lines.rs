//! Bytes of a stream cut into lines, in bounded memory however long a line is. Knows no content.

use std::collections::VecDeque;

/// One line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its bytes, or as many of them as a line may have.
    pub(super) bytes: Vec<u8>,
    /// More came, and was dropped.
    pub(super) is_cut: bool,
}

/// Lines in the making, and those that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Lines {
    limit_bytes: usize,
    partial: Vec<u8>,
    /// The rest of a line that was cut is passed over.
    passes_over: bool,
    complete: VecDeque<Line>,
    complete_bytes: usize,
}

impl Lines {
    /// Lines of at most `limit_bytes`.
    pub(super) fn new(limit_bytes: usize) -> Self {
        let complete = VecDeque::new();
        Self { limit_bytes, partial: Vec::new(), passes_over: false, complete, complete_bytes: 0 }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        // Most of a long line has no end in it, and finding that out is quick.
        if self.passes_over && !bytes.contains(&b'\n') {
            return;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, ends) = part.strip_suffix(b"\n").map_or((part, false), |content| (content, true));
            if !self.passes_over {
                let room = self.limit_bytes - self.partial.len();
                self.partial.extend_from_slice(&content[..content.len().min(room)]);
                if content.len() > room {
                    self.passes_over = true;
                    self.complete(true);
                }
            }
            if ends && !std::mem::take(&mut self.passes_over) {
                self.complete(false);
            }
        }
    }

    /// The stream is over: what stands there without a line break is a line.
    pub(super) fn finish(&mut self) {
        if !self.partial.is_empty() {
            self.complete(false);
        }
    }

    /// The next line, if a whole one is there.
    pub(super) fn pop(&mut self) -> Option<Line> {
        let line = self.complete.pop_front()?;
        self.complete_bytes -= line.bytes.len();
        Some(line)
    }

    /// Whether so much waits to be taken that no more should be read. Empty lines take memory as well.
    pub(super) fn is_full(&self) -> bool {
        self.complete_bytes + self.complete.len() * size_of::<Line>() >= self.limit_bytes
    }

    fn complete(&mut self, is_cut: bool) {
        let bytes = std::mem::take(&mut self.partial);
        self.complete_bytes += bytes.len();
        self.complete.push_back(Line { bytes, is_cut });
    }
}

//! What `undo_edit` needs: the edits of this run, newest last, bounded in number and in bytes.
//! Lives in memory only; never touches a file.

use std::path::{Path, PathBuf};

/// Edits kept for one file.
const MOST_EDITS_PER_FILE: usize = 10;
/// Edits of all files together; the oldest go first.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The edits that can be taken back.
#[derive(Debug, Default)]
pub(super) struct History {
    edits: Vec<Edit>,
}

/// One edit of one file.
#[derive(Debug)]
pub(super) struct Edit {
    path: PathBuf,
    /// `None`: the edit made the file.
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

impl History {
    pub(super) fn push(&mut self, path: &Path, before: Option<Vec<u8>>, after: Vec<u8>) {
        self.edits.push(Edit { path: path.to_owned(), before, after });
        let is_same = |edit: &Edit| edit.path == path;
        if self.edits.iter().filter(|edit| is_same(edit)).count() > MOST_EDITS_PER_FILE
            && let Some(oldest) = self.edits.iter().position(is_same)
        {
            self.edits.remove(oldest);
        }
        let mut bytes: usize = self.edits.iter().map(Edit::bytes).sum();
        while bytes > MOST_BYTES && !self.edits.is_empty() {
            bytes -= self.edits.remove(0).bytes();
        }
    }

    /// The newest edit of a file.
    pub(super) fn last(&self, path: &Path) -> Option<&Edit> {
        self.edits.iter().rfind(|edit| edit.path == path)
    }

    /// Forgets the newest edit of a file, once it was taken back.
    pub(super) fn pop(&mut self, path: &Path) {
        if let Some(newest) = self.edits.iter().rposition(|edit| edit.path == path) {
            self.edits.remove(newest);
        }
    }
}

impl Edit {
    fn bytes(&self) -> usize {
        self.before.as_ref().map_or(0, Vec::len) + self.after.len()
    }
}

//! Lists a directory for a model, two levels deep, without `.git` and with a bound on everything.
//! Reads names and types only; follows no symbolic link.

use std::io;
use std::path::{Path, PathBuf};

use super::path::{Tree, is_git};
use super::submodule;
use crate::sys::beneath::Entry;
use crate::sys::file::reason_of;

/// Names shown of the directory itself, and of each one in it.
const MOST_NAMES: [usize; 2] = [400, 50];
/// Names read of one directory; more are only counted up to here.
const MOST_NAMES_READ: usize = 20_000;

/// The listing of the directory at `path`, one name per line; directories end with `/`.
pub(super) fn list(tree: &Tree, path: &Path) -> io::Result<String> {
    let mut listing = Listing { tree, submodules: submodule::empty_ones(tree), lines: Vec::new() };
    listing.level(path, 0)?;
    Ok(listing.lines.join("\n"))
}

struct Listing<'a> {
    tree: &'a Tree,
    /// Submodules that are not checked out.
    submodules: Vec<PathBuf>,
    lines: Vec<String>,
}

impl Listing<'_> {
    fn level(&mut self, directory: &Path, depth: usize) -> io::Result<()> {
        let Some(most) = MOST_NAMES.get(depth) else {
            return Ok(());
        };
        let indent = "  ".repeat(depth);
        let mut entries = self.tree.beneath.entries(directory, MOST_NAMES_READ)?;
        let at_least = if entries.len() >= MOST_NAMES_READ { "at least " } else { "" };
        entries.retain(|(name, _)| !is_git(name));
        if self.submodules.iter().any(|submodule| submodule == directory) {
            self.lines.push(format!("{indent}(a submodule that is not checked out)"));
        } else if entries.is_empty() {
            self.lines.push(format!("{indent}(empty)"));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, entry) in entries.iter().take(*most) {
            let shown = printable(Path::new(name));
            match entry {
                Entry::Directory => {
                    self.lines.push(format!("{indent}{shown}/"));
                    if let Err(error) = self.level(&directory.join(name), depth + 1) {
                        self.lines.push(format!("{indent}  (cannot be read: {})", reason_of(&error)));
                    }
                }
                Entry::Link(target) => self.lines.push(format!("{indent}{shown} -> {}", printable(target))),
                Entry::File(_) => self.lines.push(format!("{indent}{shown}")),
                Entry::Other => self.lines.push(format!("{indent}{shown} (pipe, socket or device)")),
            }
        }
        if entries.len() > *most {
            self.lines.push(format!("{indent}[… {at_least}{} more names …]", entries.len() - most));
        }
        Ok(())
    }
}

/// A name on one line, whatever it holds.
fn printable(name: &Path) -> String {
    name.to_string_lossy().replace(char::is_control, "\u{FFFD}")
}

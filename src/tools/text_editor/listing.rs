//! Lists a directory for a model, two levels deep, without `.git` and with a bound on everything.
//! Reads names and types only; follows no symbolic link.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names shown of the directory itself, and of each one in it.
const MOST_NAMES: [usize; 2] = [400, 50];
/// Names read of one directory; more are only counted up to here.
const MOST_NAMES_READ: usize = 20_000;

/// The listing of `directory`, one name per line; directories end with `/`.
pub(super) fn list(directory: &Path) -> io::Result<String> {
    let mut out = Vec::new();
    level(directory, 0, &mut out)?;
    Ok(out.join("\n"))
}

fn level(directory: &Path, depth: usize, out: &mut Vec<String>) -> io::Result<()> {
    let Some(most) = MOST_NAMES.get(depth) else {
        return Ok(());
    };
    let indent = "  ".repeat(depth);
    let entries = read(directory)?;
    if entries.is_empty() {
        // Worth a word: this is how a submodule looks that nobody initialised.
        out.push(format!("{indent}(empty)"));
    }
    for (path, kind) in entries.iter().take(*most) {
        let name = printable(path.file_name().map(Path::new).unwrap_or(path));
        match kind {
            kind if kind.is_dir() => {
                out.push(format!("{indent}{name}/"));
                if let Err(error) = level(path, depth + 1, out) {
                    out.push(format!("{indent}  (cannot be read: {error})"));
                }
            }
            kind if kind.is_symlink() => {
                let target = fs::read_link(path).map(|target| printable(&target)).unwrap_or_default();
                out.push(format!("{indent}{name} -> {target}"));
            }
            kind if kind.is_file() => out.push(format!("{indent}{name}")),
            _ => out.push(format!("{indent}{name} (pipe, socket or device)")),
        }
    }
    if entries.len() > *most {
        let at_least = if entries.len() >= MOST_NAMES_READ { "at least " } else { "" };
        out.push(format!("{indent}[… {at_least}{} more names …]", entries.len() - most));
    }
    Ok(())
}

/// The entries without `.git`, sorted by name.
fn read(directory: &Path) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)?.take(MOST_NAMES_READ) {
        let entry = entry?;
        if !entry.file_name().eq_ignore_ascii_case(".git") {
            entries.push((entry.path(), entry.file_type()?));
        }
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

/// A name on one line, whatever it holds.
fn printable(name: &Path) -> String {
    name.to_string_lossy().replace(char::is_control, "\u{FFFD}")
}

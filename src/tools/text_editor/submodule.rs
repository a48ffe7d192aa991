//! Submodules of the tree, as `.gitmodules` names them, and whether their files are here.
//! Reads that one file through the handle of the tree; never asks git.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::path::{Tree, read_up_to};

const FILE_NAME: &str = ".gitmodules";
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// The submodule without files that `path` is, or lies in.
pub(super) fn around(tree: &Tree, path: &Path) -> Option<PathBuf> {
    let submodules = empty_ones(tree);
    path.ancestors().find(|above| submodules.iter().any(|one| one == above)).map(Path::to_path_buf)
}

/// The submodules that are not checked out.
pub(super) fn empty_ones(tree: &Tree) -> Vec<PathBuf> {
    let file = tree.beneath.open_file(Path::new(FILE_NAME));
    let Ok(bytes) = file.and_then(|file| read_up_to(&file, LARGEST_FILE_BYTES)) else { return Vec::new() };
    let is_empty = |path: &PathBuf| match tree.beneath.entries(path, 1) {
        Ok(entries) => entries.is_empty(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    paths(&String::from_utf8_lossy(&bytes)).filter(is_empty).collect()
}

/// The values of `path` in git's configuration syntax.
fn paths(text: &str) -> impl Iterator<Item = PathBuf> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"').trim_end_matches('/');
        (key.trim().eq_ignore_ascii_case("path") && !value.is_empty()).then(|| PathBuf::from(value))
    })
}

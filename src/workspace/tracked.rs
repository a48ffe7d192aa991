//! Changes of tracked files that nobody meant: a Git LFS pointer overwritten, a submodule moved or
//! gone, a file grown to a giant (cases C53, C54). They are left out of the commit and told.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::{Workspace, submodules, suspicious};
use crate::error::Result;

/// First line of a Git LFS pointer; a pointer is never longer than the bytes below.
const LFS_VERSION: &str = "version https://git-lfs.github.com/spec/v1";
const LARGEST_POINTER_BYTES: u64 = 1024;

/// Paths for one command line.
const PATHS_AT_ONCE: usize = 500;

/// What is left out of the commit, each with the reason.
#[derive(Default)]
pub(super) struct NotMeant<'a> {
    /// Files that stay as the last commit has them.
    pub(super) files: Vec<(&'a [u8], &'static str)>,
    /// Submodules that stay as they are staged: path and commit.
    pub(super) gitlinks: Vec<(&'a [u8], &'a str)>,
    /// Directories of submodules with files that git does not see.
    pub(super) unseen: Vec<&'a [u8]>,
}

impl Workspace {
    /// Path and commit of each submodule, as staged.
    pub(super) fn gitlinks(&self) -> Result<HashMap<Vec<u8>, String>> {
        let listed = self.in_tree().run_bytes("cannot list the files", ["ls-files", "--stage", "-z"])?;
        Ok(submodules::gitlinks(&listed))
    }

    /// Sorts out the tracked files that differ from the last commit; each with whether it differs
    /// from what is staged.
    pub(super) fn not_meant<'a>(
        &self,
        changed: &[(&'a [u8], bool)],
        gitlinks: &'a HashMap<Vec<u8>, String>,
    ) -> Result<NotMeant<'a>> {
        let mut found = NotMeant::default();
        let mut plain = Vec::new();
        for (path, is_unstaged) in changed {
            match gitlinks.get(*path) {
                Some(sha) if *is_unstaged => found.gitlinks.push((*path, sha.as_str())),
                Some(_) => {}
                None => plain.push(*path),
            }
        }
        for path in gitlinks.keys() {
            let dir = self.in_tree_path(path);
            let is_directory = std::fs::symlink_metadata(&dir).is_ok_and(|metadata| metadata.is_dir());
            if is_directory
                && !dir.join(".git").exists()
                && dir.read_dir().is_ok_and(|mut names| names.next().is_some())
            {
                found.unseen.push(path);
            }
        }
        for path in self.pointers_among(&plain)? {
            if self.is_no_pointer_now(path) {
                found.files.push((path, "in Git LFS, which is not used here"));
            }
        }
        for path in plain {
            let now = std::fs::symlink_metadata(self.in_tree_path(path)).map_or(0, |metadata| metadata.len());
            if now > suspicious::LARGEST_FILE_BYTES
                && now > self.committed_bytes(path)? + suspicious::LARGEST_FILE_BYTES
            {
                found.files.push((path, "grew by more than 5 MiB"));
            }
        }
        Ok(found)
    }

    fn in_tree_path(&self, path: &[u8]) -> PathBuf {
        self.tree().join(OsStr::from_bytes(path))
    }

    /// Those that the last commit has as pointers.
    fn pointers_among<'a>(&self, paths: &[&'a [u8]]) -> Result<Vec<&'a [u8]>> {
        let pattern = format!("^{LFS_VERSION}");
        let mut found = Vec::new();
        for some in paths.chunks(PATHS_AT_ONCE) {
            let options = ["grep", "--files-with-matches", "--null", "--basic-regexp", "-e", &pattern, "HEAD", "--"];
            let args = options.iter().map(OsStr::new).chain(some.iter().map(|path| OsStr::from_bytes(path)));
            let listed = self.in_tree().finish(args)?.stdout.to_bytes();
            for name in listed.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(b"HEAD:")) {
                let path = some.iter().find(|path| **path == name);
                if let Some(path) = path
                    && self.committed_bytes(path)? <= LARGEST_POINTER_BYTES
                {
                    found.push(*path);
                }
            }
        }
        Ok(found)
    }

    /// A file that is gone is no pointer either, but that is meant.
    fn is_no_pointer_now(&self, path: &[u8]) -> bool {
        let path = self.in_tree_path(path);
        if !std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            return false;
        }
        let mut start = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(LARGEST_POINTER_BYTES).read_to_end(&mut start));
        read.is_ok() && !start.starts_with(LFS_VERSION.as_bytes())
    }

    /// Size of a file in the last commit; 0 when it is not there.
    fn committed_bytes(&self, path: &[u8]) -> Result<u64> {
        let mut name = OsString::from("HEAD:");
        name.push(OsStr::from_bytes(path));
        let finished = self.in_tree().finish([OsStr::new("cat-file"), OsStr::new("-s"), &name])?;
        Ok(finished.stdout.to_text().trim().parse().unwrap_or(0))
    }
}

//! Whether the issue files can be worked on. Reads only.

use std::path::Path;

use super::{Local, is_url, stem};
use crate::error::{Error, Result};
use crate::ports::{Finding, FindingState, Forge as _, ItemState};
use crate::sys::file;
use crate::task::TaskKey;
use crate::text::counted;

const ISSUE_FILES: &str = "issue files";

impl Local {
    pub(super) fn finding(&self) -> Finding {
        self.looked_at().unwrap_or_else(|error| {
            Finding::of(ISSUE_FILES, FindingState::Bad, &error, "let the user of the agent read `local.tasks_dir`")
        })
    }

    fn looked_at(&self) -> Result<Finding> {
        self.probe()?;
        let (mut count, mut faults) = (0, Vec::new());
        for name in file::names(&self.tasks_dir)?.iter().filter_map(|name| stem(name)) {
            count += 1;
            if let Err(error) = self.fit_for_work(name) {
                faults.push(error.explained());
            }
        }
        let (dir, files) = (self.tasks_dir.display(), counted(count, "issue file"));
        if faults.is_empty() {
            return Ok(Finding::good(ISSUE_FILES, format!("`{dir}` has {files}")));
        }
        let finding = format!("of {files}, {} cannot be worked on: {}", faults.len(), faults.join("; "));
        Ok(Finding::warning(ISSUE_FILES, finding, "mend them; the README shows how such a file looks"))
    }

    /// Whether an issue file can be read and, where it waits, leads to a repository.
    fn fit_for_work(&self, name: &str) -> Result<()> {
        let key = TaskKey::local(name)?;
        let Some(item) = self.item(&key)? else { return Ok(()) };
        if item.state != ItemState::Open || !item.has_label(&self.labels.bot) {
            return Ok(());
        }
        let file = self.issue_path(name);
        let of_file = |error: Error| {
            let sentence = error.sentence();
            let is_named = sentence.contains(&format!("`{}`", file.display()));
            if is_named { error } else { Error::task(format!("`{}`: {sentence}", file.display())) }
        };
        let url = self.repository(&key).map_err(of_file)?.url;
        // Whether another machine has it shows when it is cloned.
        let path = Path::new(&url);
        if is_url(&url) || is_repository(path) {
            return Ok(());
        }
        let why = if path.exists() { "is no git repository" } else { "does not exist" };
        Err(of_file(Error::task(format!("its `repository:` leads to `{url}`, which {why}"))))
    }
}

/// Whether a work tree or a bare repository stands there; what only git can tell is left to it.
fn is_repository(path: &Path) -> bool {
    path.join(".git").exists() || (path.join("HEAD").exists() && path.join("objects").exists())
}

//! The tool `text_editor`: views files of the work tree and edits them so that nothing changes but
//! what was asked. This file runs the commands; the rules live in its modules: `command` (shape of
//! the arguments), `path` (containment), `document` (bytes and text), `endings`, `search`, `edit`
//! (pure), `view`, `listing`, `submodule` (what the model sees), `history` (undo).
//! It never opens anything outside the tree or in `.git`, and never runs a program.

mod command;
mod document;
mod edit;
mod endings;
mod history;
mod listing;
mod path;
mod search;
mod submodule;
mod view;

use std::path::PathBuf;

use crate::chat::Arguments;
use crate::error::Error;
use crate::ports::{ToolResult, ToolServer, ToolSpec};
use crate::sys::{fault, file};

use command::Command;
use document::Document;
use edit::Edited;
use history::History;
use path::{Found, Place, Tree};

const TOOL: &str = "text_editor";

/// Views and edits the text files below one directory.
#[derive(Debug)]
pub struct TextEditor {
    root: PathBuf,
    history: History,
}

impl TextEditor {
    /// An editor of the work tree at `root`, which must exist once it is called. What `undo_edit`
    /// needs is kept in the directory `history`: outside the tree, on the same file system.
    pub fn new(root: PathBuf, history: PathBuf) -> TextEditor {
        Self { root, history: History::new(history) }
    }
}

impl ToolServer for TextEditor {
    fn name(&self) -> &str {
        "text-editor"
    }

    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            wire_name: TOOL.to_owned(),
            description: command::DESCRIPTION.to_owned(),
            schema: command::schema(),
        }]
    }

    fn call(&mut self, tool: &str, arguments: &Arguments) -> ToolResult {
        if tool != TOOL {
            return ToolResult::error(format!("there is no tool `{tool}` here; the only one is `{TOOL}`"));
        }
        match self.run(arguments) {
            Ok(text) => ToolResult::good(text),
            Err(text) => ToolResult::error(text),
        }
    }
}

// Refusals are `String`s, not `Error`s: they are results for the model and end nothing.
impl TextEditor {
    fn run(&mut self, arguments: &Arguments) -> Result<String, String> {
        let tree = Tree::open(&self.root)?;
        match Command::read(arguments)? {
            Command::View { path, range } => show(&tree.locate(path)?, range),
            Command::Create { path, file_text, overwrite } => self.create(&tree.locate(path)?, file_text, overwrite),
            Command::StrReplace { path, old_str, new_str } => {
                self.edit(&tree.locate(path)?, |document| edit::replace(document, old_str, new_str))
            }
            Command::Insert { path, insert_line, new_str } => {
                self.edit(&tree.locate(path)?, |document| edit::insert(document, insert_line, new_str))
            }
            Command::UndoEdit { path } => self.undo(&tree.locate(path)?),
        }
    }

    fn create(&mut self, place: &Place<'_>, file_text: &str, overwrite: bool) -> Result<String, String> {
        let shown = &place.shown;
        place.check_writable()?;
        if place.mode().is_some() && !overwrite {
            return Err(format!(
                "`{shown}` exists already; change it with `str_replace`, or pass `overwrite` true to replace all of it"
            ));
        }
        refuse_submodule(place)?;
        let old = place.read()?;
        if let Some(document) = old.as_deref().and_then(|bytes| Document::parse(bytes).ok()) {
            refuse_lfs(place, &document)?;
        }
        let document = Document::rewrite(old.as_deref(), file_text);
        let new = document.bytes();
        if old.as_ref() == Some(&new) {
            return Err(format!("no change: `{shown}` already has exactly this content"));
        }
        let verb = if old.is_some() { "replaced" } else { "created" };
        let count = document.text.lines().count();
        self.write(place, old.as_deref(), &new)?;
        Ok(format!("{verb} `{shown}` ({count} lines)"))
    }

    fn edit(
        &mut self,
        place: &Place<'_>,
        change: impl FnOnce(&Document) -> Result<Edited, String>,
    ) -> Result<String, String> {
        let shown = &place.shown;
        place.check_writable()?;
        let Some(bytes) = place.read()? else {
            refuse_submodule(place)?;
            return Err(format!(
                "`{shown}` does not exist; make it with `create`, or view its directory to find the right name"
            ));
        };
        let document = Document::parse(&bytes).map_err(|what| format!("cannot edit `{shown}`: {what}"))?;
        refuse_lfs(place, &document)?;
        let edited = change(&document).map_err(|what| format!("`{shown}` is unchanged: {what}"))?;
        self.write(place, Some(&bytes), &edited.document.bytes())?;
        if edited.document.text.is_empty() {
            return Ok(format!("edited `{shown}`; the file is now empty"));
        }
        let now = view::around(&edited.document.text, edited.lines);
        Ok(format!("edited `{shown}`; the place is now:\n{now}"))
    }

    fn undo(&mut self, place: &Place<'_>) -> Result<String, String> {
        let shown = &place.shown;
        place.check_writable()?;
        let Some(edit) = self.history.newest(&place.path).map_err(told)? else {
            return Err(format!("nothing to undo: there is no edit of `{shown}` by this tool left to take back"));
        };
        let now = place.read()?;
        if now.as_ref() != Some(&edit.after) {
            if now != edit.before {
                return Err(format!(
                    "cannot undo: `{shown}` was changed by something else since the last edit, and that change would \
                     be lost; view it and edit it with `str_replace`"
                ));
            }
            self.history.forget(edit.number).map_err(told)?;
            return Err(format!(
                "`{shown}` is already as it was before the last edit, which was interrupted or taken back otherwise; \
                 nothing was changed. Call `undo_edit` again to take back the edit before that one"
            ));
        }
        let done = match &edit.before {
            Some(before) => {
                self.put(place, before)?;
                format!("`{shown}` is again as it was before the last edit")
            }
            None => {
                place.remove()?;
                format!("`{shown}` is removed again: the last edit had created it")
            }
        };
        fault::point("text_editor.taken_back");
        self.history.forget(edit.number).map_err(told)?;
        Ok(done)
    }

    /// Changes the file: first what undo needs is on the disk, then the change.
    fn write(&mut self, place: &Place<'_>, old: Option<&[u8]>, new: &[u8]) -> Result<(), String> {
        let number = self.history.add(&place.path, old, new).map_err(told)?;
        fault::point("text_editor.kept");
        if let Err(refusal) = self.put(place, new) {
            // What failed may be the last step, after the new content stood there.
            if !place.now_holds(new) {
                // Should this fail too, undo finds the file as it was before, and says so.
                let _ = self.history.forget(number);
            }
            return Err(refusal);
        }
        fault::point("text_editor.written");
        Ok(())
    }

    /// Puts a file with these bytes in place, whole or not at all.
    fn put(&self, place: &Place<'_>, bytes: &[u8]) -> Result<(), String> {
        let staged = self.history.staged();
        file::stage(&staged, bytes, place.mode()).map_err(told)?;
        fault::point("text_editor.staged");
        place.take_in(&staged).inspect_err(|_| {
            // It goes at the next start otherwise.
            let _ = file::remove(&staged);
        })
    }
}

// By value: for `map_err`.
#[allow(clippy::needless_pass_by_value)]
fn told(error: Error) -> String {
    format!("{error:#}")
}

fn show(place: &Place<'_>, range: Option<[i64; 2]>) -> Result<String, String> {
    let shown = &place.shown;
    if place.found == Found::Directory {
        if range.is_some() {
            return Err(format!("`{shown}` is a directory; `view_range` is for files only"));
        }
        return listing::list(place.tree, &place.path)
            .map_err(|error| format!("cannot list `{shown}`: {}", file::reason_of(&error)));
    }
    let Some(bytes) = place.read()? else {
        refuse_submodule(place)?;
        return Err(format!("`{shown}` does not exist; view its directory (`.` is the top) to find the right name"));
    };
    let document = Document::parse(&bytes).map_err(|what| format!("cannot view `{shown}`: {what}"))?;
    let text = document.text.as_str();
    let lines = view::check_range(range, text.lines().count())?;
    if text.is_empty() {
        return Ok(format!("`{shown}` is empty"));
    }
    let ends_here = lines.end > text.lines().count();
    let mut out =
        document.lfs_note().map(|note| format!("`{shown}` is {note}. It cannot be edited.\n")).unwrap_or_default();
    out.push_str(&view::numbered(text, lines));
    if ends_here && !text.ends_with('\n') {
        out.push_str("[no line break at the end of the file]\n");
    }
    Ok(out)
}

/// An edited pointer would point at nothing, and the content is not here to be edited.
fn refuse_lfs(place: &Place<'_>, document: &Document) -> Result<(), String> {
    match document.lfs_note() {
        Some(note) => Err(format!("cannot edit `{}`: it is {note}; leave it alone", place.shown)),
        None => Ok(()),
    }
}

/// What lies in an empty submodule would be in no commit, and what should lie there is elsewhere.
fn refuse_submodule(place: &Place<'_>) -> Result<(), String> {
    match submodule::around(place.tree, &place.path) {
        Some(submodule) => Err(format!(
            "`{}` is in `{}`, a submodule that is not checked out: its files are not here, and new ones would be in \
             no commit",
            place.shown,
            submodule.display()
        )),
        None => Ok(()),
    }
}

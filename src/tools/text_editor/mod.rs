//! The tool `text_editor`: views files of the work tree and edits them so that nothing changes but
//! what was asked. This file runs the commands; the rules live in its modules: `command` (shape of
//! the arguments), `path` (containment), `document` (bytes and text), `endings`, `search`, `edit`
//! (pure), `view`, `listing` (what the model sees), `history` (undo).
//! It never opens anything outside the tree or in `.git`, and never runs a program.

mod command;
mod document;
mod edit;
mod endings;
mod history;
mod listing;
mod path;
mod search;
mod view;

use std::fs;
use std::path::PathBuf;

use crate::chat::Arguments;
use crate::ports::{ToolResult, ToolServer, ToolSpec};
use crate::sys::file::{remove, replace_keeping_mode};

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
    /// An editor of the work tree at `root`, which must exist once it is called.
    pub fn new(root: PathBuf) -> TextEditor {
        Self { root, history: History::default() }
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

    fn create(&mut self, place: &Place, file_text: &str, overwrite: bool) -> Result<String, String> {
        let shown = &place.shown;
        place.check_writable()?;
        if place.found == Found::File && !overwrite {
            return Err(format!(
                "`{shown}` exists already; change it with `str_replace`, or pass `overwrite` true to replace all of it"
            ));
        }
        let old = place.read()?;
        if let Some(document) = old.as_deref().and_then(|bytes| Document::parse(bytes).ok()) {
            refuse_lfs(place, &document)?;
        }
        let document = Document::rewrite(old.as_deref(), file_text);
        let new = document.bytes();
        if old.as_ref() == Some(&new) {
            return Err(format!("no change: `{shown}` already has exactly this content"));
        }
        if let Some(directory) = place.real.parent() {
            fs::create_dir_all(directory)
                .map_err(|error| format!("cannot create the directory of `{shown}`: {error}"))?;
        }
        let verb = if old.is_some() { "replaced" } else { "created" };
        let count = document.text.lines().count();
        self.write(place, old, new)?;
        Ok(format!("{verb} `{shown}` ({count} lines)"))
    }

    fn edit(
        &mut self,
        place: &Place,
        change: impl FnOnce(&Document) -> Result<Edited, String>,
    ) -> Result<String, String> {
        let shown = &place.shown;
        place.check_writable()?;
        let bytes = place.read()?.ok_or_else(|| {
            format!("`{shown}` does not exist; make it with `create`, or view its directory to find the right name")
        })?;
        let document = Document::parse(&bytes).map_err(|what| format!("cannot edit `{shown}`: {what}"))?;
        refuse_lfs(place, &document)?;
        let edited = change(&document).map_err(|what| format!("`{shown}` is unchanged: {what}"))?;
        self.write(place, Some(bytes), edited.document.bytes())?;
        if edited.document.text.is_empty() {
            return Ok(format!("edited `{shown}`; the file is now empty"));
        }
        let now = view::around(&edited.document.text, edited.lines);
        Ok(format!("edited `{shown}`; the place is now:\n{now}"))
    }

    fn undo(&mut self, place: &Place) -> Result<String, String> {
        let shown = &place.shown;
        place.check_writable()?;
        let Some(edit) = self.history.last(&place.real) else {
            return Err(format!("nothing to undo: there is no edit of `{shown}` by this tool left to take back"));
        };
        if place.read()?.as_ref() != Some(&edit.after) {
            return Err(format!(
                "cannot undo: `{shown}` was changed by something else since the last edit, and that change would be \
                 lost; view it and edit it with `str_replace`"
            ));
        }
        let done = match &edit.before {
            Some(before) => {
                replace_keeping_mode(&place.real, before).map_err(|error| format!("{error:#}"))?;
                format!("`{shown}` is again as it was before the last edit")
            }
            None => {
                remove(&place.real).map_err(|error| format!("cannot remove `{shown}`: {error}"))?;
                format!("`{shown}` is removed again: the last edit had created it")
            }
        };
        self.history.pop(&place.real);
        Ok(done)
    }

    fn write(&mut self, place: &Place, old: Option<Vec<u8>>, new: Vec<u8>) -> Result<(), String> {
        replace_keeping_mode(&place.real, &new).map_err(|error| format!("{error:#}"))?;
        self.history.push(&place.real, old, new);
        Ok(())
    }
}

fn show(place: &Place, range: Option<[i64; 2]>) -> Result<String, String> {
    let shown = &place.shown;
    if place.found == Found::Directory {
        if range.is_some() {
            return Err(format!("`{shown}` is a directory; `view_range` is for files only"));
        }
        return listing::list(&place.real).map_err(|error| format!("cannot list `{shown}`: {error}"));
    }
    let bytes = place.read()?.ok_or_else(|| {
        format!("`{shown}` does not exist; view its directory (`.` is the top) to find the right name")
    })?;
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
fn refuse_lfs(place: &Place, document: &Document) -> Result<(), String> {
    match document.lfs_note() {
        Some(note) => Err(format!("cannot edit `{}`: it is {note}; leave it alone", place.shown)),
        None => Ok(()),
    }
}

//! The arguments of `text_editor`: the schema shown to the model, and the reading of what it sent.
//! Owns every rule about the shape of an argument; never touches a file.

use serde_json::{Value, json};

use crate::chat::Arguments;

/// One call, with arguments of the right types.
#[derive(Debug)]
pub(super) enum Command<'a> {
    View { path: &'a str, range: Option<[i64; 2]> },
    Create { path: &'a str, file_text: &'a str, overwrite: bool },
    StrReplace { path: &'a str, old_str: &'a str, new_str: &'a str },
    Insert { path: &'a str, insert_line: i64, new_str: &'a str },
    UndoEdit { path: &'a str },
}

const COMMANDS: [&str; 5] = ["view", "create", "str_replace", "insert", "undo_edit"];

pub(super) const DESCRIPTION: &str = "\
Views and edits text files of the work tree. Commands:
view {path, view_range?}: shows a file with line numbers (they are not part of the file), or lists a directory two \
levels deep.
create {path, file_text, overwrite?}: writes a new file and its directories; an existing file only with overwrite true.
str_replace {path, old_str, new_str}: replaces old_str, taken literally, which must occur exactly once; take enough \
lines to make it unique. An empty new_str deletes.
insert {path, insert_line, new_str}: puts whole lines after line insert_line; 0 is before the first line.
undo_edit {path}: takes back the last edit of the file made with this tool; the last ten can be taken back one by one.
Line endings, byte order mark, mode and a missing last line break are kept; write \\n for a line break always.";

/// The JSON Schema: one flat object, because small servers compile nothing else into a grammar.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": COMMANDS, "description": "What to do."},
            "path": {
                "type": "string",
                "description": "File or directory, relative to the work tree, or absolute inside it."
            },
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "For view: [first line, last line], counted from 1; -1 as the last means to the end."
            },
            "file_text": {"type": "string", "description": "For create: the whole content."},
            "overwrite": {"type": "boolean", "description": "For create: replace an existing file. Default false."},
            "old_str": {"type": "string", "description": "For str_replace: the text to replace; occurs exactly once."},
            "new_str": {"type": "string", "description": "For str_replace and insert: the new text."},
            "insert_line": {"type": "integer", "description": "For insert: the line after which to insert; 0 is the top."}
        },
        "required": ["command", "path"]
    })
}

impl<'a> Command<'a> {
    /// Reads the arguments; a refusal names the argument and what it may be.
    pub(super) fn read(arguments: &'a Arguments) -> Result<Self, String> {
        let names = COMMANDS.map(|name| format!("`{name}`")).join(", ");
        let name = text(arguments, "command", &format!("one of {names}"))?;
        let path = || text(arguments, "path", "a path relative to the work tree, such as `src/main.rs`");
        match name {
            "view" => Ok(Self::View { path: path()?, range: range(arguments)? }),
            "create" => Ok(Self::Create {
                path: path()?,
                file_text: text(arguments, "file_text", "the whole content of the file as text")?,
                overwrite: flag(arguments, "overwrite")?,
            }),
            "str_replace" => Ok(Self::StrReplace {
                path: path()?,
                old_str: text(arguments, "old_str", "text that occurs exactly once in the file")?,
                new_str: text(arguments, "new_str", "the text to put in place of `old_str`; \"\" deletes it")?,
            }),
            "insert" => Ok(Self::Insert {
                path: path()?,
                insert_line: line(arguments, "insert_line")?,
                new_str: text(arguments, "new_str", "the lines to insert, as text")?,
            }),
            "undo_edit" => Ok(Self::UndoEdit { path: path()? }),
            other => Err(format!("`command` is {}; it must be one of {names}", shown(&Value::from(other)))),
        }
    }
}

/// An argument that is there; models send `null` for what they leave out.
fn present<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a Value> {
    arguments.get(name).filter(|value| !value.is_null())
}

fn text<'a>(arguments: &'a Arguments, name: &str, allowed: &str) -> Result<&'a str, String> {
    match present(arguments, name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("`{name}` is {}; it must be {allowed}", shown(other))),
        None => Err(format!("`{name}` is missing; it must be {allowed}")),
    }
}

fn flag(arguments: &Arguments, name: &str) -> Result<bool, String> {
    match present(arguments, name) {
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(format!("`{name}` is {}; it must be true or false", shown(other))),
        None => Ok(false),
    }
}

fn line(arguments: &Arguments, name: &str) -> Result<i64, String> {
    let allowed = "the number of the line after which to insert, 0 for the top of the file";
    let value = present(arguments, name).ok_or_else(|| format!("`{name}` is missing; it must be {allowed}"))?;
    integer(value).ok_or_else(|| format!("`{name}` is {}; it must be {allowed}", shown(value)))
}

fn range(arguments: &Arguments) -> Result<Option<[i64; 2]>, String> {
    let Some(value) = present(arguments, "view_range") else {
        return Ok(None);
    };
    let bounds = match value.as_array().map(Vec::as_slice) {
        Some([first, last]) => integer(first).zip(integer(last)),
        _ => None,
    };
    bounds.map(|(first, last)| Some([first, last])).ok_or_else(|| {
        let allowed = "two line numbers [first, last], counted from 1; -1 as the last means to the end";
        format!("`view_range` is {}; it must be {allowed}", shown(value))
    })
}

/// JSON Schema counts `3.0` as an integer, and some models write it.
fn integer(value: &Value) -> Option<i64> {
    const EXACT_LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53: above it a float no longer names one integer
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < EXACT_LIMIT).then_some(number as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(whole))
}

/// A value as an error shows it.
fn shown(value: &Value) -> String {
    const LONGEST_BYTES: usize = 60;
    let text = value.to_string();
    let start = crate::text::head(&text, LONGEST_BYTES);
    if start.len() < text.len() { format!("`{start}…`") } else { format!("`{text}`") }
}

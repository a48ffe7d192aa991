//! A work tree with the text editor on it, without the program around it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use coding_agent::ports::{ToolResult, ToolServer as _};
use coding_agent::tools::text_editor::TextEditor;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A work tree with an editor, and beside it a directory that is none of the editor's business.
pub struct Desk {
    pub home: TempDir,
    pub editor: TextEditor,
}

impl Desk {
    pub fn new() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap())
    }

    /// In memory where that is possible: for tests of many edits, each of which waits for the disk.
    pub fn fast() -> Self {
        Self::in_dir(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn in_dir(home: TempDir) -> Self {
        fs::create_dir_all(home.path().join("tree/.git")).unwrap();
        fs::create_dir(home.path().join("outside")).unwrap();
        fs::write(home.path().join("tree/.git/config"), "[core]\n").unwrap();
        fs::write(home.path().join("outside/secret.txt"), "secret\n").unwrap();
        let editor = TextEditor::new(home.path().join("tree"), home.path().join("edits"));
        Self { home, editor }
    }

    /// As a new process would find it.
    pub fn resume(&mut self) {
        self.editor = TextEditor::new(self.path(""), self.edits());
    }

    /// Where the editor keeps what undo needs.
    pub fn edits(&self) -> PathBuf {
        self.home.path().join("edits")
    }

    pub fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }

    pub fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn with(path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let desk = Self::new();
        fs::write(desk.path(path), bytes).unwrap();
        desk
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.home.path().join("tree").join(path)
    }

    pub fn outside(&self) -> PathBuf {
        self.home.path().join("outside")
    }

    pub fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap()
    }

    pub fn call(&mut self, arguments: Value) -> ToolResult {
        self.editor.call("text_editor", arguments.as_object().unwrap())
    }

    #[track_caller]
    pub fn good(&mut self, arguments: Value) -> String {
        let result = self.call(arguments);
        assert!(!result.is_error, "{}", result.text);
        result.text
    }

    #[track_caller]
    pub fn refused(&mut self, arguments: Value, because: &str) -> String {
        let result = self.call(arguments);
        assert!(result.is_error, "worked: {}", result.text);
        assert!(result.text.contains(because), "`{}` does not say `{because}`", result.text);
        result.text
    }
}

pub fn view(path: &str) -> Value {
    json!({"command": "view", "path": path})
}

pub fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

pub fn overwrite(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text, "overwrite": true})
}

pub fn replace(path: &str, old: &str, new: &str) -> Value {
    json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
}

pub fn insert(path: &str, line: i64, new: &str) -> Value {
    json!({"command": "insert", "path": path, "insert_line": line, "new_str": new})
}

pub fn undo(path: &str) -> Value {
    json!({"command": "undo_edit", "path": path})
}

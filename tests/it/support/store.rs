//! The context directory of one made-up task, without the program around it.

use std::path::PathBuf;

use coding_agent::chat::{Message, Role, ToolCall, Usage};
use coding_agent::context::{Contexts, Metadata, TaskContext, ToolRecord};
use coding_agent::error::Result;
use coding_agent::ports::ToolResult;
use coding_agent::sys::file::Sync;
use coding_agent::task::{TaskId, TaskKey, TaskMessage};
use serde_json::json;

/// Context directories of one task, in a directory that goes when this is dropped.
pub struct Store {
    dir: tempfile::TempDir,
    /// Its entry in the queue.
    pub message: TaskMessage,
}

impl Store {
    pub fn new() -> Self {
        let message = TaskMessage {
            key: TaskKey::local("fix").unwrap(),
            uuid: TaskId::from_u128(7),
            user: Some("alice".into()),
            enqueued_at: "2024-12-07T03:00:00+00:00".into(),
            paused_context_path: None,
        };
        Self { dir: tempfile::tempdir().unwrap(), message }
    }

    pub fn base_dir(&self) -> PathBuf {
        self.dir.path().join("contexts")
    }

    pub fn contexts(&self) -> Contexts {
        Contexts::new(&self.base_dir(), Sync::Now, true)
    }

    pub fn metadata(&self) -> Metadata {
        Metadata::new(self.message.clone(), "widgets".into(), true)
    }

    pub fn create(&self) -> TaskContext {
        self.contexts().create(self.metadata()).unwrap()
    }

    pub fn resume(&self) -> TaskContext {
        self.contexts().resume(&self.message).unwrap()
    }

    /// Its directory in a place.
    pub fn path(&self, place: &str) -> PathBuf {
        self.base_dir().join(place).join(self.message.uuid.to_string())
    }

    /// A file of it while it runs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path("running").join(name)
    }
}

/// The call of that turn and place.
pub fn call(turn: u64, index: usize) -> ToolCall {
    ToolCall {
        id: format!("c{turn:05}{index:03}"),
        name: "run".into(),
        arguments: r#"{"command":"true"}"#.into(),
        extra: None,
    }
}

/// Records a command that ended with exit code 3.
pub fn record(context: &mut TaskContext, command: &str) -> Result<u64> {
    let arguments = json!({ "command": command });
    let result = ToolResult { text: "out".into(), whole: None, is_error: false, exit_code: Some(3) };
    let record =
        ToolRecord { tool_name: "run", arguments: arguments.as_object().unwrap(), result: &result, duration_ms: 5 };
    context.tools.add_tool_call(&record)
}

pub const USAGE: Option<Usage> = Some(Usage { prompt_tokens: 100, completion_tokens: 10, cached_tokens: 50 });

/// Orders, task, a turn with two calls and their results, and a turn with one.
pub fn messages() -> Vec<(Message, Option<Usage>)> {
    let turn = |turn: u64, calls: usize| {
        let calls: Vec<ToolCall> = (0..calls).map(|index| call(turn, index)).collect();
        let results = calls.iter().map(|call| (Message::tool_result(call, "終わり\n\"x\""), None)).collect::<Vec<_>>();
        [vec![(Message::assistant("", calls), USAGE)], results].concat()
    };
    let begin = vec![(Message::text(Role::System, "orders"), None), (Message::text(Role::User, "作業して"), None)];
    [begin, turn(0, 2), turn(1, 1)].concat()
}

/// Adds all of them, and the record of a command.
pub fn fill(context: &mut TaskContext) {
    for (message, usage) in messages() {
        context.messages.add(message, usage).unwrap();
    }
    record(context, "true").unwrap();
}

/// They as they are sent.
pub fn contents() -> Vec<Message> {
    messages().into_iter().map(|(message, _)| message).collect()
}

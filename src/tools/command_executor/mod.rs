//! The command executor: runs shell commands for the model. This file is the tool; how a command is
//! shut in is the backend's business.

mod bubblewrap;
mod environment;
mod host;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chat::Arguments;
use crate::ports::{ToolResult, ToolServer, ToolSpec};
use crate::sys::launcher::ResourceLimits;
use crate::sys::process::{Captured, Ending, Finished, Program};
use crate::sys::process_table::out_of_memory_kills;
use crate::task::TaskId;
use crate::text::{ProgramOutput, escaped};

pub use bubblewrap::Sandboxed;
pub use host::Host;

/// Runs a command line somewhere.
pub trait Backend {
    /// Runs `command` with `sh -c` in `dir`.
    ///
    /// # Errors
    /// When it cannot be started at all.
    fn run(&self, command: &str, dir: &Path, limits: Limits) -> crate::error::Result<Finished>;

    /// What the model should know of where its commands run; one sentence or nothing.
    fn surroundings(&self) -> &'static str;
}

/// Limits of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// After this long everything it started is killed.
    pub timeout: Duration,
    /// Bytes kept of each of stdout and stderr.
    pub output_bytes: usize,
    /// Memory of each of its processes, and how many there may be.
    pub resources: ResourceLimits,
}

impl Limits {
    /// `sh -c command` in `dir` within the limits of time and output.
    fn shell(&self, command: &str, dir: &Path, env: Vec<(String, OsString)>) -> Program {
        Program {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), command.into()],
            env,
            dir: dir.to_path_buf(),
            timeout: Some(self.timeout),
            output_limit_bytes: self.output_bytes,
            ends_with_us: true,
        }
    }
}

/// What programs say when they get no memory, in lower case: the C library, python, C++, rust, node, java, go.
const NO_MEMORY_WORDS: [&str; 7] = [
    "cannot allocate memory",
    "memory exhausted",
    "memoryerror",
    "bad_alloc",
    "memory allocation of",
    "outofmemoryerror",
    "out of memory",
];

/// Variable that marks every process of a task, so that a later run can end what a crash left.
pub const TASK_MARK: &str = "CODING_AGENT_TASK";

/// Ends the processes that a crashed run of this task left behind.
pub fn end_leftovers(uuid: TaskId) -> usize {
    crate::sys::process::end_marked(&format!("{TASK_MARK}={uuid}"))
}

/// The tool.
pub struct CommandExecutor {
    backend: Box<dyn Backend>,
    tree: PathBuf,
    limits: Limits,
}

impl CommandExecutor {
    /// Commands run below `tree` through `backend`.
    pub fn new(backend: Box<dyn Backend>, tree: PathBuf, limits: Limits) -> Self {
        Self { backend, tree, limits }
    }

    fn directory(&self, arguments: &Arguments) -> Result<PathBuf, String> {
        let Some(asked) = text(arguments, "working_directory")? else { return Ok(self.tree.clone()) };
        let refused = || {
            format!(
                "`working_directory` must be a directory inside the work tree, not `{}`",
                crate::text::head(asked, 200)
            )
        };
        let inside = |path: PathBuf| path.canonicalize().ok().filter(|path| path.is_dir());
        let root = inside(self.tree.clone()).ok_or_else(refused)?;
        // Not a wall (a command can `cd`), but a model that gets this wrong is told.
        inside(self.tree.join(asked)).filter(|path| path.starts_with(&root)).ok_or_else(refused)
    }

    fn execute(&self, arguments: &Arguments) -> Result<ToolResult, String> {
        let command = text(arguments, "command")?.filter(|command| !command.trim().is_empty());
        let command = command.ok_or("`command` must be a shell command line")?;
        if command.contains('\0') {
            return Err("`command` holds a NUL character".into());
        }
        let dir = self.directory(arguments)?;
        let asked = match arguments.get("timeout_seconds") {
            None | Some(Value::Null) => None,
            Some(value) => Some(
                value
                    .as_u64()
                    .filter(|seconds| *seconds > 0)
                    .ok_or("`timeout_seconds` must be a positive whole number")?,
            ),
        };
        let timeout =
            asked.map_or(self.limits.timeout, |seconds| Duration::from_secs(seconds).min(self.limits.timeout));
        let killed_before = out_of_memory_kills();
        let finished = self
            .backend
            .run(command, &dir, Limits { timeout, ..self.limits })
            .map_err(|error| format!("the command could not be started: {error:#}"))?;
        let (exit_code, ended) = match finished.ending {
            Ending::Code(code) => (Some(code), None),
            Ending::Signal(signal) => (None, Some(format!("killed by signal {signal}"))),
            Ending::TimedOut => (None, Some(format!("killed: it ran longer than {} s", timeout.as_secs()))),
            Ending::Interrupted => (None, Some("killed: the agent was asked to stop".to_owned())),
            Ending::TooManyProcesses(most) => {
                (None, Some(format!("killed: it had more than {most} processes and threads at a time")))
            }
        };
        let (stdout, stderr) = (shown(&finished.stdout), shown(&finished.stderr));
        let mut report = json!({
            "exit_code": exit_code,
            "stdout": stdout.text,
            "stderr": stderr.text,
            "duration_ms": u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(ended) = ended {
            report["ended"] = ended.into();
        }
        if let Some(note) = self.memory_note(&finished, out_of_memory_kills() > killed_before) {
            report["note"] = note.into();
        }
        let whole = (!stdout.is_whole || !stderr.is_whole).then(|| {
            let (stdout, stderr) = (finished.stdout.to_bytes(), finished.stderr.to_bytes());
            format!("stdout:\n{}\nstderr:\n{}\n", escaped(&stdout), escaped(&stderr))
        });
        Ok(ToolResult { text: report.to_string(), whole, is_error: false, exit_code })
    }
}

impl CommandExecutor {
    /// What is known about a lack of memory; an exit code alone says nothing of it.
    fn memory_note(&self, finished: &Finished, kernel_killed: bool) -> Option<String> {
        if !matches!(finished.ending, Ending::Code(1..) | Ending::Signal(_)) {
            return None;
        }
        if kernel_killed {
            return Some("meanwhile the machine ran out of memory and the kernel killed a process".into());
        }
        let limit_bytes = self.limits.resources.memory_bytes?;
        let stderr = finished.stderr.to_text().to_lowercase();
        NO_MEMORY_WORDS.iter().any(|words| stderr.contains(words)).then(|| {
            format!("each process may have {} MiB of memory; this one may have asked for more", limit_bytes >> 20)
        })
    }
}

impl ToolServer for CommandExecutor {
    fn name(&self) -> &str {
        "command-executor"
    }

    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            wire_name: "execute_command".into(),
            description: format!(
                "Run a shell command (sh -c) in the work tree. There is no terminal and no stdin: a program that asks \
                 questions gets end of file. What it leaves in the background ends with it. {}Returns exit_code, \
                 stdout, stderr, duration_ms.",
                self.backend.surroundings()
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command line." },
                    "working_directory": { "type": "string", "description": "Relative to the work tree; default: its top." },
                    "timeout_seconds": {
                        "type": "integer",
                        "description": format!("At most and by default {}.", self.limits.timeout.as_secs())
                    }
                },
                "required": ["command"]
            }),
        }]
    }

    fn call(&mut self, _tool: &str, arguments: &Arguments) -> ToolResult {
        self.execute(arguments).unwrap_or_else(ToolResult::error)
    }
}

fn shown(stream: &Captured) -> ProgramOutput {
    let (head, left_out_bytes, tail) = stream.parts();
    ProgramOutput::from_parts(head, left_out_bytes, &tail)
}

fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<Option<&'a str>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` must be a text")),
    }
}

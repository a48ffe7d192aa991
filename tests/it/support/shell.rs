//! The command executor on a work tree of its own, with either backend.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coding_agent::chat::Arguments;
use coding_agent::ports::{ToolResult, ToolServer as _};
use coding_agent::sys::bubblewrap::Bubblewrap;
use coding_agent::sys::launcher::ResourceLimits;
use coding_agent::task::TaskId;
use coding_agent::tools::command_executor::{Backend, CommandExecutor, Host, Limits, Sandboxed, TASK_MARK};
use serde_json::{Value, json};

use super::BINARY;

/// Far more than any command of a test needs: what ends, ended by itself.
pub const LIMITS: Limits = Limits {
    timeout: Duration::from_secs(120),
    output_bytes: 64 * 1024,
    resources: ResourceLimits { memory_bytes: None, processes: None },
};

/// Bubblewrap as the program itself would find it; `None`, and a line on stderr, where it does not
/// work and may be missing.
pub fn bubblewrap(read_only_paths: &[PathBuf]) -> Option<Bubblewrap> {
    coding_agent::sys::process::use_launcher(BINARY);
    let probed = Bubblewrap::probe(std::env::var_os("PATH"), read_only_paths, &["git", "--version"]);
    match probed {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            assert!(std::env::var_os("CODING_AGENT_TESTS_NEED_SANDBOX").is_none(), "{test}: {error:#}");
            // Not `eprintln!`: the test harness keeps that to itself.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error:#}");
            None
        }
    }
}

/// A work tree with a shell.
pub struct Shell {
    pub dir: tempfile::TempDir,
    pub uuid: TaskId,
    pub tool: CommandExecutor,
}

impl Shell {
    pub fn on_host() -> Self {
        Self::on_host_with(LIMITS)
    }

    pub fn on_host_with(limits: Limits) -> Self {
        coding_agent::sys::process::use_launcher(BINARY);
        Self::new(tempfile::tempdir().unwrap(), limits, |uuid, _, scratch| {
            Box::new(Host::new(uuid, scratch, std::env::var_os("PATH")).unwrap())
        })
    }

    /// In bubblewrap, with the network, below the directory for temporary files.
    pub fn shut_in() -> Option<Self> {
        Self::shut_in_with(tempfile::tempdir().unwrap(), LIMITS, true)
    }

    pub fn shut_in_with(dir: tempfile::TempDir, limits: Limits, network: bool) -> Option<Self> {
        let sandbox = bubblewrap(&[])?;
        Some(Self::new(dir, limits, |uuid, tree, scratch| {
            Box::new(Sandboxed::new(sandbox, network, uuid, tree, scratch).unwrap())
        }))
    }

    pub fn new(
        dir: tempfile::TempDir,
        limits: Limits,
        backend: impl FnOnce(TaskId, &Path, &Path) -> Box<dyn Backend>,
    ) -> Self {
        let (tree, uuid) = (dir.path().join("tree"), uuid::Uuid::new_v4());
        std::fs::create_dir(&tree).unwrap();
        let backend = backend(uuid, &tree, &dir.path().join("scratch"));
        Self { tool: CommandExecutor::new(backend, tree, limits), dir, uuid }
    }

    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    pub fn call(&mut self, arguments: Value) -> ToolResult {
        let Value::Object(arguments): Value = arguments else { panic!("arguments are an object") };
        self.tool.call("execute_command", &arguments as &Arguments)
    }

    /// Runs a command; its report, which is never an error.
    #[track_caller]
    pub fn report(&mut self, arguments: Value) -> Value {
        let result = self.call(arguments);
        assert!(!result.is_error, "{}", result.text);
        let report: Value = serde_json::from_str(&result.text).unwrap();
        assert_eq!(report["exit_code"], json!(result.exit_code));
        report
    }

    /// Runs a command that must end by itself.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> Value {
        let report = self.report(json!({ "command": command }));
        assert_eq!(report.get("ended"), None, "`{command}` did not end by itself");
        report
    }

    /// What a command that must succeed writes to stdout, without the last line break.
    #[track_caller]
    pub fn output(&mut self, command: &str) -> String {
        let report = self.run(command);
        assert_eq!(report["exit_code"], 0, "`{command}`: {report}");
        report["stdout"].as_str().unwrap().trim_end_matches('\n').to_owned()
    }

    pub fn tool_description(&self) -> String {
        self.tool.tools()[0].description.clone()
    }

    #[track_caller]
    pub fn refuses(&mut self, arguments: Value, why: &str) {
        let result = self.call(arguments.clone());
        assert!(result.is_error && result.exit_code.is_none(), "{}", result.text);
        let arguments = arguments.to_string();
        let asked = coding_agent::text::head(&arguments, 200);
        assert!(result.text.contains(why), "{asked}: {}", result.text);
    }
}

/// Processes of this machine that carry the mark of a task.
pub fn processes_of(uuid: impl std::fmt::Display) -> Vec<String> {
    let mark = format!("{TASK_MARK}={uuid}");
    let names = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let marked = |pid: &String| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(marked).collect()
}

/// Waits until none of them is left; one that was killed takes a moment to be gone.
#[track_caller]
pub fn assert_none_left(uuid: impl std::fmt::Display) {
    super::eventually(|| processes_of(&uuid).is_empty().then_some(()));
}

/// Whether the process whose number is in a file still runs.
pub fn is_alive(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    is_running(pid.trim())
}

/// Whether a process of this number runs; a zombie that nobody has collected yet is dead.
pub fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("X", |(_, rest)| &rest[..1]);
    !["X", "Z"].contains(&state)
}

//! The tools of each task: the built-in ones that are switched on and work here, and MCP servers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{self, Config, ExecutorBackend};
use crate::error::Result;
use crate::handler::{ToolSet, ToolSource};
use crate::ports::ToolServer as _;
use crate::sys::bubblewrap::Bubblewrap;
use crate::sys::file;
use crate::sys::launcher::ResourceLimits;
use crate::sys::process::Program;
use crate::task::TaskId;
use crate::text::Redactor;
use crate::tools::Toolbox;
use crate::tools::command_executor::{Backend, CommandExecutor, Host, Limits, Sandboxed, TASK_MARK, end_leftovers};
use crate::tools::mcp::{self, Http, McpServer, Open, ServerSettings, Stdio};
use crate::tools::text_editor::TextEditor;
use crate::workspace::Workspace;

/// Variables of ours that every MCP server gets; `env` of its entry adds to them.
const MCP_ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// OpenAI refuses a request with more tools.
const MOST_TOOLS: usize = 128;
/// Stands for the work tree in the command of an MCP server.
const TREE_WORD: &str = "{tree}";

/// What stands between commands and the machine.
enum Wall {
    None,
    Bubblewrap(Bubblewrap),
}

/// The tools of this installation.
pub struct TaskTools {
    text_editor: bool,
    /// `None`: the model cannot run commands.
    wall: Option<Wall>,
    network: bool,
    limits: Limits,
    path: Option<OsString>,
    mcp_servers: Vec<config::McpServer>,
    ca_file: Option<PathBuf>,
    window_tokens: u64,
    redactor: Redactor,
}

impl TaskTools {
    /// Those of `config`, for a model with a window of `window_tokens`. Commands run in `sandbox`.
    pub fn new(config: &Config, redactor: &Redactor, sandbox: Option<Bubblewrap>, window_tokens: u64) -> Self {
        let executor = &config.command_executor;
        let wall = match (executor.enabled, executor.backend, sandbox) {
            (false, ..) => None,
            (true, ExecutorBackend::Host, _) => Some(Wall::None),
            (true, _, sandbox) => sandbox.map(Wall::Bubblewrap),
        };
        let execution = &executor.execution;
        Self {
            text_editor: config.text_editor_mcp.enabled,
            wall,
            network: executor.network,
            limits: Limits {
                timeout: Duration::from_secs(execution.timeout_seconds),
                output_bytes: usize::try_from(execution.max_output_size).unwrap_or(usize::MAX),
                resources: ResourceLimits {
                    memory_bytes: executor.docker.resources.memory_limit_bytes(),
                    processes: Some(execution.max_processes),
                },
            },
            path: std::env::var_os("PATH"),
            mcp_servers: config.mcp_servers.clone(),
            ca_file: config.ca_file.clone(),
            window_tokens,
            redactor: redactor.clone(),
        }
    }

    /// Starts the MCP servers; what does not start says so itself.
    fn add_mcp_servers(&self, toolbox: &mut Toolbox, uuid: TaskId, tree: &Path) -> Result<()> {
        if self.mcp_servers.is_empty() {
            return Ok(());
        }
        let tree = tree.canonicalize().map_err(|source| file::error("open", tree, source))?;
        let mut sizes = Vec::new();
        for (_, started) in self.started(uuid, &tree) {
            sizes.push((started.name().to_owned(), mcp::tokens(&started.tools())));
            toolbox.add(Box::new(started));
        }
        if let Some(warning) = mcp::budget_warning(&sizes, self.window_tokens) {
            log::warn!("{warning}");
        }
        let count = toolbox.specs().len();
        if count >= MOST_TOOLS {
            log::warn!(
                "the model is offered {count} tools and one to finish; many model servers refuse more than {MOST_TOOLS}: \
                 name those that are needed in `tools` of `mcp_servers`"
            );
        }
        Ok(())
    }

    /// The MCP servers, each started when it is its turn, with its entry in the configuration. Their work
    /// tree is `tree`, without links.
    pub fn started(&self, uuid: TaskId, tree: &Path) -> impl Iterator<Item = (&config::McpServer, McpServer)> {
        self.mcp_servers.iter().map(move |server| {
            let settings = ServerSettings {
                name: server.mcp_server_name.clone(),
                start_timeout: Duration::from_secs(server.start_timeout_seconds),
                timeout: Duration::from_secs(server.timeout_seconds),
                is_required: server.required,
                tools: server.tools.clone(),
                tree: tree.to_path_buf(),
            };
            (server, McpServer::start(settings, self.open(server, uuid, tree), &self.redactor))
        })
    }

    fn open(&self, server: &config::McpServer, uuid: TaskId, tree: &Path) -> Open {
        let name = server.mcp_server_name.clone();
        if let Some(url) = server.url.clone() {
            let ca_file = self.ca_file.clone();
            let headers: Vec<_> = server.headers.clone().into_iter().collect();
            return Box::new(move || Ok(Box::new(Http::connect(&url, &headers, ca_file.as_deref())?)));
        }
        let program = program(server, uuid, tree);
        Box::new(move || Ok(Box::new(Stdio::start(&name, &program)?)))
    }
}

/// The program of an MCP server. It does not run in the work tree: what a model writes there could
/// make it run other code, with the secrets it was given and outside of the sandbox.
fn program(server: &config::McpServer, uuid: TaskId, tree: &Path) -> Program {
    let tree = tree.to_string_lossy();
    let mut command = server.command.iter().map(|word| OsString::from(word.replace(TREE_WORD, &tree)));
    let mut env: Vec<(String, OsString)> = Vec::new();
    for name in MCP_ENVIRONMENT {
        let default = (name == "LANG").then(|| "C.UTF-8".into());
        env.extend(std::env::var_os(name).or(default).map(|value| (name.to_owned(), value)));
    }
    // An entry that was left empty for a variable which is not set is not set either.
    let entries = server.env.iter().filter(|(_, value)| !value.expose().is_empty());
    env.extend(entries.map(|(name, value)| (name.clone(), value.expose().into())));
    env.push((TASK_MARK.into(), uuid.to_string().into()));
    Program {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        env,
        dir: PathBuf::from("."),
        timeout: None,
        output_limit_bytes: 0,
        ends_with_us: true,
    }
}

impl ToolSource for TaskTools {
    fn tools(&self, uuid: TaskId, workspace: &Workspace) -> Result<ToolSet> {
        let mut toolbox = Toolbox::new();
        if self.text_editor {
            toolbox.add(Box::new(TextEditor::new(workspace.tree(), workspace.edits())));
        }
        let (tree, scratch) = (workspace.tree(), workspace.scratch());
        let backend: Option<Box<dyn Backend>> = match &self.wall {
            None => None,
            Some(Wall::None) => Some(Box::new(Host::new(uuid, &scratch, self.path.clone())?)),
            Some(Wall::Bubblewrap(sandbox)) => {
                Some(Box::new(Sandboxed::new(sandbox.clone(), self.network, uuid, &tree, &scratch)?))
            }
        };
        let mut command_tool = None;
        if let Some(backend) = backend {
            toolbox.add(Box::new(CommandExecutor::new(backend, tree.clone(), self.limits)));
            command_tool = toolbox.specs().last().map(|spec| spec.wire_name.clone());
        }
        self.add_mcp_servers(&mut toolbox, uuid, &tree)?;
        Ok(ToolSet { toolbox, command_tool })
    }

    fn has_commands(&self) -> bool {
        self.wall.is_some()
    }

    fn end_leftovers(&self, uuid: TaskId) {
        let ended = end_leftovers(uuid);
        match ended {
            0 => {}
            1 => log::info!("ended a process that was left of this task"),
            _ => log::info!("ended {ended} processes that were left of this task"),
        }
    }
}

//! From configuration to working parts: which forge, which model, which queue, which tools.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::budget::{Account, Budget};
use crate::cli::Mode;
use crate::config::{Config, ExecutorBackend, Provider, QueueBackend, Submodules, TaskSource};
use crate::context::{CompressionSettings, Contexts, TaskDb};
use crate::error::{Error, Result};
use crate::handler::{Protocol, Settings, ToolSet, ToolSource};
use crate::llm::{Ollama, OllamaSettings, OpenAi, OpenAiSettings, Replay};
use crate::ports::{Forge, Llm, ModelProfile, TaskQueue};
use crate::prompts::Prompts;
use crate::queue::{MemoryQueue, Spool};
use crate::sys::bubblewrap::Bubblewrap;
use crate::sys::file::{self, Sync};
use crate::sys::http::{HttpClient, HttpSettings, certificate_bundle};
use crate::sys::launcher::ResourceLimits;
use crate::task::{Labels, TaskId};
use crate::text::Redactor;
use crate::tools::Toolbox;
use crate::tools::command_executor::{Backend, CommandExecutor, Host, Limits, Sandboxed, end_leftovers};
use crate::tools::text_editor::TextEditor;
use crate::workspace::{self, Workspace};

/// Variables that git may need to reach a remote; nothing else of our environment goes to it.
const GIT_ENVIRONMENT: [&str; 16] = [
    "PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "ALL_PROXY",
    "all_proxy",
];

/// Configuration and what is made of it once.
pub struct Setup {
    pub config: Config,
    pub redactor: Redactor,
    pub prompts: Prompts,
    pub contexts: Contexts,
    forge: OnceCell<Box<dyn Forge>>,
    budget: OnceCell<Arc<Budget>>,
}

impl Setup {
    pub fn new(config: Config, redactor: Redactor) -> Result<Self> {
        let prompts = Prompts::load(config.prompts_dir.as_deref())?;
        let storage = &config.context_storage;
        let contexts = Contexts::new(&storage.base_dir, Sync::Now, storage.enabled);
        Ok(Self { contexts, prompts, redactor, config, forge: OnceCell::new(), budget: OnceCell::new() })
    }

    pub fn is_paused(&self) -> bool {
        self.pause_signal().is_some_and(|path| path.exists())
    }

    pub fn pause_signal(&self) -> Option<PathBuf> {
        let pause = &self.config.pause_resume;
        pause.enabled.then(|| pause.signal_file.clone())
    }

    /// What servers said about limits, read only where a server is asked.
    pub fn budget(&self) -> &Arc<Budget> {
        self.budget.get_or_init(|| Budget::open(&self.config.queue.dir))
    }

    /// Keeps what was learned about limits; `with_lists` where all listed items have been dealt with.
    pub fn save_budget(&self, with_lists: bool) {
        match self.budget.get() {
            Some(budget) if with_lists => budget.save_with_lists(),
            Some(budget) => budget.save(),
            None => {}
        }
    }

    /// The account at the model's server; `None` for recorded replies.
    pub fn model_account(&self) -> Option<Account> {
        let llm = &self.config.llm;
        let (address, model, key) = match llm.provider {
            Provider::Openai => (&llm.openai.base_url, &llm.openai.model, llm.openai.api_key.as_ref()),
            Provider::Ollama => (&llm.ollama.endpoint, &llm.ollama.model, None),
            Provider::Lmstudio => (&llm.lmstudio.base_url, &llm.lmstudio.model, None),
            Provider::Replay => return None,
        };
        Some(self.budget().account(address, model.as_deref(), key))
    }

    /// The six labels of the forge in use.
    pub fn labels(&self) -> Labels {
        match self.config.task_source {
            TaskSource::Local => Labels::default(),
            TaskSource::Github => {
                let github = self.config.github.clone();
                Labels {
                    bot: github.bot_label,
                    processing: github.processing_label,
                    done: github.done_label,
                    failed: github.failed_label,
                    paused: github.paused_label,
                    stopped: github.stopped_label,
                }
            }
            TaskSource::Gitlab => {
                let gitlab = self.config.gitlab.clone();
                Labels {
                    bot: gitlab.bot_label,
                    processing: gitlab.processing_label,
                    done: gitlab.done_label,
                    failed: gitlab.failed_label,
                    paused: gitlab.paused_label,
                    stopped: gitlab.stopped_label,
                }
            }
        }
    }

    /// The forge, connected once per process and only when it is needed.
    pub fn forge(&self) -> Result<&dyn Forge> {
        if let Some(forge) = self.forge.get() {
            return Ok(forge.as_ref());
        }
        let forge = self.connect_forge()?;
        forge.probe()?;
        Ok(self.forge.get_or_init(|| forge).as_ref())
    }

    pub fn llm(&self) -> Result<Box<dyn Llm>> {
        let llm = &self.config.llm;
        match (llm.provider, &llm.replay.file) {
            (Provider::Openai, _) => Ok(Box::new(self.openai()?)),
            (Provider::Ollama, _) => Ok(Box::new(self.ollama()?)),
            (Provider::Lmstudio, _) => Ok(Box::new(self.lmstudio()?)),
            (Provider::Replay, Some(file)) => Ok(Box::new(Replay::open(file, llm.replay.context_length)?)),
            (Provider::Replay, None) => Err(Error::bug("provider `replay` without a file passed the configuration")),
        }
    }

    fn openai(&self) -> Result<OpenAi> {
        const MODEL_SETTING: &str = "llm.openai.model or OPENAI_MODEL";
        let openai = &self.config.llm.openai;
        let settings = OpenAiSettings {
            base_url: openai.base_url.clone(),
            api_key: openai.api_key.clone(),
            key_variable: Some("OPENAI_API_KEY"),
            model_setting: MODEL_SETTING,
            windows_url: None,
            profile: ModelProfile {
                provider: "openai".into(),
                model: chosen_model(openai.model.as_deref(), MODEL_SETTING)?,
                context_tokens: openai.context_length,
                max_output_tokens: openai.max_output_tokens.map(u64::from),
            },
        };
        let client = self.http_client(&settings.base_url, openai.timeout_seconds)?;
        Ok(OpenAi::new(settings, client))
    }

    fn lmstudio(&self) -> Result<OpenAi> {
        const MODEL_SETTING: &str = "llm.lmstudio.model or LMSTUDIO_MODEL";
        let lmstudio = &self.config.llm.lmstudio;
        let root = lmstudio.base_url.strip_suffix("/v1").unwrap_or(&lmstudio.base_url);
        let settings = OpenAiSettings {
            base_url: lmstudio.base_url.clone(),
            api_key: None,
            key_variable: None,
            model_setting: MODEL_SETTING,
            windows_url: Some(format!("{root}/api/v0/models")),
            profile: ModelProfile {
                provider: "lmstudio".into(),
                model: chosen_model(lmstudio.model.as_deref(), MODEL_SETTING)?,
                context_tokens: lmstudio.context_length,
                max_output_tokens: None,
            },
        };
        let client = self.http_client(&settings.base_url, lmstudio.timeout_seconds)?;
        Ok(OpenAi::new(settings, client))
    }

    fn ollama(&self) -> Result<Ollama> {
        let ollama = &self.config.llm.ollama;
        let settings = OllamaSettings {
            endpoint: ollama.endpoint.clone(),
            needs_tools: self.config.llm.function_calling,
            profile: ModelProfile {
                provider: "ollama".into(),
                model: chosen_model(ollama.model.as_deref(), "llm.ollama.model or OLLAMA_MODEL")?,
                context_tokens: ollama.context_length,
                max_output_tokens: None,
            },
        };
        let client = self.http_client(&settings.endpoint, ollama.timeout_seconds)?;
        Ok(Ollama::new(settings, client))
    }

    /// A client for the server at `url`; 0 seconds are no limit.
    pub(super) fn http_client(&self, url: &str, timeout_seconds: u64) -> Result<HttpClient> {
        let timeout = (timeout_seconds > 0).then(|| Duration::from_secs(timeout_seconds));
        let settings = HttpSettings { ca_file: self.config.ca_file.as_deref(), timeout };
        HttpClient::new(settings, url.starts_with("https:"))
    }

    /// The queue; one in memory lives in this process only, so it needs both halves of the job.
    pub fn queue(&self, mode: Mode) -> Result<Box<dyn TaskQueue>> {
        let queue = &self.config.queue;
        match queue.backend {
            QueueBackend::Spool => Ok(Box::new(self.spool()?)),
            QueueBackend::Memory if mode == Mode::Both => {
                Ok(Box::new(MemoryQueue::open(&queue.dir.join("producer.lock"))?))
            }
            QueueBackend::Memory => Err(Error::host("queue.backend memory works only without --mode")
                .hint("leave --mode out, or set queue.backend to spool")),
            QueueBackend::Rabbitmq => Err(Error::bug("queue.backend rabbitmq passed the configuration")),
        }
    }

    pub fn spool(&self) -> Result<Spool> {
        Spool::open(&self.config.queue.dir, self.config.queue.max_attempts)
    }

    pub fn db(&self) -> TaskDb {
        TaskDb::open(&self.config.database_path())
    }

    pub fn handler_settings(&self, window_tokens: u64, workspace: workspace::Settings) -> Settings {
        let config = &self.config;
        let compression = &config.context_storage.compression;
        let threshold = compression.token_threshold;
        let threshold_tokens = if threshold < 1.0 { threshold * window_tokens as f64 } else { threshold };
        Settings {
            labels: self.labels(),
            branch_prefix: config.pull_request.branch_prefix.clone(),
            draft_pull_requests: config.pull_request.draft,
            max_turns: config.max_llm_process_num.into(),
            protocol: if config.llm.function_calling { Protocol::Native } else { Protocol::Json },
            result_cap_tokens: (window_tokens / 4).min((threshold_tokens / 2.0) as u64),
            inheritance_tokens: self.inheritance_tokens(window_tokens),
            compression: compression.enabled.then_some(CompressionSettings {
                threshold_tokens: threshold_tokens as u64,
                keep_recent: compression.keep_recent as usize,
                min_to_compress: compression.min_to_compress as usize,
            }),
            max_attempts: config.queue.max_attempts,
            pause_signal: self.pause_signal(),
            stops_when_unassigned: config.task_stop.enabled,
            workspace,
        }
    }

    /// An eighth of the window at most: what is taken over stays in it to the end.
    fn inheritance_tokens(&self, window_tokens: u64) -> Option<u64> {
        let inheritance = &self.config.context_storage.inheritance;
        inheritance.enabled.then(|| u64::from(inheritance.max_summary_tokens).min(window_tokens / 8))
    }

    /// How workspaces are made. Git gets `ca_file` as one file together with the system's certificates,
    /// since it takes only one.
    pub fn workspace_settings(&self) -> Result<workspace::Settings> {
        let workspace = &self.config.workspace;
        let from_us = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
        let mut env: Vec<_> = GIT_ENVIRONMENT.iter().filter_map(|name| from_us(name)).collect();
        if let Some(ca_file) = &self.config.ca_file {
            file::create_dir(&workspace.dir)?;
            let bundle = std::path::absolute(workspace.dir.join("ca-bundle.pem"))
                .map_err(|source| file::error("make", &workspace.dir, source))?;
            file::replace(&bundle, certificate_bundle(ca_file)?.as_bytes())?;
            env.retain(|(name, _)| name != "GIT_SSL_CAINFO");
            env.push(("GIT_SSL_CAINFO".into(), bundle.into()));
        }
        Ok(workspace::Settings {
            root: workspace.dir.clone(),
            depth: workspace.depth,
            author_name: workspace.author_name.clone(),
            author_email: workspace.author_email.clone(),
            own_submodules: workspace.submodules == Submodules::SameOwner,
            env,
            sandbox: None,
        })
    }

    /// The built-in tools that are switched on and work here, with what keeps commands inside.
    pub fn tools(&self, sandbox: Option<Bubblewrap>) -> BuiltInTools {
        let executor = &self.config.command_executor;
        let wall = match (executor.enabled, executor.backend, sandbox) {
            (false, ..) => None,
            (true, ExecutorBackend::Host, _) => Some(Wall::None),
            (true, _, sandbox) => sandbox.map(Wall::Bubblewrap),
        };
        let execution = &executor.execution;
        BuiltInTools {
            text_editor: self.config.text_editor_mcp.enabled,
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
        }
    }
}

/// The model that was chosen by `setting`.
fn chosen_model(model: Option<&str>, setting: &str) -> Result<String> {
    let model = model.map(str::trim).filter(|name| !name.is_empty());
    let key = setting.split(' ').next().unwrap_or(setting);
    model
        .map(str::to_owned)
        .ok_or_else(|| Error::host(format!("no model is chosen: {key} is not set")).hint(format!("set {setting}")))
}

/// What stands between commands and the machine.
enum Wall {
    None,
    Bubblewrap(Bubblewrap),
}

/// The built-in tools of this installation.
pub struct BuiltInTools {
    text_editor: bool,
    /// `None`: the model cannot run commands.
    wall: Option<Wall>,
    network: bool,
    limits: Limits,
    path: Option<OsString>,
}

impl ToolSource for BuiltInTools {
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
            toolbox.add(Box::new(CommandExecutor::new(backend, tree, self.limits)));
            command_tool = toolbox.specs().last().map(|spec| spec.wire_name.clone());
        }
        Ok(ToolSet { toolbox, command_tool })
    }

    fn has_commands(&self) -> bool {
        self.wall.is_some()
    }

    fn end_leftovers(&self, uuid: TaskId) {
        let ended = end_leftovers(uuid);
        if ended > 0 {
            log::info!("ended {ended} processes that an earlier run of this task left");
        }
    }
}

//! From configuration to working parts: which forge, which model, which queue.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;

use crate::budget::{Account, Budget};
use crate::cli::Mode;
use crate::config::{Config, Provider, QueueBackend, Submodules, TaskSource};
use crate::context::{CompressionSettings, Contexts, TaskDb};
use crate::error::{Error, Result};
use crate::handler::{Protocol, Settings};
use crate::ports::{Forge, TaskQueue};
use crate::prompts::Prompts;
use crate::queue::{MemoryQueue, Spool};
use crate::sys::file::{self, Sync};
use crate::sys::http::{certificate_bundle, check_ca_file};
use crate::task::Labels;
use crate::text::Redactor;
use crate::workspace;

/// Longest time for one call to a forge, unless a command has less patience.
const FORGE_TIMEOUT_SECONDS: u64 = 60;

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
    /// Longest time for one call to a forge.
    pub forge_timeout_seconds: u64,
    forge: OnceCell<Box<dyn Forge>>,
    budget: OnceCell<Arc<Budget>>,
}

impl Setup {
    pub fn new(config: Config, redactor: Redactor) -> Result<Self> {
        let prompts = Prompts::load(config.prompts_dir.as_deref())?;
        // Known before the first task needs it.
        config.ca_file.as_deref().map_or(Ok(()), check_ca_file)?;
        Ok(Self::with_prompts(config, redactor, prompts))
    }

    pub fn with_prompts(config: Config, redactor: Redactor, prompts: Prompts) -> Self {
        let storage = &config.context_storage;
        let contexts = Contexts::new(&storage.base_dir, Sync::Now, storage.enabled);
        Self {
            contexts,
            prompts,
            redactor,
            config,
            forge_timeout_seconds: FORGE_TIMEOUT_SECONDS,
            forge: OnceCell::new(),
            budget: OnceCell::new(),
        }
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

    /// From here on nothing that was learned earlier is believed, and nothing new is kept.
    pub fn forget_budget(&mut self) {
        self.budget = OnceCell::from(Budget::kept_nowhere());
    }

    /// Keeps what was learned about limits; `with_lists` where all listed items have been dealt with.
    pub fn save_budget(&self, with_lists: bool) {
        match self.budget.get() {
            Some(budget) if with_lists => budget.save_with_lists(),
            Some(budget) => budget.save(),
            None => {}
        }
    }

    /// The account at the server of the model that `config` names; `None` for recorded replies.
    pub fn model_account(&self, config: &Config) -> Option<Account> {
        let llm = &config.llm;
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

    /// How the tasks of `config`, ours or one with a user's settings, are worked on with a model whose
    /// window has this size.
    pub fn handler_settings(&self, config: &Config, window_tokens: u64, workspace: workspace::Settings) -> Settings {
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
            user_orders: None,
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
        let mut settings = self.workspace_settings_alone();
        if let Some(ca_file) = &self.config.ca_file {
            file::create_dir(&workspace.dir)?;
            let bundle = std::path::absolute(workspace.dir.join("ca-bundle.pem"))
                .map_err(|source| file::error("make", &workspace.dir, source))?;
            file::replace(&bundle, certificate_bundle(ca_file)?.as_bytes())?;
            settings.env.retain(|(name, _)| name != "GIT_SSL_CAINFO");
            settings.env.push(("GIT_SSL_CAINFO".into(), bundle.into()));
        }
        Ok(settings)
    }

    /// The same without a file for `ca_file`, and so without writing anything.
    pub fn workspace_settings_alone(&self) -> workspace::Settings {
        let workspace = &self.config.workspace;
        let from_us = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
        workspace::Settings {
            root: workspace.dir.clone(),
            depth: workspace.depth,
            author_name: workspace.author_name.clone(),
            author_email: workspace.author_email.clone(),
            own_submodules: workspace.submodules == Submodules::SameOwner,
            env: GIT_ENVIRONMENT.iter().filter_map(|name| from_us(name)).collect(),
            sandbox: None,
        }
    }
}

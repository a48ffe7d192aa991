//! The configuration as a tree of sections, each key with its type, meaning and default. Values
//! only: reading, layering and checking are next door.

use std::path::PathBuf;

use super::field::section;
use super::{
    CommandExecutor, ContextStorage, Language, Llm, McpServer, QueueBackend, Secret, Submodules, TaskSource,
    TextEditorMcp,
};

section! {
    /// The whole configuration.
    Config {
        /// Where the tasks come from.
        task_source: TaskSource = TaskSource::Github,
        /// Most LLM calls for one task.
        max_llm_process_num: u32 = 1000,
        /// Directory whose files replace the embedded prompts of the same name.
        prompts_dir: Option<PathBuf> = None,
        /// Language of comments and prompts.
        language: Language = Language::En,
        /// PEM file of certificates trusted in addition to those of the system.
        ca_file: Option<PathBuf> = None,
        /// Log file.
        logs: PathBuf = "logs/agent.log".into(),
        /// Whether the log shows debug lines.
        debug: bool = false,
        /// Older spelling of `queue.backend: rabbitmq`.
        use_rabbitmq: bool = false,
        /// GitHub.
        github: Github = Github::default(),
        /// GitLab.
        gitlab: Gitlab = Gitlab::default(),
        /// Tasks on this machine.
        local: Local = Local::default(),
        /// Checkouts the model works in.
        workspace: Workspace = Workspace::default(),
        /// The task queue.
        queue: Queue = Queue::default(),
        /// Pull and merge requests we open.
        pull_request: PullRequest = PullRequest::default(),
        /// The LLM.
        llm: Llm = Llm::default(),
        /// MCP servers started or called for each task.
        mcp_servers: Vec<McpServer> = Vec::new(),
        /// The built-in text editor tool.
        text_editor_mcp: TextEditorMcp = TextEditorMcp::default(),
        /// The built-in command tool.
        command_executor: CommandExecutor = CommandExecutor::default(),
        /// What is kept of each task.
        context_storage ("context"): ContextStorage = ContextStorage::default(),
        /// Planning before working.
        planning: Planning = Planning::default(),
        /// Turning issues into merge requests.
        issue_to_mr_conversion: IssueToMrConversion = IssueToMrConversion::default(),
        /// Rules a repository gives to agents.
        project_agent_rules: ProjectAgentRules = ProjectAgentRules::default(),
        /// List of the repository's files in the first message.
        file_list_context: FileListContext = FileListContext::default(),
        /// Pausing on a signal file.
        pause_resume: PauseResume = PauseResume::default(),
        /// Stopping when the bot is unassigned.
        task_stop: TaskStop = TaskStop::default(),
        /// Running for ever instead of once.
        continuous: Continuous = Continuous::default(),
        /// Settings of each user, from an HTTP API.
        user_config_api: UserConfigApi = UserConfigApi::default(),
        /// The RabbitMQ server.
        rabbitmq: Rabbitmq = Rabbitmq::default(),
        /// The task database.
        database: Database = Database::default(),
    }
}

/// GitHub and GitLab have the same keys; only the address differs.
macro_rules! forge_section {
    ($(#[$doc:meta])* $Name:ident, $api_url:literal) => {
        section! {
            $(#[$doc])*
            $Name {
                /// Root of the REST API, without a slash at the end.
                api_url: String = $api_url.into(),
                /// Access token.
                personal_access_token: Option<Secret> = None,
                /// Login of the bot; unset = ask the API.
                bot_name: Option<String> = None,
                /// Label by which people ask for work.
                bot_label: String = "coding agent".into(),
                /// Label of items being worked on.
                processing_label: String = "coding agent processing".into(),
                /// Label of finished items.
                done_label: String = "coding agent done".into(),
                /// Label of failed items.
                failed_label: String = "coding agent failed".into(),
                /// Label of paused items.
                paused_label: String = "coding agent paused".into(),
                /// Label of stopped items.
                stopped_label: String = "coding agent stopped".into(),
                /// Repositories the bot may work in; empty = all the token sees.
                repositories: Vec<String> = Vec::new(),
                /// Only items assigned to this login.
                assignee: Option<String> = None,
                /// Appended to the search.
                query: String = String::new(),
            }
        }

        impl $Name {
            /// The six labels with their keys: bot, processing, done, failed, paused, stopped.
            pub(super) fn labels(&self) -> [(&'static str, &str); 6] {
                [
                    ("bot_label", &self.bot_label),
                    ("processing_label", &self.processing_label),
                    ("done_label", &self.done_label),
                    ("failed_label", &self.failed_label),
                    ("paused_label", &self.paused_label),
                    ("stopped_label", &self.stopped_label),
                ]
            }
        }
    };
}
forge_section!(
    /// GitHub.
    Github,
    "https://api.github.com"
);
forge_section!(
    /// GitLab.
    Gitlab,
    "https://gitlab.com/api/v4"
);

section! {
    /// Tasks on this machine.
    Local {
        /// Directory of the tasks.
        tasks_dir: PathBuf = "tasks".into(),
    }
}

section! {
    /// Checkouts the model works in.
    Workspace {
        /// Directory of the checkouts.
        dir: PathBuf = "workspaces".into(),
        /// Commits fetched; unset = all.
        depth: Option<u32> = None,
        /// Author of commits.
        author_name: String = "coding-agent".into(),
        /// Mail address of that author.
        author_email: String = "coding-agent@localhost".into(),
        /// Which submodules are checked out.
        submodules: Submodules = Submodules::None,
    }
}

section! {
    /// The task queue.
    Queue {
        /// Where tasks wait.
        backend: QueueBackend = QueueBackend::Spool,
        /// Directory of the spool.
        dir: PathBuf = "spool".into(),
        /// Times a task is started before it is given up.
        max_attempts: u32 = 3,
        /// Consumers that may run at once on this machine.
        max_consumers: u32 = 1,
    }
}

section! {
    /// Pull and merge requests we open.
    PullRequest {
        /// Whether they start as drafts.
        draft: bool = false,
        /// Begin of our branch names.
        branch_prefix: String = "coding-agent/".into(),
    }
}

section! {
    /// Planning before working.
    Planning {
        /// Whether it is on.
        enabled: bool = false,
        /// Most subtasks in a plan.
        max_subtasks: u32 = 10,
    }
}

section! {
    /// Turning issues into merge requests.
    IssueToMrConversion {
        /// Whether it is on.
        enabled: bool = false,
        /// Whether the merge request starts as a draft.
        auto_draft: bool = true,
    }
}

section! {
    /// Rules a repository gives to agents.
    ProjectAgentRules {
        /// Whether they are read.
        enabled: bool = false,
    }
}

section! {
    /// List of the repository's files in the first message.
    FileListContext {
        /// Whether it is added.
        enabled: bool = false,
    }
}

section! {
    /// Pausing on a signal file.
    PauseResume {
        /// Whether the file is looked for.
        enabled: bool = true,
        /// The file whose presence pauses.
        signal_file: PathBuf = "contexts/pause_signal".into(),
    }
}

section! {
    /// Stopping when the bot is unassigned.
    TaskStop {
        /// Whether it is on.
        enabled: bool = true,
    }
}

section! {
    /// Running for ever instead of once.
    Continuous {
        /// Whether it is on.
        enabled: bool = false,
        /// The part that looks for tasks.
        producer: Producer = Producer::default(),
        /// The part that works on them.
        consumer: Consumer = Consumer::default(),
    }
}

section! {
    /// The part that looks for tasks.
    Producer {
        /// Minutes between two looks.
        interval_minutes: u32 = 1,
        /// Whether to wait that long before the first look.
        delay_first_run: bool = false,
    }
}

section! {
    /// The part that works on tasks.
    Consumer {
        /// Seconds to wait for a task before looking around again.
        queue_timeout_seconds: u32 = 30,
        /// Seconds between the ends and starts of two tasks; 0 = none.
        min_interval_seconds: u32 = 0,
    }
}

section! {
    /// Settings of each user, from an HTTP API.
    UserConfigApi {
        /// Whether it is asked.
        enabled: bool = false,
        /// Its address.
        url: String = String::new(),
        /// Its key.
        api_key: Option<Secret> = None,
    }
}

section! {
    /// The RabbitMQ server.
    Rabbitmq {
        /// Host name.
        host: String = "localhost".into(),
        /// TCP port.
        port: u16 = 5672,
        /// User name.
        user: String = "guest".into(),
        /// Password.
        password: Option<Secret> = None,
        /// Name of the queue.
        queue: String = "coding-agent".into(),
    }
}

section! {
    /// The task database: SQLite. The other keys belong to PostgreSQL.
    Database {
        /// `sqlite:PATH`; unset = `tasks.db` in `context_storage.base_dir`.
        url: Option<String> = None,
        /// Host name of the server.
        host: Option<String> = None,
        /// TCP port of the server.
        port: Option<u16> = None,
        /// Name of the database.
        name: Option<String> = None,
        /// User name.
        user: Option<String> = None,
        /// Password.
        password: Option<Secret> = None,
    }
}

impl Database {
    /// The file named by an `sqlite:` URL.
    ///
    /// `sqlite://x` and `sqlite:///x` name no file here: some programs take `x` from the working
    /// directory, others from the root.
    pub fn sqlite_path(&self) -> Option<PathBuf> {
        let path = self.url.as_deref()?.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("///").filter(|rest| rest.starts_with('/')).unwrap_or(path);
        let plain = !path.is_empty() && !path.starts_with("//") && !path.starts_with(':') && !path.contains('?');
        plain.then(|| PathBuf::from(path))
    }
}

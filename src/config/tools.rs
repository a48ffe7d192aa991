//! The sections about the model, its tools and its memory. Values only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::field::section;
use super::{ExecutorBackend, Provider, Secret};

section! {
    /// The LLM.
    Llm {
        /// Which of the sections below is used.
        provider: Provider = Provider::Openai,
        /// Whether tools are called by the protocol's own calls; false = JSON in the text.
        function_calling: bool = true,
        /// OpenAI or a server that speaks its protocol.
        openai: Openai = Openai::default(),
        /// Ollama.
        ollama: Ollama = Ollama::default(),
        /// LM Studio.
        lmstudio: Lmstudio = Lmstudio::default(),
        /// Recorded replies.
        replay: Replay = Replay::default(),
    }
}

section! {
    /// OpenAI or a server that speaks its protocol.
    Openai {
        /// Address to which `/chat/completions` is appended; no slash at the end.
        base_url: String = "https://api.openai.com/v1".into(),
        /// API key.
        api_key: Option<Secret> = None,
        /// Name of the model.
        model: Option<String> = None,
        /// Size of the model's window, in tokens.
        context_length: u64 = 128_000,
        /// Most tokens of one reply; unset = the server decides.
        max_output_tokens: Option<u32> = None,
        /// Seconds for one whole call; 0 = no limit on the whole.
        timeout_seconds: u64 = 600,
    }
}

section! {
    /// Ollama.
    Ollama {
        /// Address of the server; no slash at the end.
        endpoint: String = "http://localhost:11434".into(),
        /// Name of the model.
        model: Option<String> = None,
        /// Size of the model's window, in tokens.
        context_length: u64 = 32_768,
        /// Seconds for one whole call; 0 = no limit on the whole.
        timeout_seconds: u64 = 3600,
    }
}

section! {
    /// LM Studio.
    Lmstudio {
        /// Address to which `/chat/completions` is appended; ends in `/v1`.
        base_url: String = "http://localhost:1234/v1".into(),
        /// Name of the model.
        model: Option<String> = None,
        /// Size of the model's window, in tokens.
        context_length: u64 = 32_768,
        /// Seconds for one whole call; 0 = no limit on the whole.
        timeout_seconds: u64 = 3600,
    }
}

section! {
    /// Recorded replies.
    Replay {
        /// The recording.
        file: Option<PathBuf> = None,
        /// Size of the pretended window, in tokens.
        context_length: u64 = 128_000,
    }
}

section! {
    /// One MCP server: a command to start or a URL to call.
    McpServer {
        /// Its name, which prefixes its tools.
        mcp_server_name: String = String::new(),
        /// Program and arguments.
        command: Vec<String> = Vec::new(),
        /// Environment of that program, beyond the little it gets anyway.
        env: BTreeMap<String, Secret> = BTreeMap::new(),
        /// Address of a server reached by HTTP.
        url: Option<String> = None,
        /// Headers sent to that address.
        headers: BTreeMap<String, Secret> = BTreeMap::new(),
        /// Seconds for one call.
        timeout_seconds: u64 = 60,
        /// Seconds until it must have answered the first time.
        start_timeout_seconds: u64 = 30,
        /// Whether a task fails without it.
        required: bool = false,
        /// Tools offered to the model; empty = all.
        tools: Vec<String> = Vec::new(),
    }
}

section! {
    /// The built-in text editor tool.
    TextEditorMcp {
        /// Whether it is offered.
        enabled: bool = true,
    }
}

section! {
    /// The built-in command tool.
    CommandExecutor {
        /// Whether it is offered.
        enabled: bool = true,
        /// What keeps the commands inside.
        backend: ExecutorBackend = ExecutorBackend::Auto,
        /// Whether commands reach the network.
        network: bool = true,
        /// Whether a task fails where the tool cannot work.
        required: bool = false,
        /// More of this machine that commands in a sandbox may read: absolute paths.
        read_only_paths: Vec<String> = Vec::new(),
        /// Names of environments and their images.
        environments: BTreeMap<String, String> = BTreeMap::new(),
        /// The environment used when the model names none.
        default_environment: Option<String> = None,
        /// Containers.
        docker: Docker = Docker::default(),
        /// Limits of one command.
        execution: Execution = Execution::default(),
    }
}

section! {
    /// Containers of the command tool.
    Docker {
        /// Image used without an environment.
        base_image: Option<String> = None,
        /// Limits of one container.
        resources: Resources = Resources::default(),
    }
}

section! {
    /// Limits of one container.
    Resources {
        /// Processor cores.
        cpu_limit: f64 = 2.0,
        /// Memory: a number of bytes, or one followed by `k`, `m` or `g`. Without a container, of each process.
        memory_limit: String = "4g".into(),
    }
}

impl Resources {
    /// The memory limit in bytes; `None` when it is no size.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        let limit = self.memory_limit.to_ascii_lowercase();
        let (number, unit_bytes) = match limit.char_indices().last()? {
            (at, 'b') => (&limit[..at], 1),
            (at, 'k') => (&limit[..at], 1 << 10),
            (at, 'm') => (&limit[..at], 1 << 20),
            (at, 'g') => (&limit[..at], 1 << 30),
            _ => (limit.as_str(), 1),
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = number.parse::<u64>().ok().filter(|_| is_number)?.saturating_mul(unit_bytes);
        (bytes > 0).then_some(bytes)
    }
}

section! {
    /// Limits of one command.
    Execution {
        /// Seconds until it is killed.
        timeout_seconds: u64 = 1800,
        /// Bytes of output kept.
        max_output_size: u64 = 1_048_576,
        /// Processes and threads at a time; with more it is killed.
        max_processes: u64 = 512,
    }
}

section! {
    /// What is kept of each task.
    ContextStorage {
        /// Whether anything is kept.
        enabled: bool = true,
        /// Directory of the contexts.
        base_dir: PathBuf = "contexts".into(),
        /// Days until finished contexts and workspaces are removed.
        cleanup_days: u32 = 30,
        /// Summaries of long conversations.
        compression: Compression = Compression::default(),
        /// Summaries handed to a later task of the same item.
        inheritance: Inheritance = Inheritance::default(),
    }
}

section! {
    /// Summaries of long conversations.
    Compression {
        /// Whether it is on.
        enabled: bool = true,
        /// Tokens from which on it summarises; below 1 = that fraction of the window.
        token_threshold: f64 = 0.6,
        /// Newest messages that stay as they are; fewer when they are long.
        keep_recent: u32 = 10,
        /// Fewest messages worth a summary.
        min_to_compress: u32 = 5,
    }
}

section! {
    /// Summaries handed to a later task of the same item.
    Inheritance {
        /// Whether it is on.
        enabled: bool = true,
        /// Most tokens handed over.
        max_summary_tokens: u32 = 4000,
    }
}

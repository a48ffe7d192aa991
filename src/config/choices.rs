//! The closed choices of the configuration. They only name things; what a choice does is decided
//! where it is wired.

use super::field::choice;

choice! {
    /// Where the tasks come from.
    TaskSource {
        /// Issues and pull requests of GitHub.
        Github = "github",
        /// Issues and merge requests of GitLab.
        Gitlab = "gitlab",
        /// Directories on this machine.
        Local = "local",
    }
}

choice! {
    /// Which LLM answers.
    Provider {
        /// OpenAI or a server that speaks its protocol.
        Openai = "openai",
        /// Ollama, by its own protocol.
        Ollama = "ollama",
        /// LM Studio.
        Lmstudio = "lmstudio",
        /// Recorded replies from a file.
        Replay = "replay",
    }
}

choice! {
    /// Where tasks wait.
    QueueBackend {
        /// A directory, safe against crashes.
        Spool = "spool",
        /// This process only.
        Memory = "memory",
        /// A RabbitMQ server.
        Rabbitmq = "rabbitmq",
    }
}

choice! {
    /// Which submodules are checked out.
    Submodules {
        /// None: their directories are empty.
        None = "none",
        /// Those of the repository's own owner: same host and same first part of the path.
        SameOwner = "same_owner",
    }
}

choice! {
    /// What keeps the commands of the model inside.
    ExecutorBackend {
        /// The best that works on this machine; never `host`.
        Auto = "auto",
        /// Bubblewrap.
        Bubblewrap = "bubblewrap",
        /// Docker.
        Docker = "docker",
        /// Podman.
        Podman = "podman",
        /// Nothing: commands run as the user of the agent.
        Host = "host",
    }
}

choice! {
    /// Language of comments and prompts.
    Language {
        /// English.
        En = "en",
        /// Japanese.
        Ja = "ja",
    }
}

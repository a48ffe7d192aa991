//! Models: adapters of `ports::Llm` and the wrappers every one of them gets.

mod alternation;
mod failure;
mod fallback;
mod layers;
mod ollama;
mod openai;
pub mod quota;
mod replay;
mod window;

pub use failure::{is_overflow, is_quota};
pub use fallback::Fallback;
pub use layers::{Budgeted, Ledger, Retrying};
pub use ollama::{Ollama, OllamaSettings};
pub use openai::{OpenAi, OpenAiSettings};
pub use replay::Replay;

/// Longest time for one question of a probe: what a server knows of its models it says at once.
const PROBE_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

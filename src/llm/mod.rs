//! Models: adapters of `ports::Llm` and the wrappers every one of them gets.

mod failure;
mod layers;
mod ollama;
mod openai;
pub mod quota;
mod replay;
mod window;

pub use failure::{is_overflow, is_quota};
pub use layers::{Budgeted, Ledger, Retrying};
pub use ollama::{Ollama, OllamaSettings};
pub use openai::{OpenAi, OpenAiSettings};
pub use replay::Replay;

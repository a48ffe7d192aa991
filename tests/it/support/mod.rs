//! What every test of the program works in: a directory of its own with a repository, issue files,
//! a cassette and a configuration, and nothing of the machine's environment.

mod cassette;
pub mod desk;
pub mod fake_forge;
pub mod fake_github;
pub mod fake_gitlab;
pub mod fake_mcp;
mod fake_model;
mod fake_ollama;
mod fake_proxy;
pub mod github_job;
pub mod gitlab_job;
mod history;
pub mod http_server;
mod random;
pub mod repositories;
pub mod shell;
pub mod store;
mod strict_chat;
pub mod strict_mcp;
pub mod summarizer;
mod tls;
pub mod user_config_api;
mod world;

pub use cassette::{Cassette, call, calls, finish, says};
pub use fake_mcp::FakeMcp;
pub use fake_model::{FakeModel, KEY, MODEL, reply};
pub use fake_ollama::{FakeOllama, OLLAMA_MODEL, ollama_answer, ollama_call};
pub use fake_proxy::FakeProxy;
pub use history::{History, check_strictly};
pub use http_server::Answer;
pub use random::Random;
pub use repositories::Repositories;
pub use strict_chat::objection;
pub use tls::Authority;
pub use world::{BINARY, Ended, World, eventually, git, kill_after};

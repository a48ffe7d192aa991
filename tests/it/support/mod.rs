//! What every test of the program works in: a directory of its own with a repository, issue files,
//! a cassette and a configuration, and nothing of the machine's environment.

mod cassette;
mod fake_model;
mod fake_proxy;
mod history;
mod http_server;
mod strict_chat;
mod tls;
mod world;

pub use cassette::{Cassette, call, calls, finish, says};
pub use fake_model::{FakeModel, KEY, MODEL, reply};
pub use fake_proxy::FakeProxy;
pub use history::{History, check_strictly};
pub use http_server::Answer;
pub use strict_chat::objection;
pub use tls::Authority;
pub use world::{Ended, World, eventually, git};

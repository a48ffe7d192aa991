//! What every test of the program works in: a directory of its own with a repository, issue files,
//! a cassette and a configuration, and nothing of the machine's environment.

mod cassette;
pub mod fake_github;
pub mod github_job;
mod history;
mod random;
pub mod repositories;
pub mod store;
mod world;

pub use cassette::{Cassette, call, calls, finish, says};
pub use history::{History, check_strictly};
pub use random::Random;
pub use repositories::Repositories;
pub use world::{BINARY, Ended, World, eventually, git};

//! What every test of the program works in: a directory of its own with a repository, issue files,
//! a cassette and a configuration, and nothing of the machine's environment.

mod cassette;
pub mod fake_github;
mod history;
mod world;

pub use cassette::{Cassette, call, calls, finish, says};
pub use history::{History, check_strictly};
pub use world::{Ended, World, eventually, git};

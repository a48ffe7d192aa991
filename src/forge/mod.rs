//! The forges: where people ask for work. One adapter of `ports::Forge` each; none knows another.

pub mod github;
pub mod local;

pub use github::{Github, GithubSettings};
pub use local::Local;

//! The forges: where people ask for work. One adapter of `ports::Forge` each; none knows another. What
//! those over HTTP have in common is in `rest`.

pub mod github;
pub mod gitlab;
mod lists;
pub mod local;
mod rest;

pub use github::{Github, GithubSettings};
pub use gitlab::{Gitlab, GitlabSettings};
pub use local::Local;

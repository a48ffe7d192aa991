//! The forges: where people ask for work. One adapter of `ports::Forge` each; none knows another. What
//! those over HTTP have in common is in `rest`, what they are told in `settings`.

pub mod github;
pub mod gitlab;
mod lists;
pub mod local;
mod rest;
mod settings;

pub use github::Github;
pub use gitlab::Gitlab;
pub use local::Local;
pub use settings::ForgeSettings;

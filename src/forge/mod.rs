//! The forges: where people ask for work. One adapter of `ports::Forge` each; none knows another.

pub mod local;

pub use local::Local;

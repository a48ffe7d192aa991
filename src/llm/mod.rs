//! Models: adapters of `ports::Llm` and the wrappers every one of them gets.

mod layers;
mod replay;

pub use layers::{Ledger, Retrying};
pub use replay::Replay;

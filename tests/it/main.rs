//! The one integration test binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod bad_input;
mod concurrency;
mod config;
mod crashes;
mod forge_conformance;
mod forge_local;
mod io_faults;
mod kills;
mod openai;
mod openai_reach;
mod openai_replies;
mod outcomes;
mod spool;
mod text_editor;
mod tidy;

//! The one integration test binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod bad_input;
mod command_executor;
mod concurrency;
mod config;
mod crashes;
mod forge_conformance;
mod forge_local;
mod io_faults;
mod kills;
mod outcomes;
mod secrets;
mod spool;
mod text_editor;
mod tidy;
mod workspace;
mod workspace_branch;
mod workspace_commit;
mod workspace_mend;
mod workspace_push;

//! The one integration test binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod command_executor;
mod config;
mod forge_conformance;
mod forge_local;
mod outcomes;
mod secrets;
mod text_editor;
mod workspace;
mod workspace_branch;
mod workspace_commit;
mod workspace_mend;
mod workspace_push;

//! The one integration test binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod config;
mod forge_conformance;
mod forge_local;
mod outcomes;
mod text_editor;

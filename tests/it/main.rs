//! The one integration test binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod bad_input;
mod chat;
mod cli;
mod command_executor;
mod comment;
mod compression;
mod compression_in_the_loop;
mod concurrency;
mod config;
#[cfg(feature = "faults")]
mod context_faults;
mod context_store;
mod crashes;
mod fake_github;
mod forge_conformance;
mod forge_github_contract;
mod forge_local;
mod gc;
mod github;
mod github_faults;
mod github_pulls;
mod github_recorded;
mod hooks;
mod hostile;
mod inheritance;
mod io_faults;
mod kills;
mod llm;
mod logging;
mod next_step;
mod openai;
mod openai_reach;
mod openai_replies;
mod outcomes;
mod prompts;
mod sandbox;
mod sandbox_git;
mod sandbox_limits;
mod sandbox_missing;
mod sandbox_task;
mod secrets;
mod show;
mod show_damaged;
mod spool;
mod status;
mod summaries_and_plans;
mod task_db;
mod text;
mod text_editor;
mod text_editor_places;
mod text_editor_undo;
mod text_hygiene;
mod tidy;
mod tool_calls;
mod tool_calls_in_the_loop;
mod workspace;
mod workspace_branch;
mod workspace_change;
mod workspace_commit;
mod workspace_mend;
mod workspace_push;
mod workspace_traps;

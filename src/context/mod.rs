//! Everything a task did, on disk: messages, tool calls, metadata, outcome, and the database that
//! indexes them. The files are the truth; the database can be made again from them.
//! Formats stand in `ARCHITECTURE.md`. Knows no forge, no model and no tool.

mod inheritance;
mod jsonl;
mod message_store;
mod metadata;
mod outcome_file;
mod parking;
mod task_context;
mod task_db;
mod tool_store;

pub use inheritance::{InheritanceContext, PreviousContext};
pub use message_store::MessageStore;
pub use metadata::Metadata;
pub use outcome_file::{OutcomeFile, Step};
pub use parking::Parking;
pub use task_context::{Contexts, Place, TaskContext};
pub use task_db::{FinishedTask, LlmCall, Statistics, TaskDb};
pub use tool_store::{CommandRecord, ToolRecord, ToolStore};

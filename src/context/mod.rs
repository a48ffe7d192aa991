//! Everything a task did, on disk: messages, summaries, tool calls, plans, metadata, outcome, and the
//! database that indexes them. The files are the truth; the database can be made again from them.
//! Formats stand in `ARCHITECTURE.md`. Knows no forge, no model and no tool.

mod compressor;
mod inheritance;
mod jsonl;
mod message_lines;
mod message_store;
mod metadata;
mod outcome_file;
mod parking;
mod planning_history;
mod repair;
mod shorten;
mod summary_request;
mod summary_store;
mod task_context;
mod task_db;
mod tool_store;

pub use compressor::{Compressed, CompressionSettings, Compressor, Room, clean_cut};
pub use inheritance::{InheritanceContext, PreviousContext};
pub use message_store::MessageStore;
pub use metadata::Metadata;
pub use outcome_file::{OutcomeFile, Step};
pub use parking::Parking;
pub use planning_history::{Plan, PlanningHistory};
pub use shorten::shorten;
pub use summary_store::{NewSummary, SummaryStore};
pub use task_context::{Contexts, Place, TaskContext};
pub use task_db::{FinishedTask, LlmCall, Statistics, TaskDb};
pub use tool_store::{CommandRecord, ToolRecord, ToolStore};

//! Everything a task did, on disk: messages, summaries, tool calls, plans, metadata, outcome, and the
//! database that indexes them. The files are the truth; the database can be made again from them.
//! Formats stand in `ARCHITECTURE.md`. Knows no forge, no model and no tool.

mod compressor;
mod db_rebuild;
mod hooks;
mod inheritance;
mod jsonl;
mod loose_lines;
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
mod task_db_view;
mod task_record;
mod tool_store;
mod transcript;
mod transcript_entry;

pub use compressor::{Compressed, CompressionSettings, Compressor, Room, clean_cut};
pub use hooks::Hooks;
pub use inheritance::{InheritanceContext, PreviousContext};
pub use loose_lines::Damage;
pub use message_store::MessageStore;
pub use metadata::Metadata;
pub use outcome_file::{OutcomeFile, Step};
pub use parking::Parking;
pub use planning_history::{Plan, PlanningHistory};
pub use shorten::shorten;
pub use summary_store::{NewSummary, SummaryStore};
pub use task_context::{Contexts, Place, TaskContext};
pub use task_db::{LlmCall, Statistics, TaskDb};
pub use task_db_view::{Cost, Group, PhaseCost, TaskDbView, TaskRow, Total};
pub use task_record::{Ending, TaskRecord};
pub use tool_store::{CommandRecord, ToolRecord, ToolStore};
pub use transcript::Transcript;
pub use transcript_entry::{Call, CallRecord, Entry, PlanEntry, Spoken, SummaryEntry};

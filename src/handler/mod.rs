//! From a claimed task to an applied outcome. Sees ports, the context and the workspace; names no
//! forge, no model and no tool program.

mod agent_loop;
mod arguments;
mod comment;
mod compaction;
mod error_limits;
mod finish;
mod json_protocol;
mod next_step;
mod opening;
mod prepare;
mod reply;
mod requirement;
mod say;
mod task_handler;
mod workplace;

pub use arguments::normalise;
pub use comment::{CommentFacts, marker};
pub use error_limits::ErrorLimits;
pub use json_protocol::{
    Protocol, Said, parse as parse_json_answer, read as read_json_answer, rendered as rendered_for_json,
};
pub use next_step::{NO_ANSWER, NextStep, cut_text, next_step};
pub use prepare::{is_wanted, prepare};
pub use reply::{Fate, Prepared, PreparedCall, prepare as prepare_reply};
pub use task_handler::{Handled, Settings, TaskHandler, ToolSet, ToolSource};

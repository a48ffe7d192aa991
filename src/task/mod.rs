//! What a task is: its key, the entry that travels through the queue, its labels and its outcome.
//! Pure values; they do no I/O.

mod key;
mod labels;
mod message;
mod outcome;

pub use key::TaskKey;
pub use labels::Labels;
pub use message::TaskMessage;
pub use outcome::{Outcome, OutcomeKind};

/// A task's UUID (version 4), the name of its context directory and its workspace.
pub type TaskId = uuid::Uuid;

//! The six labels that tell people where an item stands.

/// Names of the labels, as configured for the forge in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// A person asks for work.
    pub bot: String,
    /// The agent has it.
    pub processing: String,
    /// Finished.
    pub done: String,
    /// Failed.
    pub failed: String,
    /// Paused by the operator.
    pub paused: String,
    /// Stopped because the bot was unassigned.
    pub stopped: String,
}

impl Default for Labels {
    fn default() -> Self {
        Self {
            bot: "coding agent".into(),
            processing: "coding agent processing".into(),
            done: "coding agent done".into(),
            failed: "coding agent failed".into(),
            paused: "coding agent paused".into(),
            stopped: "coding agent stopped".into(),
        }
    }
}

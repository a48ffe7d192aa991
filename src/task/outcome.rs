//! How a task ends: every way to stop is a value here, and `handler::finish` applies it.

/// The ways a task can leave the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// The work is done.
    Completed,
    /// It cannot be done, or a limit was reached.
    Failed,
    /// The operator put up the pause signal.
    Paused,
    /// The bot was unassigned.
    Stopped,
    /// Closed, merged, or the processing label taken away while in work.
    Cancelled,
    /// The process died at the same place too often.
    GaveUp,
    /// The label was gone or the item closed before work began.
    Skipped,
    /// Nothing wrong with the task; it waits for something.
    Parked,
}

impl OutcomeKind {
    /// The word used in `outcome.json`, logs and `status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
            Self::GaveUp => "gave_up",
            Self::Skipped => "skipped",
            Self::Parked => "parked",
        }
    }

    /// The kind of that name, as read from `outcome.json`.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Completed,
            Self::Failed,
            Self::Paused,
            Self::Stopped,
            Self::Cancelled,
            Self::GaveUp,
            Self::Skipped,
            Self::Parked,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }

    /// `tasks.status` of the first seed for an outcome that ends the task here.
    pub fn status(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed | Self::GaveUp => "failed",
            Self::Paused => "paused",
            Self::Stopped | Self::Cancelled => "stopped",
            Self::Skipped | Self::Parked => "running",
        }
    }
}

/// An outcome with the words that go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which way it ends.
    pub kind: OutcomeKind,
    /// Why, in one sentence for a person outside; empty for Completed.
    pub reason: String,
    /// The model's own words, if it said any.
    pub summary: String,
}

impl Outcome {
    /// The model says it is done.
    pub fn completed(summary: impl Into<String>) -> Self {
        Self { kind: OutcomeKind::Completed, reason: String::new(), summary: summary.into() }
    }

    /// The task failed for `reason`.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::of(OutcomeKind::Failed, reason)
    }

    /// An outcome of `kind` with a reason and no words of the model.
    pub fn of(kind: OutcomeKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), summary: String::new() }
    }
}

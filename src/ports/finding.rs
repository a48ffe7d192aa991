//! What a look at one part of the surroundings found, for a person who wants to know whether all is
//! ready (`doctor`).

use crate::error::Error;

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingState {
    /// As it should be.
    Good,
    /// Not looked at.
    Skipped,
    /// Tasks can be worked on, but something could be better.
    Warning,
    /// Tasks cannot be worked on.
    Bad,
}

impl FindingState {
    /// The state in one word, for scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a few words.
    pub name: String,
    /// How good it is.
    pub state: FindingState,
    /// What was found, one sentence in lower case.
    pub finding: String,
    /// What to do about it; there is one wherever it is not good.
    pub remedy: Option<String>,
}

impl Finding {
    /// What to do about a passing fault.
    pub const LATER: &str = "try again later";

    /// All is well.
    pub fn good(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { name: name.into(), state: FindingState::Good, finding: finding.into(), remedy: None }
    }

    /// Nobody looked, and why.
    pub fn skipped(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), state: FindingState::Skipped, finding: why.into(), remedy: None }
    }

    /// It could be better.
    pub fn warning(name: impl Into<String>, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { name: name.into(), state: FindingState::Warning, finding: finding.into(), remedy }
    }

    /// So it does not work.
    pub fn bad(name: impl Into<String>, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: FindingState::Bad, ..Self::warning(name, finding, remedy) }
    }

    /// What an error says, with its causes; `remedy` where it names none itself.
    pub fn of(name: impl Into<String>, state: FindingState, error: &Error, remedy: &str) -> Self {
        let remedy = Some(error.remedy().unwrap_or(remedy).to_owned());
        Self { name: name.into(), state, finding: error.explained(), remedy }
    }
}

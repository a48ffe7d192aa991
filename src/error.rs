//! The one error type. It knows who has to act on it (`Kind`), says what could not be done in one
//! sentence, may carry a hint, and keeps its cause for the log. It never decides what to do.

use std::fmt;

/// Result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault it is, which is what the caller acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// This machine or its configuration: nothing works until a person mends it.
    Host,
    /// Somebody else's passing trouble: the same call may work later.
    Later,
    /// Only this task: it fails, the others go on.
    Task,
    /// The command line was wrong.
    Usage,
    /// We broke a promise of our own.
    Bug,
}

/// An error with its kind, its sentence, and what else a person needs.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    sentence: String,
    hint: Option<String>,
    not_before_ms: Option<u64>,
    quick_retry: bool,
    too_large: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. The sentence is lower case, has no final period, and names the object.
    pub fn new(kind: Kind, sentence: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            sentence: sentence.into(),
            hint: None,
            not_before_ms: None,
            quick_retry: true,
            too_large: false,
            source: None,
        }))
    }

    /// A fault of this machine or its configuration.
    pub fn host(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Host, sentence)
    }

    /// A passing fault of somebody else.
    pub fn later(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Later, sentence)
    }

    /// A fault that ends this task only.
    pub fn task(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Task, sentence)
    }

    /// A wrong command line.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Usage, sentence)
    }

    /// A broken promise of our own.
    pub fn bug(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Bug, sentence)
    }

    /// Adds what the person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the known end of a passing fault, in milliseconds since the epoch.
    #[must_use]
    pub fn until(mut self, not_before_ms: u64) -> Self {
        self.0.not_before_ms = Some(not_before_ms);
        self
    }

    /// Says that trying again within this run would do harm: the first try may still be at work
    /// on the other side (case C10).
    #[must_use]
    pub fn no_quick_retry(mut self) -> Self {
        self.0.quick_retry = false;
        self
    }

    /// Says that what was sent is larger than the other side takes: less of it may pass.
    #[must_use]
    pub fn too_large(mut self) -> Self {
        self.0.too_large = true;
        self
    }

    /// Adds the cause. It is shown by `{:#}` only, which goes to the log and to the operator.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// Puts the reason for caring before the sentence.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        self.0.sentence.insert_str(0, prefix);
        self
    }

    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// When a passing fault is known to end, in milliseconds since the epoch.
    pub fn not_before_ms(&self) -> Option<u64> {
        self.0.not_before_ms
    }

    /// Whether a passing fault may be tried again within this run.
    pub fn allows_quick_retry(&self) -> bool {
        self.0.quick_retry
    }

    /// Whether less of the same may pass.
    pub fn is_too_large(&self) -> bool {
        self.0.too_large
    }

    /// What the person can do about it, where that is known.
    pub fn remedy(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The sentence with its causes, for the operator.
    pub fn explained(&self) -> String {
        let mut text = self.0.sentence.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let said = error.to_string();
            // The sentence may end with the words of the system already, without its number.
            let words = said.split(" (os error").next().unwrap_or(&said);
            if !text.to_lowercase().ends_with(&words.to_lowercase()) {
                text.push_str(&format!(": {said}"));
            }
            cause = error.source();
        }
        text
    }

    /// The sentence alone: safe to show to a person outside.
    pub fn sentence(&self) -> &str {
        &self.0.sentence
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return f.write_str(&self.0.sentence);
        }
        f.write_str(&self.explained())?;
        self.0.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as _)
    }
}

/// Foreign errors enter only here, so that none comes in without a sentence.
pub trait Context<T> {
    /// Wraps the error in one of `kind` with the sentence made by `sentence`.
    fn context(self, kind: Kind, sentence: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> Context<T> for Result<T, E> {
    fn context(self, kind: Kind, sentence: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::new(kind, sentence()).caused_by(error))
    }
}

/// What the process tells its caller; the numbers are a documented contract (README).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exit {
    /// Worked, or nothing to do.
    #[default]
    Done,
    /// Something is parked: come back later.
    Parked,
    /// At least one task failed.
    TaskFailed,
    /// Configuration or host.
    Host,
    /// A bug of ours.
    Bug,
    /// Wrong command line.
    Usage,
}

impl Exit {
    /// The exit code (names of `sysexits.h` where there is one).
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::TaskFailed => 1,
            Self::Usage => 2,
            Self::Bug => 70,
            Self::Parked => 75,
            Self::Host => 78,
        }
    }

    /// The one of two that says more: 70 > 78 > 1 > 75 > 0.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Done => 0,
            Self::Parked => 1,
            Self::TaskFailed => 2,
            Self::Host => 3,
            Self::Bug => 4,
            Self::Usage => 5,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Host => Self::Host,
            Kind::Later => Self::Parked,
            Kind::Task => Self::TaskFailed,
            Kind::Usage => Self::Usage,
            Kind::Bug => Self::Bug,
        }
    }
}

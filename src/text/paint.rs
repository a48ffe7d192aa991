//! Colours on a terminal, and when to use them.

use std::borrow::Cow;
use std::ffi::OsStr;

/// What a piece of text is, which decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Text as it is.
    Plain,
    /// Begins something.
    Title,
    /// Names something.
    Name,
    /// Less important.
    Faint,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
}

/// Paints text, or leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With colours or without.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    /// Colours where a person looks at a terminal that can show them and does not refuse them:
    /// `NO_COLOR` that is not empty (no-color.org), or `TERM` unset or `dumb`.
    pub fn for_terminal(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        Self::new(is_terminal && !refused && term.is_some_and(|term| !term.is_empty() && term != "dumb"))
    }

    /// `text`, which must be fit for a terminal, in the colours of `style` (ECMA-48, SGR).
    pub fn paint(self, style: Style, text: &str) -> Cow<'_, str> {
        let code = match style {
            Style::Plain => return Cow::Borrowed(text),
            Style::Title => "1",
            Style::Name => "36",
            Style::Faint => "2",
            Style::Good => "32",
            Style::Bad => "1;31",
        };
        if self.on && !text.is_empty() { Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m")) } else { Cow::Borrowed(text) }
    }
}

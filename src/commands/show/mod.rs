//! `show`: what happened in one task, from its context directory and `tasks.db`, as text for a person
//! or as one JSON object. Changes nothing, and shows what can be shown of whatever it finds.

mod block;
mod facts;
mod find;
mod json;
mod tally;
mod text;

use std::ffi::OsStr;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write as _};

use crate::config::Config;
use crate::context::Transcript;
use crate::error::{Error, Exit, Result};
use crate::text::{Paint, Redactor};

use facts::Facts;

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// As JSON.
    pub json: bool,
    /// Nothing shortened.
    pub full: bool,
}

/// Shows the task that `wanted` names on the standard output.
///
/// # Errors
/// `Kind::Usage` when there is no such task; `Kind::Host` when it cannot be printed.
pub fn show(config: &Config, redactor: &Redactor, wanted: &OsStr, form: Form) -> Result<Exit> {
    let found = find::find(config, wanted)?;
    let facts = Facts::gather(config, found);
    let transcript = Transcript::open(&facts.dir);
    let stdout = io::stdout();
    let env = |name: &str| std::env::var_os(name);
    let paint = Paint::for_terminal(stdout.is_terminal(), env("NO_COLOR").as_deref(), env("TERM").as_deref());
    let mut out = BufWriter::new(stdout.lock());
    let written = if form.json {
        json::write(&mut out, redactor, &facts, transcript)
    } else {
        text::Page { out: &mut out, paint, redactor, full: form.full }.write(&facts, transcript)
    };
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(Exit::Done),
        // A reader that went away (`| head`) has seen enough.
        Err(source) if source.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(source) => Err(Error::host("cannot write to the standard output").caused_by(source)),
    }
}

//! The command line: what was typed, as a value. Does no I/O.

mod help;

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::error::{Error, Result};
use crate::sys::launcher::EXEC_SUBCOMMAND;

pub use help::HELP;
use help::{DEMO_HELP, DOCTOR_HELP, GC_HELP, SHOW_HELP, STATUS_HELP};

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Look for tasks, work on them, or both.
    Run(Mode),
    /// Show where every task stands.
    Status {
        /// As JSON.
        json: bool,
    },
    /// See whether all is ready for work.
    Doctor {
        /// As JSON.
        json: bool,
    },
    /// Show what happened in one task.
    Show {
        /// A UUID, the beginning of one, or the path of a context directory.
        task: OsString,
        /// As JSON.
        json: bool,
        /// Nothing shortened.
        full: bool,
    },
    /// Remove what is old.
    Gc {
        /// Only say what would be removed.
        dry_run: bool,
        /// Make the database again from the directories.
        rebuild_db: bool,
    },
    /// Show the whole job on a made-up repository.
    Demo {
        /// Where to make it.
        dir: PathBuf,
    },
    /// Print this text.
    Print(&'static str),
    /// The hidden launcher of child processes.
    Exec(Vec<OsString>),
}

/// Which half of the job a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Look for tasks and queue them.
    Producer,
    /// Work on queued tasks.
    Consumer,
    /// One after the other.
    Both,
}

/// The command with the options every command has.
#[derive(Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--verbose`.
    pub verbose: bool,
    /// `--continuous`.
    pub continuous: bool,
}

const VERSION: &str = concat!("coding-agent ", env!("CARGO_PKG_VERSION"), "\n");

/// Reads the arguments, without the program's name.
///
/// # Errors
/// `Kind::Usage` when they are wrong.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation> {
    let mut args = args.into_iter().peekable();
    if args.peek().is_some_and(|first| first == EXEC_SUBCOMMAND) {
        return Ok(Invocation {
            command: Command::Exec(args.skip(1).collect()),
            config: None,
            verbose: false,
            continuous: false,
        });
    }
    let mut parser = lexopt::Parser::from_args(args);
    read(&mut parser)
        .map_err(|error| match error {
            ReadError::Ours(error) => error,
            ReadError::Lexopt(error) => Error::usage(lower_first(&error.to_string())),
        })
        .map_err(|error| error.hint("`coding-agent --help` shows what there is"))
}

enum ReadError {
    Ours(Error),
    Lexopt(lexopt::Error),
}

impl From<lexopt::Error> for ReadError {
    fn from(error: lexopt::Error) -> Self {
        Self::Lexopt(error)
    }
}

fn read(parser: &mut lexopt::Parser) -> Result<Invocation, ReadError> {
    let mut words: Vec<OsString> = Vec::new();
    let (mut config, mut mode) = (None, None);
    let (mut json, mut full, mut dry_run, mut rebuild_db) = (false, false, false, false);
    let (mut verbose, mut continuous, mut help) = (false, false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => help = true,
            Short('V') | Long("version") => {
                return Ok(Invocation { command: Command::Print(VERSION), config: None, verbose, continuous });
            }
            Short('v') | Long("verbose") => verbose = true,
            Long("config") => config = Some(PathBuf::from(parser.value()?)),
            Long("continuous") => continuous = true,
            Long("json") => json = true,
            Long("full") => full = true,
            Long("dry-run") => dry_run = true,
            Long("rebuild-db") => rebuild_db = true,
            Long("mode") => {
                let value = parser.value()?;
                mode = Some(match value.to_str() {
                    Some("producer") => Mode::Producer,
                    Some("consumer") => Mode::Consumer,
                    _ => {
                        let shown = value.to_string_lossy();
                        return Err(ReadError::Ours(Error::usage(format!(
                            "--mode takes producer or consumer, not `{shown}`"
                        ))));
                    }
                });
            }
            Value(word) => words.push(word),
            other => return Err(other.unexpected().into()),
        }
    }
    if words.first().is_some_and(|word| word == "help") {
        words.remove(0);
        help = true;
    }
    let first_word = words.first().map(|word| word.to_string_lossy());
    let (command, most_words, help_text) = match first_word.as_deref() {
        None => (Command::Run(mode.unwrap_or(Mode::Both)), 0, HELP),
        Some("status") => (Command::Status { json }, 1, STATUS_HELP),
        Some("doctor") => (Command::Doctor { json }, 1, DOCTOR_HELP),
        Some("show") => {
            let task = words.get(1).cloned().unwrap_or_default();
            (Command::Show { task, json, full }, 2, SHOW_HELP)
        }
        Some("gc") => (Command::Gc { dry_run, rebuild_db }, 1, GC_HELP),
        Some("demo") => {
            let dir = words.get(1).map_or_else(|| PathBuf::from("demo"), PathBuf::from);
            (Command::Demo { dir }, 2, DEMO_HELP)
        }
        Some(other) => return Err(ReadError::Ours(Error::usage(format!("there is no command `{other}`")))),
    };
    let refuse = |what: &str| Err(ReadError::Ours(Error::usage(what.to_owned())));
    if words.len() > most_words {
        return refuse(&format!("`{}` is one argument too many", words[most_words].to_string_lossy()));
    }
    if json && !matches!(command, Command::Status { .. } | Command::Show { .. } | Command::Doctor { .. }) {
        return refuse("--json belongs to `status`, `show` and `doctor`");
    }
    if full && !matches!(command, Command::Show { .. }) {
        return refuse("--full belongs to `show`");
    }
    if (dry_run || rebuild_db) && !matches!(command, Command::Gc { .. }) {
        return refuse("--dry-run and --rebuild-db belong to `gc`");
    }
    if dry_run && rebuild_db {
        return refuse("--rebuild-db changes the database, --dry-run changes nothing: give one of them");
    }
    if !help && matches!(&command, Command::Show { task, .. } if task.is_empty()) {
        return refuse("`show` takes the UUID of a task");
    }
    if (mode.is_some() || continuous) && !matches!(command, Command::Run(_)) {
        return refuse("--mode and --continuous belong to a run without a command");
    }
    let command = if help { Command::Print(help_text) } else { command };
    Ok(Invocation { command, config, verbose, continuous })
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

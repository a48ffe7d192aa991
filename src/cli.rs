//! The command line: what was typed, as a value. Does no I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::error::{Error, Result};
use crate::sys::launcher::EXEC_SUBCOMMAND;

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
    /// Show what happened in one task.
    Show {
        /// A UUID, the beginning of one, or the path of a context directory.
        task: OsString,
        /// As JSON.
        json: bool,
        /// Nothing shortened.
        full: bool,
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

/// Help of the program.
pub const HELP: &str = "\
coding-agent works on issues that carry a label, with an LLM and tools, and hands back a pushed
branch and a comment. Start it from a systemd timer or from cron; every run does what there is to
do and ends.

Usage: coding-agent [--mode producer|consumer] [OPTIONS]
       coding-agent status [--json] [OPTIONS]
       coding-agent show TASK [--full] [--json] [OPTIONS]
       coding-agent demo [DIR]

Commands:
  (none)   Look for labelled issues, then work on all that wait.
  status   Show the tasks that wait, run, are put off, or ended last, and what they cost.
  show     Show what happened in one task: conversation, tool calls, ending, cost.
  demo     Show the whole job, offline, on a small repository made in DIR (default: demo).

Options:
  --mode producer   Only look for tasks and queue them.
  --mode consumer   Only work on queued tasks.
  --continuous      Go on for ever instead of once (not in this version).
  --config FILE     Configuration; default: $CONFIG_FILE, else config.yaml if it is there.
  -v, --verbose     Show progress on stderr. The log file has it anyway.
  -h, --help        This text; `coding-agent status --help` for a command's own.
  -V, --version     The version.

Exit codes:
  0   worked, or nothing to do (also: another producer is at it, all consumer slots are taken)
  1   at least one task failed
  2   the command line was wrong
  75  a task is put off, come back later (also: asked to end by SIGTERM)
  78  configuration or host: something a person must mend
  70  a bug of this program
";

const STATUS_HELP: &str = "\
Shows where every task stands: waiting, running, put off (with the time), given up, unreadable,
paused, and those that ended last; below each what its model calls cost so far. Reads files only
and changes nothing. `coding-agent show UUID` shows one task.

Usage: coding-agent status [--json] [--config FILE]

Options:
  --json   One JSON object instead of text, with totals per day, user and repository.
";

const SHOW_HELP: &str = "\
Shows what happened in one task: which item it is and how it ended, every message, tool calls with
exit codes and durations, summaries and plans, how it ended in detail, and what it cost. Long texts
are shortened. Times are UTC. Reads files only and changes nothing; of a damaged directory it shows
what can be read and says what cannot.

Usage: coding-agent show TASK [--full] [--json] [--config FILE]

  TASK     The UUID of a task, the beginning of one, or the path of a context directory.

Options:
  --full   Nothing shortened.
  --json   One JSON object instead of text, with everything in it.

Colours are used on a terminal only, and not where NO_COLOR is set.
";

const DEMO_HELP: &str = "\
Makes a small git repository and an issue file below DIR, runs producer and consumer with a
recorded model, and shows the issue, the steps, the resulting diff on the pushed branch, the
comment, and where everything lies. Needs git and sh, no network and no account.

Usage: coding-agent demo [DIR]
";

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
    let (mut json, mut full, mut verbose, mut continuous, mut help) = (false, false, false, false, false);
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
    let first_word = words.first().map(|word| word.to_string_lossy());
    let (command, most_words, help_text) = match first_word.as_deref() {
        None => (Command::Run(mode.unwrap_or(Mode::Both)), 0, HELP),
        Some("status") => (Command::Status { json }, 1, STATUS_HELP),
        Some("show") => {
            let task = words.get(1).cloned().unwrap_or_default();
            (Command::Show { task, json, full }, 2, SHOW_HELP)
        }
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
    if json && !matches!(command, Command::Status { .. } | Command::Show { .. }) {
        return refuse("--json belongs to `status` and `show`");
    }
    if full && !matches!(command, Command::Show { .. }) {
        return refuse("--full belongs to `show`");
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

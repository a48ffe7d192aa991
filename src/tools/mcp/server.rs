//! One MCP server in one task: started when the task begins, started once more when it dies, ended with
//! the task. Whatever happens to it is a result for the model.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::session::{Failure, Session};
use super::transport::{Lost, Transport};
use super::{offer, result};
use crate::chat::Arguments;
use crate::ports::{ToolResult, ToolServer, ToolSpec, Trouble};
use crate::sys::signal;
use crate::text::{Redactor, head, printable_line};

/// A longer reason is cut.
const LONGEST_REASON_BYTES: usize = 1_000;

/// Opens a line to the server: starts it, or gets ready to call it.
pub type Open = Box<dyn FnMut() -> Result<Box<dyn Transport>, Lost>>;

/// Choices of the operator for one server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its name.
    pub name: String,
    /// Time until it must have introduced itself and its tools.
    pub start_timeout: Duration,
    /// Time for one call.
    pub timeout: Duration,
    /// The task fails without it.
    pub is_required: bool,
    /// Tools offered to the model; empty = all.
    pub tools: Vec<String>,
    /// What the server may look at.
    pub tree: PathBuf,
}

/// A server of other people's tools.
pub struct McpServer {
    settings: ServerSettings,
    open: Open,
    specs: Vec<ToolSpec>,
    state: State,
    may_restart: bool,
}

enum State {
    Running(Session),
    /// Why it does not run.
    Down(Trouble),
}

impl McpServer {
    /// Starts the server and asks for its tools. One that does not start has no tools and says why.
    pub fn start(settings: ServerSettings, mut open: Open, redactor: &Redactor) -> Self {
        let deadline = Instant::now() + settings.start_timeout;
        let begun = begin(&settings, &mut open, deadline);
        let begun = begun.and_then(|mut session| session.tools(deadline).map(|tools| (session, tools)));
        let (state, specs) = match begun {
            Ok((session, tools)) => {
                let specs = offer::specs(&settings.name, &tools, &settings.tools, redactor);
                (State::Running(session), specs)
            }
            Err(failure) => (State::Down(not_started(&settings, &failure)), Vec::new()),
        };
        // Nothing was done with it yet, so a second start would meet the same.
        let may_restart = matches!(state, State::Running(_));
        Self { settings, open, specs, state, may_restart }
    }

    /// Its session, begun anew where it died before.
    fn session(&mut self) -> Result<&mut Session, Trouble> {
        if let State::Down(trouble) = &self.state {
            if !std::mem::take(&mut self.may_restart) {
                return Err(trouble.clone());
            }
            log::info!("MCP server `{}` is started again", self.settings.name);
            let deadline = Instant::now() + self.settings.start_timeout;
            self.state = match begin(&self.settings, &mut self.open, deadline) {
                Ok(session) => State::Running(session),
                Err(failure) => State::Down(not_started(&self.settings, &failure)),
            };
        }
        match &mut self.state {
            State::Running(session) => Ok(session),
            State::Down(trouble) => Err(trouble.clone()),
        }
    }

    fn failed(&mut self, tool: &str, failure: Failure) -> ToolResult {
        let name = &self.settings.name;
        const MAY_HAVE_WORKED: &str = "It may still have taken effect.";
        ToolResult::error(match failure {
            Failure::Error(words) => words,
            Failure::Lost(Lost::TimedOut) => format!(
                "`{tool}` did not answer within {} s and is no longer waited for. {MAY_HAVE_WORKED}",
                self.settings.timeout.as_secs()
            ),
            Failure::Lost(Lost::Interrupted) => {
                format!("`{tool}` was no longer waited for: the agent was asked to stop. {MAY_HAVE_WORKED}")
            }
            Failure::Lost(Lost::Ended(ref end)) => {
                log::warn!("MCP server `{name}` is gone: {end}");
                let next = if self.may_restart {
                    "It is started again for the next call."
                } else {
                    "It was started again once already, so its tools cannot be used any more."
                };
                let trouble = trouble(&self.settings, end.to_string(), &failure);
                let text = format!(
                    "The MCP server `{name}` is gone: {}. The call was not repeated: it may have taken effect. {next}",
                    trouble.why
                );
                // Drops the session, which clears away what the server left.
                self.state = State::Down(trouble);
                text
            }
            other => format!("`{tool}` has no result: {other}."),
        })
    }
}

impl ToolServer for McpServer {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn tools(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }

    fn call(&mut self, tool: &str, arguments: &Arguments) -> ToolResult {
        let timeout = self.settings.timeout;
        let answer = match self.session() {
            Ok(session) => session.call(tool, arguments, Instant::now() + timeout),
            Err(trouble) => {
                let (name, why) = (&self.settings.name, trouble.why);
                return ToolResult::error(format!(
                    "The MCP server `{name}` is not available: {why}. Its tools cannot be used; go on without them."
                ));
            }
        };
        match answer {
            Ok(answer) => {
                // Two mishaps hours apart are not a server that cannot live.
                self.may_restart = true;
                result::read(&answer)
            }
            Err(failure) => self.failed(tool, failure),
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        match &self.state {
            State::Down(trouble) if !self.may_restart => Some(trouble.clone()),
            _ => None,
        }
    }
}

fn begin(settings: &ServerSettings, open: &mut Open, deadline: Instant) -> Result<Session, Failure> {
    if signal::termination_requested() {
        return Err(Lost::Interrupted.into());
    }
    Session::start(&settings.name, open()?, &settings.tree, deadline)
}

fn not_started(settings: &ServerSettings, failure: &Failure) -> Trouble {
    // That we have to end is no fault of the server.
    let level = match failure {
        Failure::Lost(Lost::Interrupted) => log::Level::Info,
        _ => log::Level::Warn,
    };
    let explained = match failure {
        Failure::Lost(Lost::TimedOut) => not_ready(settings),
        failure => failure.to_string(),
    };
    log::log!(level, "MCP server `{}` did not start: {explained}", settings.name);
    trouble(settings, explained, failure)
}

fn trouble(settings: &ServerSettings, explained: String, failure: &Failure) -> Trouble {
    let why = match failure {
        Failure::Lost(Lost::TimedOut) => not_ready(settings),
        failure => failure.public(),
    };
    Trouble {
        why: one_line(&why),
        explained: one_line(&explained),
        may_pass: failure.may_pass(),
        is_fatal: settings.is_required,
    }
}

fn not_ready(settings: &ServerSettings) -> String {
    format!("it did not get ready within {} s", settings.start_timeout.as_secs())
}

/// A reason as it is told further: part of a sentence.
fn one_line(why: &str) -> String {
    head(&printable_line(why), LONGEST_REASON_BYTES).trim_end_matches('.').to_owned()
}

//! An MCP server that is a program of ours to start: one JSON message per line on its stdin and stdout,
//! words for the log on stderr. What else it prints on stdout goes to the log too (case C36).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use serde_json::Value;

use super::chatter::Chatter;
use super::transport::{End, Lost, Transport};
use crate::sys::companion::{Companion, NoLine};
use crate::sys::process::{Ending, Program};
use crate::text::parse_json;

/// Largest message of a server (case C40).
const LARGEST_MESSAGE_BYTES: usize = 16 << 20;

/// A running server.
pub struct Stdio {
    companion: Companion,
    /// What stdout had besides messages.
    noise: Chatter,
    stderr: Rc<RefCell<Chatter>>,
    /// Messages of a batch that nobody has taken yet.
    batch: VecDeque<Value>,
}

impl Stdio {
    /// Starts `program` as the server `name`.
    ///
    /// # Errors
    /// `Ended` when no process can be started. That the program does not exist shows in the first answer.
    pub fn start(name: &str, program: &Program) -> Result<Self, Lost> {
        let stderr = Rc::new(RefCell::new(Chatter::new(name, "stderr")));
        let heard = stderr.clone();
        let on_said = move |line: &str| heard.borrow_mut().hear(line);
        let companion = Companion::start(program, LARGEST_MESSAGE_BYTES, on_said).map_err(|error| {
            log::info!("{error:#}");
            Lost::Ended(End::of(&error))
        })?;
        Ok(Self { companion, noise: Chatter::new(name, "stdout"), stderr, batch: VecDeque::new() })
    }

    fn lost(&mut self, why: NoLine) -> Lost {
        match why {
            NoLine::TimedOut => Lost::TimedOut,
            NoLine::Interrupted => Lost::Interrupted,
            NoLine::TooLong => Lost::TooLarge { limit_bytes: LARGEST_MESSAGE_BYTES },
            NoLine::Ended(ending) => Lost::Ended(self.end(ending)),
        }
    }

    /// How it ended, and what it said last.
    fn end(&mut self, ending: Option<Ending>) -> End {
        // Its last lines, which nobody has asked for: often the reason.
        while let Ok(line) = self.companion.read_line(Instant::now()) {
            self.noise.hear(&String::from_utf8_lossy(&line));
        }
        let how = match ending {
            Some(Ending::Code(126)) => "it ended with exit code 126: its program cannot be run".to_owned(),
            Some(Ending::Code(127)) => "it ended with exit code 127: a program was not found".to_owned(),
            Some(Ending::Code(code)) => format!("it ended with exit code {code}"),
            Some(Ending::Signal(signal)) => format!("it was killed by signal {signal}"),
            _ => "it closed its output".to_owned(),
        };
        let stderr = self.stderr.borrow().last_words();
        let said = if stderr.is_empty() { self.noise.last_words() } else { stderr };
        // A missing key, a wrong path: what ends a program is seldom over by itself.
        End { said, ..End::lasting(how) }
    }
}

impl Transport for Stdio {
    fn send(&mut self, message: &Value, deadline: Instant) -> Result<(), Lost> {
        // Line breaks inside of texts are escapes in JSON, so this is one line.
        let written = self.companion.write_line(message.to_string().as_bytes(), deadline);
        written.map_err(|why| self.lost(why))
    }

    fn receive(&mut self, deadline: Instant) -> Result<Value, Lost> {
        loop {
            if let Some(message) = self.batch.pop_front() {
                return Ok(message);
            }
            let line = self.companion.read_line(deadline);
            let line = line.map_err(|why| self.lost(why))?;
            match parse_json(&line) {
                Ok(message @ Value::Object(_)) => return Ok(message),
                Ok(Value::Array(batch)) if batch.iter().any(Value::is_object) => {
                    self.batch.extend(batch.into_iter().filter(Value::is_object));
                }
                _ => self.noise.hear(&String::from_utf8_lossy(&line)),
            }
        }
    }

    fn close(&mut self) {
        self.companion.end();
    }
}

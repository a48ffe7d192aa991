//! Whether to go on: looked at before every model call and between tool calls. Reads signals, the
//! pause signal file and the item; decides nothing but "go on, or leave this way".

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::{Kind, Result};
use crate::ports::{Forge, ItemState};
use crate::sys::signal;
use crate::task::{Labels, TaskKey};

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directive {
    /// Go on.
    Continue,
    /// The operator put up the pause signal.
    Pause,
    /// The bot was unassigned.
    Stop,
    /// Closed, merged, or the processing label is gone.
    Cancel,
    /// We were asked to end: come back later.
    Park,
}

/// The watch over one task in work.
pub struct Control<'a> {
    forge: &'a dyn Forge,
    key: TaskKey,
    processing_label: String,
    pause_signal: Option<PathBuf>,
    /// The bot was assigned when work began; losing that means "stop".
    watches_assignment: bool,
    seen_unassigned: bool,
    last_read: Option<Instant>,
}

impl<'a> Control<'a> {
    /// Watches `key`. `watches_assignment`: stop when the bot is not assigned any more.
    pub fn new(
        forge: &'a dyn Forge,
        key: TaskKey,
        labels: &Labels,
        pause_signal: Option<PathBuf>,
        watches_assignment: bool,
    ) -> Self {
        Self {
            forge,
            key,
            processing_label: labels.processing.clone(),
            pause_signal,
            watches_assignment,
            seen_unassigned: false,
            last_read: None,
        }
    }

    /// Looks at everything that can end the work from outside.
    ///
    /// # Errors
    /// `Kind::Host` when the forge refuses us altogether; passing trouble of the forge is ignored here.
    pub fn checkpoint(&mut self) -> Result<Directive> {
        self.check(self.forge.item_max_age())
    }

    /// The same with the item as it is now, for the moment before something is handed back.
    ///
    /// # Errors
    /// As [`Control::checkpoint`].
    pub fn final_checkpoint(&mut self) -> Result<Directive> {
        self.check(Duration::ZERO)
    }

    fn check(&mut self, max_age: Duration) -> Result<Directive> {
        if signal::termination_requested() {
            return Ok(Directive::Park);
        }
        if self.pause_signal.as_ref().is_some_and(|path| path.exists()) {
            return Ok(Directive::Pause);
        }
        if self.last_read.is_some_and(|at| at.elapsed() < max_age) {
            return Ok(Directive::Continue);
        }
        self.read_item()
    }

    fn read_item(&mut self) -> Result<Directive> {
        let item = match self.forge.item(&self.key) {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(Directive::Cancel),
            Err(error) if error.kind() == Kind::Host => return Err(error),
            Err(error) => {
                log::warn!("cannot look at {} between two turns: {error:#}; going on", self.key);
                return Ok(Directive::Continue);
            }
        };
        self.last_read = Some(Instant::now());
        if item.state != ItemState::Open || !item.has_label(&self.processing_label) {
            return Ok(Directive::Cancel);
        }
        let bot = self.forge.bot_login();
        let assigned = item.assignees.iter().any(|login| login.eq_ignore_ascii_case(bot));
        if !self.watches_assignment || assigned {
            self.seen_unassigned = false;
            return Ok(Directive::Continue);
        }
        // Two readings: a list that is stale for a moment must not end a task.
        if std::mem::replace(&mut self.seen_unassigned, true) {
            return Ok(Directive::Stop);
        }
        self.last_read = None;
        Ok(Directive::Continue)
    }
}

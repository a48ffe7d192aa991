//! What happens besides when a task ends or is put aside: an ordered list for each. They come after all
//! that people see and before the directory moves. One that fails is a line in the log, and the rest run.
//! After a kill they may run again, so doing it twice must be doing it once.

use super::{OutcomeFile, TaskContext};
use crate::error::Result;
use crate::task::OutcomeKind;

type Work<'a> = Box<dyn Fn(&TaskContext, &OutcomeFile) -> Result<()> + 'a>;

/// The two lists.
#[derive(Default)]
pub struct Hooks<'a> {
    completion: Vec<(&'static str, Work<'a>)>,
    stop: Vec<(&'static str, Work<'a>)>,
}

impl<'a> Hooks<'a> {
    /// Adds `work` to what is done when a task ends, well or not. `name` says what it is, for the log.
    pub fn on_completion(&mut self, name: &'static str, work: impl Fn(&TaskContext, &OutcomeFile) -> Result<()> + 'a) {
        self.completion.push((name, Box::new(work)));
    }

    /// Adds `work` to what is done when a task is paused.
    pub fn on_stop(&mut self, name: &'static str, work: impl Fn(&TaskContext, &OutcomeFile) -> Result<()> + 'a) {
        self.stop.push((name, Box::new(work)));
    }

    /// Runs the list that belongs to the outcome, in order.
    pub fn run(&self, context: &TaskContext, outcome: &OutcomeFile) {
        let list = if outcome.outcome.kind == OutcomeKind::Paused { &self.stop } else { &self.completion };
        for (name, work) in list {
            if let Err(error) = work(context, outcome) {
                log::warn!("{}: {name}: {error:#}", context.metadata.message.key);
            }
        }
    }
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |list: &[(&'static str, Work<'_>)]| list.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        write!(f, "Hooks {{ completion: {:?}, stop: {:?} }}", names(&self.completion), names(&self.stop))
    }
}

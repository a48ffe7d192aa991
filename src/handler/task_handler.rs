//! `TaskHandler::handle`: takes one claim to its end and gives it back to the queue. Here errors
//! become outcomes or parkings; nowhere else.

use std::cell::RefCell;
use std::path::PathBuf;

use super::agent_loop::{AgentLoop, LoopEnd};
use super::finish::Finisher;
use super::json_protocol::Protocol;
use super::{comment, prepare, requirement};
use crate::context::{
    CompressionSettings, Contexts, Hooks, Metadata, OutcomeFile, Parking, Place, TaskContext, TaskDb,
};
use crate::control::{Control, Directive};
use crate::error::{Error, Exit, Kind, Result};
use crate::ports::{Claim, Forge, Item, ItemState, Llm, TaskQueue};
use crate::prompts::Prompts;
use crate::sys::{clock, fault, signal};
use crate::task::{Labels, Outcome, OutcomeKind, TaskId, TaskKey};
use crate::text::{Redactor, without_controls};
use crate::tools::Toolbox;
use crate::workspace::{self, Workspace};

/// Choices of the operator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The six labels.
    pub labels: Labels,
    /// Begin of branch names.
    pub branch_prefix: String,
    /// Open pull requests as drafts.
    pub draft_pull_requests: bool,
    /// Replies of the model one task may have.
    pub max_turns: u64,
    /// Most estimated tokens of one tool result.
    pub result_cap_tokens: u64,
    /// Most estimated tokens taken over from an earlier task of the same item; `None` when that is off.
    pub inheritance_tokens: Option<u64>,
    /// How the model calls tools.
    pub protocol: Protocol,
    /// When older messages are summed up; `None` for never.
    pub compression: Option<CompressionSettings>,
    /// Claims without a turn after which a task is given up; for the message.
    pub max_attempts: u32,
    /// File whose presence pauses; `None` when pausing is off.
    pub pause_signal: Option<PathBuf>,
    /// Stop a task when the bot is unassigned.
    pub stops_when_unassigned: bool,
    /// What the person the task is for wants in every task; stands below the standing orders.
    pub user_orders: Option<String>,
    /// Repositories of tasks.
    pub workspace: workspace::Settings,
}

/// The tools of one task.
pub struct ToolSet {
    /// The toolbox.
    pub toolbox: Toolbox,
    /// Wire name of the tool that runs commands, if there is one.
    pub command_tool: Option<String>,
}

/// Makes the tools of a task, and cleans up after those of a run that died.
pub trait ToolSource {
    /// Tools for the task whose workspace this is.
    ///
    /// # Errors
    /// `Kind::Host` when a required tool cannot work here.
    fn tools(&self, uuid: TaskId, workspace: &Workspace) -> Result<ToolSet>;
    /// Whether commands can be run.
    fn has_commands(&self) -> bool;
    /// Ends processes of this task that a crash left.
    fn end_leftovers(&self, uuid: TaskId);
}

/// How a claim ended, for the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    /// How the task ended.
    pub kind: OutcomeKind,
    /// What it means for the exit code.
    pub exit: Exit,
    /// The pass must end: every other task would meet the same.
    pub ends_pass: bool,
}

/// Works on tasks.
pub struct TaskHandler<'a> {
    /// Where they come from.
    pub forge: &'a dyn Forge,
    /// Who works on them.
    pub llm: &'a mut dyn Llm,
    /// What it works with.
    pub tools: &'a dyn ToolSource,
    /// Where it is written down.
    pub contexts: &'a Contexts,
    /// Where it is indexed.
    pub db: &'a RefCell<TaskDb>,
    /// What is done besides when a task ends.
    pub hooks: &'a Hooks<'a>,
    /// What is said.
    pub prompts: &'a Prompts,
    /// What is never said.
    pub redactor: &'a Redactor,
    /// How.
    pub settings: &'a Settings,
}

/// Where a claim stands when its work is over or cannot go on.
enum End {
    Finished(OutcomeKind),
    Skipped,
    Directive,
}

impl TaskHandler<'_> {
    /// Takes one claim to its end.
    ///
    /// # Errors
    /// Only when the queue itself cannot be written.
    pub fn handle(&mut self, queue: &mut dyn TaskQueue, mut claim: Claim) -> Result<Handled> {
        let key = claim.message.key.clone();
        if key.source() != self.forge.name() {
            // The operator changed the task source; the task is kept for when he changes it back.
            log::warn!("{key}: put off for a day, it belongs to task_source {}", key.source());
            queue.park(claim, clock::now_ms() + 24 * 3_600_000)?;
            return Ok(Handled { kind: OutcomeKind::Parked, exit: Exit::Done, ends_pass: false });
        }
        log::info!("{key}: begins ({})", claim.message.uuid);
        let end = self.work(queue, &mut claim);
        let now_ms = clock::now_ms();
        let handled = |kind, exit, ends_pass| Ok(Handled { kind, exit, ends_pass });
        match end {
            Ok(End::Finished(kind)) => {
                log::info!("{key}: {}", kind.name());
                let exit = match kind {
                    OutcomeKind::Failed | OutcomeKind::GaveUp => Exit::TaskFailed,
                    _ => Exit::Done,
                };
                if kind == OutcomeKind::GaveUp {
                    queue.give_up(claim)?
                } else {
                    queue.remove(claim)?
                }
                handled(kind, exit, false)
            }
            Ok(End::Skipped) => {
                queue.remove(claim)?;
                handled(OutcomeKind::Skipped, Exit::Done, false)
            }
            Ok(End::Directive) => {
                log::info!("{key}: parked, we were asked to end");
                queue.park(claim, now_ms)?;
                handled(OutcomeKind::Parked, Exit::Parked, true)
            }
            Err(error) if error.kind() == Kind::Later => {
                let not_before_ms = self.count_parking(&claim, &error, now_ms);
                log::warn!("{key}: parked until {}: {error:#}", clock::rfc3339(not_before_ms));
                queue.park(claim, not_before_ms)?;
                handled(OutcomeKind::Parked, Exit::Parked, true)
            }
            Err(error) if error.kind() == Kind::Host => {
                log::error!("{key}: parked: {error:#}");
                queue.park(claim, now_ms)?;
                handled(OutcomeKind::Parked, Exit::Host, true)
            }
            Err(error) => {
                // As if we had been killed: the attempt counts, so a bug cannot go on for ever.
                log::error!("{key}: left for the next pass: {error:#}");
                queue.abandon(claim);
                handled(OutcomeKind::Parked, Exit::Bug, true)
            }
        }
    }

    /// When to try again after passing trouble. A known end does not count as one more failure.
    fn count_parking(&self, claim: &Claim, error: &Error, now_ms: u64) -> u64 {
        let dir = self.contexts.running_dir(claim.message.uuid);
        // One that is over already says nothing.
        let known_end_ms = error.not_before_ms().filter(|until_ms| *until_ms > now_ms);
        let parking = Parking::load(&dir, now_ms);
        if dir.is_dir() {
            // A quota that comes back each hour for a week, and never does, is in vain as well.
            let written = if known_end_ms.is_some() { parking.note(&dir) } else { parking.count_one(&dir) };
            if let Err(error) = written {
                log::warn!("{error:#}");
            }
        }
        known_end_ms.unwrap_or_else(|| parking.next_try_ms(now_ms))
    }

    fn work(&mut self, queue: &mut dyn TaskQueue, claim: &mut Claim) -> Result<End> {
        let key = claim.message.key.clone();
        let place = self.contexts.find(claim.message.uuid);
        if place == Place::Completed {
            log::info!("{key}: was finished before; only its queue entry was left");
            return Ok(End::Finished(self.contexts.finished_as(claim.message.uuid)?));
        }
        let begun = place != Place::Nowhere;
        let item = match self.forge.item(&key) {
            Err(error) if error.kind() == Kind::Task => {
                let context = self.open(claim, begun, None)?;
                // What was decided stands, and may be half told.
                if let Some(decided) = OutcomeFile::load(context.dir())? {
                    return self.apply(context, decided, None);
                }
                return self.finish(context, Outcome::failed(error.sentence()), Vec::new(), None);
            }
            item => item?,
        };
        if !begun && !self.check(&key, item.as_ref())? {
            return Ok(End::Skipped);
        }
        let mut context = self.open(claim, begun, item.as_ref())?;
        fault::point("context.opened");
        if begun {
            self.tools.end_leftovers(context.uuid());
        }
        if let Some(decided) = OutcomeFile::load(context.dir())? {
            log::info!("{key}: decided before ({}); only finishing goes on", decided.outcome.kind.name());
            return self.apply(context, decided, item.as_ref());
        }
        let mut notes = Vec::new();
        let outcome = match self.outcome(queue, claim, &mut context, place, item.as_ref(), &mut notes) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return Ok(End::Directive),
            Err(error) if error.kind() == Kind::Task => {
                log::warn!("{key}: {error:#}");
                Outcome::failed(error.sentence())
            }
            Err(error)
                if error.kind() == Kind::Later
                    && Parking::load(context.dir(), clock::now_ms()).is_hopeless(clock::now_ms()) =>
            {
                Outcome::failed(format!("waited seven days in vain: {}", error.sentence()))
            }
            Err(error) => return Err(error),
        };
        self.finish(context, outcome, notes, item.as_ref())
    }

    /// Whether work on a fresh task should begin; takes the item in hand where a producer died
    /// before it could.
    fn check(&self, key: &TaskKey, item: Option<&Item>) -> Result<bool> {
        let labels = &self.settings.labels;
        let Some(item) = item else {
            log::info!("{key}: skipped, it does not exist any more");
            return Ok(false);
        };
        if item.state != ItemState::Open {
            log::info!("{key}: skipped, it was closed before work began");
            if item.has_label(&labels.processing) {
                self.forge.remove_label(key, &labels.processing)?;
            }
            return Ok(false);
        }
        if item.has_label(&labels.bot) {
            return prepare(self.forge, labels, item);
        }
        let taken = item.has_label(&labels.processing);
        if !taken {
            log::info!("{key}: skipped, its label was taken away before work began");
        }
        Ok(taken)
    }

    fn open(&self, claim: &Claim, begun: bool, item: Option<&Item>) -> Result<TaskContext> {
        let context = if begun {
            self.contexts.resume(&claim.message)?
        } else {
            let repository = item.map_or_else(|| claim.message.key.repository(), |item| item.repository.clone());
            let bot = self.forge.bot_login();
            let assigned = item.is_some_and(|item| item.assignees.iter().any(|login| login.eq_ignore_ascii_case(bot)));
            self.contexts.create(Metadata::new(claim.message.clone(), repository, assigned))?
        };
        self.db.borrow_mut().register(&context.metadata);
        Ok(context)
    }

    /// The work itself; `None` when we were asked to end. Adds facts for the final comment to `notes`.
    fn outcome(
        &mut self,
        queue: &mut dyn TaskQueue,
        claim: &mut Claim,
        context: &mut TaskContext,
        place: Place,
        item: Option<&Item>,
        notes: &mut Vec<String>,
    ) -> Result<Option<Outcome>> {
        let key = claim.message.key.clone();
        if claim.exhausted {
            let reason = format!("the process died {} times at the same place", self.settings.max_attempts);
            return Ok(Some(Outcome::of(OutcomeKind::GaveUp, reason)));
        }
        let Some(item) = item.filter(|item| item.state == ItemState::Open) else {
            return Ok(Some(Outcome::of(OutcomeKind::Cancelled, "closed while in work")));
        };
        // By the label as well: a run that took it out of paused/ can have died before this.
        if place == Place::Paused || item.has_label(&self.settings.labels.paused) {
            self.forge.add_label(&key, &self.settings.labels.processing)?;
            self.forge.remove_label(&key, &self.settings.labels.paused)?;
        }
        let (workspace, made_again) = self.workspace(context.uuid(), &key)?;
        let ToolSet { mut toolbox, command_tool } = self.tools.tools(context.uuid(), &workspace)?;
        toolbox.add_spec(crate::tools::finish::spec());
        let command_tool = match self.settings.protocol {
            Protocol::Native => command_tool,
            Protocol::Json => command_tool.map(|tool| toolbox.slash_name(&tool)),
        };
        // The standing orders stay for the whole task, so they do not say what may be otherwise soon.
        let will_wait = signal::termination_requested() || requirement::missing(&toolbox).is_err();
        if !will_wait {
            let tools_note = self.tools_note(&toolbox, command_tool.as_deref());
            self.open_conversation(context, item, &workspace, &tools_note)?;
            self.tell_inheritance(context)?;
            if made_again {
                self.tell_made_again(context, &workspace)?;
            }
        }
        let watches = self.settings.stops_when_unassigned && context.metadata.bot_assigned;
        let pause_signal = self.settings.pause_signal.clone();
        let mut control = Control::new(self.forge, key, &self.settings.labels, pause_signal, watches);
        let end = AgentLoop {
            forge: self.forge,
            protocol: self.settings.protocol,
            llm: self.llm,
            toolbox: &mut toolbox,
            context,
            control: &mut control,
            prompts: self.prompts,
            redactor: self.redactor,
            max_turns: self.settings.max_turns,
            result_cap_tokens: self.settings.result_cap_tokens,
            compression: self.settings.compression,
            on_turn: &mut || queue.turn_completed(claim),
        }
        .run();
        notes.extend(self.facts_of_missing_tools(&toolbox));
        // Its servers end before anything happens to the tree.
        drop(toolbox);
        let end = end?;
        // What was closed while the model worked gets no pull request.
        let end = match end {
            LoopEnd::Outcome(outcome) if outcome.kind == OutcomeKind::Completed => match control.final_checkpoint()? {
                Directive::Cancel => LoopEnd::Directive(Directive::Cancel),
                _ => LoopEnd::Outcome(outcome),
            },
            end => end,
        };
        Ok(match end {
            LoopEnd::Outcome(outcome) => Some(outcome),
            LoopEnd::Directive(Directive::Pause) => Some(Outcome::of(OutcomeKind::Paused, "the pause signal is up")),
            LoopEnd::Directive(Directive::Stop) => Some(Outcome::of(OutcomeKind::Stopped, "the bot was unassigned")),
            LoopEnd::Directive(Directive::Cancel) => {
                Some(Outcome::of(OutcomeKind::Cancelled, "closed, or the processing label taken away, while in work"))
            }
            LoopEnd::Directive(Directive::Park | Directive::Continue) => None,
        })
    }

    fn finish(&self, context: TaskContext, outcome: Outcome, notes: Vec<String>, item: Option<&Item>) -> Result<End> {
        let fit = |text: &str| self.redactor.mask(&without_controls(text));
        let outcome = Outcome { kind: outcome.kind, reason: fit(&outcome.reason), summary: fit(&outcome.summary) };
        let name = comment::name(outcome.kind, context.metadata.resumes);
        let notes = notes.iter().map(|note| fit(note)).collect();
        let decided = OutcomeFile { notes, ..OutcomeFile::new(outcome, name) };
        // From here on the decision stands: it is on the disk before anything outside changes.
        decided.save(context.dir())?;
        fault::point("finish.decided");
        self.apply(context, decided, item)
    }

    fn apply(&self, context: TaskContext, decided: OutcomeFile, item: Option<&Item>) -> Result<End> {
        let workspace = self.standing_workspace(&context)?;
        self.tools.end_leftovers(context.uuid());
        let finisher = Finisher {
            forge: self.forge,
            settings: self.settings,
            prompts: self.prompts,
            redactor: self.redactor,
            hooks: self.hooks,
            model: self.llm.model(),
            has_commands: self.tools.has_commands(),
            estimated_usage: self.db.borrow().estimated_usage(context.uuid()),
            item,
        };
        finisher.finish(context, decided, workspace).map(End::Finished)
    }
}

//! The consumer: works on queued tasks, one after the other, until none is left.

use std::cell::RefCell;

use super::sandbox::sandbox;
use super::setup::Setup;
use super::task_tools::TaskTools;
use crate::config::QueueBackend;
use crate::context::{Hooks, OutcomeFile, TaskContext};
use crate::error::{Exit, Result};
use crate::handler::TaskHandler;
use crate::llm::{Ledger, Retrying};
use crate::ports::{Llm, TaskQueue};
use crate::sys::{file, signal};
use crate::task::Outcome;
use crate::workspace;

/// Works until the queue is empty, a task says that the pass must end, or we are asked to end.
pub fn consume(setup: &Setup, queue: &mut dyn TaskQueue) -> Result<Exit> {
    let slot = match setup.config.queue.backend {
        QueueBackend::Spool => {
            let slot = setup.spool()?.consumer_slot(setup.config.queue.max_consumers)?;
            if slot.is_none() {
                log::info!("all {} consumer slots are taken; nothing is done", setup.config.queue.max_consumers);
                return Ok(Exit::Done);
            }
            slot
        }
        QueueBackend::Memory | QueueBackend::Rabbitmq => None,
    };
    if !queue.has_waiting()? {
        log::info!("no task is waiting");
        return Ok(Exit::Done);
    }
    // Probed before the first claim: what is wrong with this host must not cost a task an attempt.
    let mut workspace_settings = setup.workspace_settings()?;
    let git_version = workspace::check_installed(&workspace_settings)?;
    log::debug!("using {git_version}");
    let sandbox = sandbox(&setup.config)?;
    workspace_settings.sandbox = sandbox.clone();
    file::create_dir(setup.contexts.base_dir())?;
    let forge = setup.forge()?;
    let db = RefCell::new(setup.db());
    let mut llm = Ledger::new(Retrying::new(setup.llm()?), &db);
    llm.probe()?;
    let tools = TaskTools::new(&setup.config, &setup.redactor, sandbox, llm.model().context_tokens);
    let settings = setup.handler_settings(llm.model().context_tokens, workspace_settings);
    let mut hooks = Hooks::default();
    let row = |context: &TaskContext, outcome: &OutcomeFile| {
        let Outcome { kind, reason, .. } = &outcome.outcome;
        let error = (!reason.is_empty()).then_some(reason.as_str());
        db.borrow_mut().finish(context.uuid(), kind.status(), error, &context.statistics());
        Ok(())
    };
    hooks.on_completion("the row in tasks.db", row);
    hooks.on_stop("the row in tasks.db", row);
    let mut handler = TaskHandler {
        forge,
        llm: &mut llm,
        tools: &tools,
        contexts: &setup.contexts,
        db: &db,
        hooks: &hooks,
        prompts: &setup.prompts,
        redactor: &setup.redactor,
        settings: &settings,
    };
    let mut exit = Exit::Done;
    loop {
        if signal::termination_requested() {
            log::info!("asked to end; what waits stays queued");
            exit = exit.worse(Exit::Parked);
            break;
        }
        if setup.is_paused() {
            log::info!("the pause signal is up; what waits stays queued");
            break;
        }
        let Some(claim) = queue.claim()? else { break };
        let handled = handler.handle(queue, claim)?;
        exit = exit.worse(handled.exit);
        if handled.ends_pass {
            break;
        }
    }
    drop(slot);
    Ok(exit)
}

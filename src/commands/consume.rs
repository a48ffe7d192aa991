//! The consumer: works on queued tasks, one after the other, until none is left.

use std::cell::RefCell;

use super::models;
use super::sandbox::sandbox;
use super::setup::Setup;
use super::task_tools::TaskTools;
use super::user_config;
use crate::budget::Account;
use crate::config::{Config, QueueBackend};
use crate::context::{Hooks, OutcomeFile, TaskContext};
use crate::error::{Exit, Result};
use crate::handler::{Settings, TaskHandler};
use crate::llm::{Budgeted, Fallback, Ledger, Retrying};
use crate::ports::{Llm, TaskQueue};
use crate::sys::{clock, file, signal};
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
    // A claim needs both, and would only be parked again.
    let accounts = [setup.forge_account(), setup.model_account(&setup.config)];
    if let Some(wait) = accounts.iter().flatten().find_map(Account::wait) {
        log::info!("what waits stays queued: {wait}");
        return Ok(Exit::Parked);
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
    let mut llm = Ledger::new(asked(setup, &setup.config, models::model(&setup.config)?), &db);
    llm.probe()?;
    let tools = TaskTools::new(&setup.config, &setup.redactor, sandbox, llm.model().context_tokens);
    let settings = setup.handler_settings(&setup.config, llm.model().context_tokens, workspace_settings.clone());
    let mut hooks = Hooks::default();
    let row = |context: &TaskContext, outcome: &OutcomeFile| {
        let Outcome { kind, reason, .. } = &outcome.outcome;
        let error = (!reason.is_empty()).then_some(reason.as_str());
        db.borrow_mut().finish(context.uuid(), kind.status(), error, &context.statistics());
        Ok(())
    };
    hooks.on_completion("the row in tasks.db", row);
    hooks.on_stop("the row in tasks.db", row);
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
        // Made for this claim and gone with it: nothing of one user reaches the next task.
        let own = user_config::for_task(&setup.config, &claim.message, llm.model(), &setup.redactor);
        let own_settings = own.as_ref().map(|own| {
            let window_tokens = own.llm.as_ref().map_or(llm.model(), |llm| llm.model()).context_tokens;
            let settings = setup.handler_settings(&own.config, window_tokens, workspace_settings.clone());
            Settings { user_orders: own.orders.clone(), ..settings }
        });
        let wait = own.as_ref().and_then(|own| own.llm.as_ref().and(setup.model_account(&own.config))?.wait());
        if let Some(wait) = wait {
            // Of this user alone: the others need not wait for his quota.
            log::warn!("{}: parked until {}: {}", claim.message.key, clock::rfc3339(wait.until_ms), wait.reason);
            queue.park(claim, wait.until_ms)?;
            exit = exit.worse(Exit::Parked);
            continue;
        }
        let own_llm = own.and_then(|own| Some(Ledger::new(asked(setup, &own.config, own.llm?), &db)));
        let is_own = own_llm.is_some();
        let mut own_llm = own_llm.map(|own| Fallback::new(own, &mut llm));
        let llm_of_task: &mut dyn Llm = match &mut own_llm {
            Some(own) => own,
            None => &mut llm,
        };
        let mut handler = TaskHandler {
            forge,
            llm: llm_of_task,
            tools: &tools,
            contexts: &setup.contexts,
            db: &db,
            hooks: &hooks,
            prompts: &setup.prompts,
            redactor: &setup.redactor,
            settings: own_settings.as_ref().unwrap_or(&settings),
        };
        let handled = handler.handle(queue, claim)?;
        exit = exit.worse(handled.exit);
        // What a user's own model is waited for says nothing of the next task; the forge will say it again.
        if handled.ends_pass && !(is_own && handled.exit == Exit::Parked) {
            break;
        }
    }
    drop(slot);
    Ok(exit)
}

/// The model of `config` with patience, and with a memory of how long its server wants to be left alone.
fn asked(setup: &Setup, config: &Config, llm: Box<dyn Llm>) -> Budgeted<Retrying<Box<dyn Llm>>> {
    let account = setup.model_account(config).unwrap_or_else(Account::kept_nowhere);
    Budgeted::new(Retrying::new(llm), account)
}

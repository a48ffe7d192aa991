//! One producer pass: paused tasks come back, labelled items become queue entries.

use std::collections::HashSet;

use super::setup::Setup;
use crate::budget::FEW_ARE_LEFT;
use crate::config::QueueBackend;
use crate::error::{Exit, Kind, Result};
use crate::handler::{is_wanted, prepare};
use crate::ports::{Candidates, Forge, Publisher, TaskQueue};
use crate::sys::{clock, fault};
use crate::task::{TaskId, TaskKey, TaskMessage};
use crate::text::counted;

/// Runs one pass, unless another producer is at it.
pub fn produce(setup: &Setup, queue: &mut dyn TaskQueue) -> Result<Exit> {
    if let Some(wait) = setup.forge_account().and_then(|account| account.wait()) {
        log::info!("nothing new is looked for: {wait}");
        return Ok(Exit::Parked);
    }
    let mut pass = Pass { setup, forge: setup.forge()?, published: 0, exit: Exit::Done };
    if queue.produce(&mut |publisher| pass.run(publisher))? {
        log::info!("{} queued", counted(pass.published, "task"));
    } else {
        log::info!("another producer is at it; nothing is queued");
    }
    Ok(pass.exit)
}

struct Pass<'a> {
    setup: &'a Setup,
    forge: &'a dyn Forge,
    published: u64,
    exit: Exit,
}

impl Pass<'_> {
    fn run(&mut self, publisher: &mut dyn Publisher) -> Result<()> {
        // Looked at after the spool: a task on its way into paused/ is seen in one of the two.
        let paused = self.setup.contexts.paused_tasks()?;
        let paused_keys: HashSet<TaskKey> = paused.iter().map(|message| message.key.clone()).collect();
        for message in paused {
            let path = self.setup.contexts.base_dir().join("paused").join(message.uuid.to_string());
            self.take_up(publisher, TaskMessage { paused_context_path: Some(path.display().to_string()), ..message })?;
        }
        if self.setup.config.queue.backend == QueueBackend::Memory {
            for message in self.setup.contexts.unfinished_tasks()? {
                self.take_up(publisher, message)?;
            }
        }
        if let Some(until_ms) = self.setup.forge_account().and_then(|account| account.reserve_until_ms()) {
            let until = clock::rfc3339(until_ms);
            log::info!("nothing new is looked for before {until}: {FEW_ARE_LEFT}");
            self.exit = self.exit.worse(Exit::Parked);
            return Ok(());
        }
        let Candidates { keys, faults } = self.forge.candidates()?;
        for fault in faults {
            log::error!("{fault:#}");
            self.exit = self.exit.worse(Exit::from(fault.kind()));
        }
        for key in keys {
            if publisher.is_active(&key) || paused_keys.contains(&key) {
                continue;
            }
            match self.publish(publisher, &key) {
                Err(error) if error.kind() == Kind::Task => log::warn!("{key}: not queued: {error:#}"),
                done => done?,
            }
        }
        fault::point("produce.published");
        // Not before: whoever dies in between must see the same list again.
        self.setup.save_budget(true);
        Ok(())
    }

    fn publish(&mut self, publisher: &mut dyn Publisher, key: &TaskKey) -> Result<()> {
        // Read again: lists are stale, and another host may have been faster.
        let Some(item) = self.forge.item(key)?.filter(|item| is_wanted(item, &self.setup.labels())) else {
            log::info!("{key}: not queued, it does not carry the label any more");
            return Ok(());
        };
        let user = item.requester(self.forge.bot_login()).map(str::to_owned);
        if user.is_none() {
            log::warn!("{key}: nobody is known for whom it is; worked on with the base configuration");
        }
        let message = TaskMessage {
            key: item.key.clone(),
            uuid: TaskId::new_v4(),
            user,
            enqueued_at: clock::now_rfc3339(),
            paused_context_path: None,
        };
        let mut is_prepared = true;
        publisher.publish(&message, &mut || {
            is_prepared = prepare(self.forge, &self.setup.labels(), &item)?;
            Ok(is_prepared)
        })?;
        if is_prepared {
            log::info!("{key}: queued as {}", message.uuid);
            self.published += 1;
        }
        Ok(())
    }

    /// Queues a task again that has a context and no entry.
    fn take_up(&mut self, publisher: &mut dyn Publisher, message: TaskMessage) -> Result<()> {
        if publisher.has_entry(message.uuid) {
            return Ok(());
        }
        let message = TaskMessage { enqueued_at: clock::now_rfc3339(), ..message };
        publisher.publish(&message, &mut || Ok(true))?;
        log::info!("{}: queued again as {}", message.key, message.uuid);
        self.published += 1;
        Ok(())
    }
}

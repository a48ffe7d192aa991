//! What a task needs before its first turn, and finds again after a crash: its workspace, and the
//! beginning of its conversation.

use super::task_handler::TaskHandler;
use super::{NextStep, comment, opening};
use crate::chat::{Message, Role};
use crate::context::{InheritanceContext, TaskContext};
use crate::error::{Kind, Result};
use crate::ports::{Item, ItemState, Trouble};
use crate::prompts::Prompt;
use crate::sys::fault;
use crate::task::{TaskId, TaskKey};
use crate::text::{inline_code, visible};
use crate::tools::Toolbox;
use crate::workspace::{Workspace, ref_segment};

impl TaskHandler<'_> {
    /// By the key of the task and not of the item, which may have been transferred: what is cloned here
    /// is pushed by the same key.
    pub(super) fn workspace(&self, uuid: TaskId, key: &TaskKey) -> Result<(Workspace, bool)> {
        let source = self.forge.repository(key)?;
        let number = key.identifier();
        let hash = key.hash16();
        let mut segment = ref_segment(&number, &hash);
        if segment != number && segment != hash {
            // Another name may have become the same; each has its own branch.
            segment = format!("{segment}-{}", &hash[..8]);
        }
        let wish = format!("{}issue-{segment}", self.settings.branch_prefix);
        let is_over = |branch: &str| {
            let found = self.forge.find_pull_request(key, branch)?;
            Ok(found.is_some_and(|found| found.state != ItemState::Open))
        };
        let prepared = Workspace::prepare(&self.settings.workspace, uuid, &source, &wish, &is_over)?;
        Ok((prepared.workspace, prepared.made_again))
    }

    /// Tells the model that its tree was cloned again, where the history takes it.
    pub(super) fn tell_made_again(&self, context: &mut TaskContext, workspace: &Workspace) -> Result<()> {
        let note = self.prompts.render(Prompt::WorkTreeMadeAgain, &[]);
        match self.settings.protocol.next_step(context.messages.current()) {
            // It has ended its work; the work is gone, and that is told when it is taken in.
            NextStep::Finish(..) => return Ok(()),
            NextStep::Answer(calls) => {
                let text = format!("{}\n{note}", self.prompts.render(Prompt::Interrupted, &[]));
                calls
                    .iter()
                    .try_for_each(|call| context.messages.add(Message::tool_result(call, &text), None).map(drop))?;
            }
            NextStep::Ask | NextStep::Remind => {
                context.messages.add(Message::text(Role::User, note), None)?;
            }
        }
        workspace.told_made_again()
    }

    /// What the standing orders say about tools: whether commands can be run, and what is missing.
    pub(super) fn tools_note(&self, toolbox: &Toolbox, command_tool: Option<&str>) -> String {
        let commands = match command_tool {
            Some(tool) => self.prompts.render(Prompt::CommandsAvailable, &[("tool", tool)]),
            None => self.prompts.render(Prompt::CommandsMissing, &[]),
        };
        let missing = toolbox.troubles().into_iter().map(|(server, trouble)| {
            let why = self.redactor.mask(&visible(&trouble.why));
            self.prompts.render(Prompt::ServerMissing, &[("server", server), ("reason", &why)])
        });
        std::iter::once(commands).chain(missing).collect::<Vec<_>>().join(" ")
    }

    /// Facts for the final comment about servers of tools that were not there, or not to the end.
    pub(super) fn facts_of_missing_tools(&self, toolbox: &Toolbox) -> Vec<String> {
        let fact = |(server, trouble): (&str, Trouble)| {
            let (server, reason) = (inline_code(server), inline_code(&trouble.why));
            self.prompts.fact("server_missing", &[("server", &server), ("reason", &reason)])
        };
        // A fatal one is the reason of the failure already.
        toolbox.troubles().into_iter().filter(|(_, trouble)| !trouble.is_fatal).map(fact).collect()
    }

    /// Standing orders and the task, unless they are there.
    pub(super) fn open_conversation(
        &self,
        context: &mut TaskContext,
        item: &Item,
        workspace: &Workspace,
        tools_note: &str,
    ) -> Result<()> {
        let fence = context.metadata.fence.clone();
        // By count, since a process can die between the two.
        if context.messages.count_messages() == 0 {
            let wishes = self.settings.user_orders.as_deref();
            let system = opening::system_prompt(self.prompts, workspace, tools_note, wishes, &fence);
            let system = self.redactor.mask(&system);
            context.messages.add(Message::text(Role::System, system), None)?;
        }
        if context.messages.count_messages() == 1 {
            let inherited = self.inherited(context)?;
            let task = opening::task_prompt(self.prompts, self.forge, item, workspace, inherited.as_ref(), &fence)?;
            let task = self.redactor.mask(&task);
            context.messages.add(Message::text(Role::User, task), None)?;
        }
        Ok(())
    }

    /// What an earlier task of the same item left for this one; noted before anything is made of it.
    fn inherited(&self, context: &mut TaskContext) -> Result<Option<InheritanceContext>> {
        let Some(max_tokens) = self.settings.inheritance_tokens else { return Ok(None) };
        let inherited = self.contexts.inheritance_context(&self.db.borrow(), &context.metadata, max_tokens);
        context.metadata.inherited_from = inherited.as_ref().map(|inherited| inherited.previous.uuid);
        context.metadata.save(context.dir())?;
        Ok(inherited)
    }

    /// Tells people which earlier task this one goes on from, once.
    pub(super) fn tell_inheritance(&self, context: &mut TaskContext) -> Result<()> {
        let metadata = &context.metadata;
        let Some(from) = metadata.inherited_from.filter(|_| !metadata.inheritance_told) else { return Ok(()) };
        let text = self.prompts.render(Prompt::CommentInherited, &[("uuid", &from.to_string())]);
        comment::post_by_the_way(self.forge, context, "inherited", &text, metadata.resumes > 0)?;
        fault::point("inheritance.told");
        context.metadata.inheritance_told = true;
        context.metadata.save(context.dir())
    }

    /// The workspace that stands, with what opens its remote. A repository that is closed to us by now
    /// makes the push a refusal, which is told.
    pub(super) fn standing_workspace(&self, context: &TaskContext) -> Result<Option<Workspace>> {
        let settings = &self.settings.workspace;
        let Some(workspace) = Workspace::find(settings, context.uuid(), None)? else { return Ok(None) };
        match self.forge.repository(&context.metadata.message.key) {
            Ok(source) => Workspace::find(settings, context.uuid(), Some(&source)),
            Err(error) if error.kind() == Kind::Task => {
                log::warn!("{}: {error:#}", context.metadata.message.key);
                Ok(Some(workspace))
            }
            Err(error) => Err(error),
        }
    }
}

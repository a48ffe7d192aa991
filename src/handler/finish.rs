//! The outcome table, applied by one function in one order: commit, push, pull request, summary,
//! comment, labels, row, move. Each step is written down when it is done, and looked up before it
//! is repeated, so finishing can be killed anywhere and go on.

use super::comment::{self, CommentFacts};
use super::task_handler::Settings;
use crate::chat::Usage;
use crate::context::{Hooks, OutcomeFile, Parking, Step, TaskContext};
use crate::error::{Error, Kind, Result};
use crate::ports::{Forge, Item, ItemState, ModelProfile, NewPullRequest, PullRequest};
use crate::prompts::{Prompt, Prompts};
use crate::sys::{clock, fault};
use crate::task::OutcomeKind;
use crate::text::{Redactor, first_line, subject};
use crate::workspace::{Pushed, WorkState, Workspace};

/// Files named in a comment.
const MOST_NAMES: usize = 20;

/// What finishing works with.
pub struct Finisher<'a> {
    pub forge: &'a dyn Forge,
    pub settings: &'a Settings,
    pub prompts: &'a Prompts,
    pub redactor: &'a Redactor,
    /// What is done besides.
    pub hooks: &'a Hooks<'a>,
    pub model: &'a ModelProfile,
    pub has_commands: bool,
    /// What the task took, where part of it is our estimate.
    pub estimated_usage: Option<Usage>,
    /// The item as last seen; `None` when it cannot be read.
    pub item: Option<&'a Item>,
}

impl Finisher<'_> {
    /// Applies the decision in `outcome`, from the first step that is not done. Returns how the task
    /// ended, which a refused push can have changed.
    ///
    /// # Errors
    /// Passing trouble and faults of this host; what is refused for good is recorded and told instead.
    pub fn finish(
        &self,
        context: TaskContext,
        mut outcome: OutcomeFile,
        workspace: Option<Workspace>,
    ) -> Result<OutcomeKind> {
        let mut run = Run { finisher: self, context: &context, outcome: &mut outcome };
        run.step(Step::Commit, |run| run.commit(workspace.as_ref()))?;
        run.step(Step::Push, |run| run.push(workspace.as_ref()))?;
        run.step(Step::PullRequest, |run| run.pull_request(workspace.as_ref()))?;
        run.step(Step::Summary, Run::summary)?;
        run.step(Step::Comment, Run::comment)?;
        run.step(Step::Labels, Run::labels)?;
        let kind = outcome.outcome.kind;
        self.hooks.run(&context, &outcome);
        fault::point("finish.row");
        // Of what was cancelled the patch is enough, unless there was more than a commit to keep.
        let is_dropped = kind == OutcomeKind::Cancelled && outcome.refusals.is_empty();
        // Without a commit there was no work, unless it could not be looked at.
        let was_none = outcome.sha.is_none() && outcome.refusals.is_empty();
        let is_elsewhere = outcome.branch.is_some() || was_none || is_dropped;
        match workspace {
            Some(workspace) if is_elsewhere && kind != OutcomeKind::Paused => workspace.remove()?,
            Some(_) => {}
            None => Workspace::sweep(&self.settings.workspace, context.uuid())?,
        }
        fault::point("finish.workspace_removed");
        context.leave(kind)?;
        fault::point("finish.moved");
        Ok(kind)
    }
}

struct Run<'a> {
    finisher: &'a Finisher<'a>,
    context: &'a TaskContext,
    outcome: &'a mut OutcomeFile,
}

impl Run<'_> {
    fn step(&mut self, step: Step, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.outcome.is_done(step) {
            return Ok(());
        }
        match work(self) {
            Ok(()) => {}
            // A permanent refusal is told where it can be told, and the next step runs.
            Err(error) if error.kind() == Kind::Task || self.is_hopeless(&error) => {
                log::warn!("{}: {error:#}", self.context.metadata.message.key);
                self.outcome.refusals.push(error.sentence().to_owned());
                if matches!(step, Step::Commit | Step::Push) {
                    self.fail_if_completed("the work could not be saved");
                }
            }
            Err(error) => return Err(error),
        }
        fault::point(match step {
            Step::Commit => "finish.commit",
            Step::Push => "finish.push",
            Step::PullRequest => "finish.pull_request",
            Step::Summary => "finish.summary",
            Step::Comment => "finish.comment",
            Step::Labels => "finish.labels",
        });
        self.outcome.steps_done.push(step.name().to_owned());
        self.outcome.save(self.context.dir())
    }

    /// Seven days of passing trouble without getting further are no passing trouble.
    fn is_hopeless(&self, error: &Error) -> bool {
        let now_ms = clock::now_ms();
        error.kind() == Kind::Later && Parking::load(self.context.dir(), now_ms).is_hopeless(now_ms)
    }

    /// Left-overs are committed; the commit with the work is noted.
    fn commit(&mut self, workspace: Option<&Workspace>) -> Result<()> {
        let Some(workspace) = workspace else { return Ok(()) };
        let item = self.finisher.item;
        let key = &self.context.metadata.message.key;
        let title = self.subject();
        let location = item.map_or_else(|| key.to_string(), |item| item.location.clone());
        let prompts = self.finisher.prompts;
        let message = prompts.render(Prompt::CommitMessage, &[("title", &title), ("item", &location)]);
        let committed = workspace.commit(&message, self.finisher.redactor)?;
        if !committed.left_out.is_empty() {
            self.outcome.notes.push(prompts.fact("left_out", &[("files", &list(&committed.left_out))]));
        }
        match committed.state {
            // What an earlier task pushed may still lack its pull request.
            WorkState::Unchanged if workspace.is_continued() => {
                self.outcome.sha = Some(workspace.start_sha().to_owned());
            }
            WorkState::Unchanged => {}
            WorkState::At(sha) => {
                self.outcome.sha = Some(sha.clone());
                if self.outcome.outcome.kind == OutcomeKind::Cancelled {
                    self.keep_patch(workspace, &sha)?;
                }
            }
            WorkState::Held(sha, reason) => {
                self.outcome.sha = Some(sha.clone());
                self.fail_if_completed("the work could not be pushed");
                self.outcome.refusals.insert(0, reason);
                self.keep_patch(workspace, &sha)?;
            }
        }
        Ok(())
    }

    /// The commit goes to the branch. Pushing the same commit again changes nothing, so a push that
    /// may have happened needs no other look.
    fn push(&mut self, workspace: Option<&Workspace>) -> Result<()> {
        let (Some(workspace), Some(sha), None) = (workspace, self.outcome.sha.clone(), &self.outcome.patch) else {
            return Ok(());
        };
        let kind = self.outcome.outcome.kind;
        if workspace.is_change() && kind != OutcomeKind::Completed {
            // People work on that branch; what is half done is not for it. A paused task goes on here.
            if kind != OutcomeKind::Paused {
                let what = self.context.metadata.message.key.change_word();
                self.outcome.refusals.insert(0, format!("only finished work goes to the branch of a {what}"));
                self.keep_patch(workspace, &sha)?;
            }
            return Ok(());
        }
        if workspace.is_change() && self.finisher.item.is_some_and(|item| item.state != ItemState::Open) {
            // Its branch may be gone; pushing would bring it back.
            self.fail_if_completed("it was closed meanwhile");
            self.outcome.refusals.insert(0, "it was closed before the work could be pushed".to_owned());
            return self.keep_patch(workspace, &sha);
        }
        let pushed = match workspace.push(&sha, workspace.branch()) {
            // Whatever cannot be repeated is a refusal: the work must not get lost behind "done".
            Err(error) if error.kind() == Kind::Task || self.is_hopeless(&error) => {
                Pushed::Refused(error.sentence().to_owned())
            }
            pushed => pushed?,
        };
        match pushed {
            Pushed::At(branch) => self.outcome.branch = Some(branch),
            Pushed::Refused(reason) => {
                self.fail_if_completed("the push was refused");
                self.outcome.refusals.insert(0, reason);
                self.keep_patch(workspace, &sha)?;
            }
        }
        Ok(())
    }

    /// The item's title, fit to go out; the key where there is none.
    fn subject(&self) -> String {
        let title = self.finisher.item.map(|item| subject(&item.title)).filter(|title| !title.is_empty());
        title.unwrap_or_else(|| self.context.metadata.message.key.to_string())
    }

    fn keep_patch(&mut self, workspace: &Workspace, sha: &str) -> Result<()> {
        const FILE_NAME: &str = "work.patch";
        let kept = match workspace.write_patch(sha, &self.context.dir().join(FILE_NAME)) {
            Ok(()) => FILE_NAME.into(),
            // Held work must not be pushed for want of a patch; the tree is kept too.
            Err(error) if error.kind() == Kind::Task => {
                log::warn!("{error:#}");
                format!("{}/tree", self.context.uuid())
            }
            Err(error) => return Err(error),
        };
        self.outcome.patch = Some(kept);
        Ok(())
    }

    fn fail_if_completed(&mut self, reason: &str) {
        let outcome = &mut self.outcome.outcome;
        if outcome.kind == OutcomeKind::Completed {
            outcome.kind = OutcomeKind::Failed;
            outcome.reason = reason.to_owned();
        }
    }

    fn pull_request(&mut self, workspace: Option<&Workspace>) -> Result<()> {
        let (Some(branch), OutcomeKind::Completed) = (self.outcome.branch.clone(), self.outcome.outcome.kind) else {
            return Ok(());
        };
        let (Some(base), Some(_)) = (workspace.and_then(Workspace::base_branch), self.finisher.item) else {
            return Ok(());
        };
        let key = &self.context.metadata.message.key;
        if key.is_change() {
            return Ok(());
        }
        let forge = self.finisher.forge;
        // Looked up in every run: an earlier task's, or one whose answer we never saw.
        let found = forge.find_pull_request(key, &branch)?.filter(|found| found.state == ItemState::Open);
        let opened: Option<PullRequest> = match found {
            Some(found) => Some(found),
            None => {
                let body = comment::pull_request_body(
                    self.finisher.prompts,
                    self.context,
                    self.outcome,
                    forge.body_limit_chars(),
                );
                forge.open_pull_request(
                    key,
                    &NewPullRequest {
                        title: self.subject(),
                        body: self.finisher.redactor.mask(&body),
                        head: branch,
                        base: base.to_owned(),
                        draft: self.finisher.settings.draft_pull_requests,
                    },
                )?
            }
        };
        if let Some(opened) = &opened {
            self.ask_for_review(opened)?;
        }
        self.outcome.pr_url = opened.map(|opened| opened.url);
        Ok(())
    }

    /// Whoever wanted the work is asked to look at it, where nobody is yet. The request is good without.
    fn ask_for_review(&self, pull: &PullRequest) -> Result<()> {
        let (forge, key) = (self.finisher.forge, &self.context.metadata.message.key);
        let person = self.finisher.item.and_then(|item| item.requester(forge.bot_login()));
        let Some(person) = person.filter(|_| pull.reviewers.is_empty()) else { return Ok(()) };
        let asked = if forge.may_write(key, person)? { forge.request_review(key, pull, person) } else { Ok(()) };
        match asked {
            Err(error) if error.kind() == Kind::Task => {
                log::info!("{key}: {error}");
                Ok(())
            }
            asked => asked,
        }
    }

    /// What a later task of the same item, or a person, should know of this one: facts, the model's
    /// last words, and the notes it made when its conversation was compressed. No model is asked:
    /// finishing must not depend on one.
    fn summary(&mut self) -> Result<()> {
        let outcome = &self.outcome.outcome;
        let key = self.context.metadata.message.key.to_string();
        let mut lines = vec![format!("{key}: {}", outcome.kind.name())];
        lines.extend(self.finisher.item.map(|item| format!("Title: {}", first_line(&item.title))));
        lines.extend((!outcome.reason.is_empty()).then(|| format!("Reason: {}", outcome.reason)));
        lines.extend(self.outcome.branch.as_ref().map(|branch| format!("Branch: {branch}")));
        let what = self.context.metadata.message.key.change_word();
        lines.extend(self.outcome.pr_url.as_ref().map(|url| format!("The {what} is {url}")));
        for command in self.context.tools.recent_commands() {
            lines.push(format!("Command (exit code {}): {}", command.exit_code, first_line(&command.command)));
        }
        let mut text = lines.join("\n") + "\n";
        if !outcome.summary.is_empty() {
            text += &format!("\n{}\n", outcome.summary);
        }
        if let Some(notes) = self.context.summaries.latest_summary() {
            text += &format!("\nNotes made on the way:\n{notes}\n");
        }
        self.context.write_final_summary(&text)
    }

    fn comment(&mut self) -> Result<()> {
        let Some(name) = self.outcome.comment_name.clone() else { return Ok(()) };
        let (forge, key) = (self.finisher.forge, &self.context.metadata.message.key);
        let marker = comment::marker(self.context, &name);
        // Only in a run that took the task up again can the comment be there already.
        if self.context.metadata.resumes > 0
            && let Some(ours) = comment::find_ours(forge, key, &marker)?
        {
            self.outcome.comment = Some(ours);
            return Ok(());
        }
        let facts = CommentFacts {
            prompts: self.finisher.prompts,
            context: self.context,
            outcome: self.outcome,
            model: self.finisher.model,
            labels: &self.finisher.settings.labels,
            has_commands: self.finisher.has_commands,
            estimated_usage: self.finisher.estimated_usage,
            body_limit_chars: forge.body_limit_chars(),
        };
        let body = self.finisher.redactor.mask(&facts.body(&name));
        self.outcome.comment = Some(forge.post_comment(key, &body)?);
        Ok(())
    }

    fn labels(&mut self) -> Result<()> {
        let labels = &self.finisher.settings.labels;
        let (forge, key) = (self.finisher.forge, &self.context.metadata.message.key);
        let add = match self.outcome.outcome.kind {
            OutcomeKind::Completed => Some(&labels.done),
            OutcomeKind::Failed | OutcomeKind::GaveUp => Some(&labels.failed),
            OutcomeKind::Paused => Some(&labels.paused),
            OutcomeKind::Stopped => Some(&labels.stopped),
            OutcomeKind::Cancelled | OutcomeKind::Skipped | OutcomeKind::Parked => None,
        };
        // Added first: at no instant does the item look as if nobody had dealt with it.
        if let Some(label) = add {
            forge.add_label(key, label)?;
        }
        fault::point("finish.label_added");
        forge.remove_label(key, &labels.processing)
    }
}

/// The first of the names; a thousand would hide the other facts.
fn list(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

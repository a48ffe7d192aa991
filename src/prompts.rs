//! Every text a model or a person outside reads: embedded from `prompts/`, overridable file by file,
//! with strict placeholders. Knows nothing of what the texts are used for.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Context, Error, Kind, Result};
use crate::sys::file;

/// A text with the placeholders it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prompt {
    /// Standing orders of the model.
    System,
    /// Part of the standing orders: commands can be run.
    CommandsAvailable,
    /// Part of the standing orders: they cannot.
    CommandsMissing,
    /// Part of the standing orders: what the person the task is for wants in all of his tasks.
    UserOrders,
    /// Part of the standing orders: a server of tools is not there.
    ServerMissing,
    /// Part of the standing orders: the work goes to the branch of a pull request.
    PullRequestNote,
    /// The first user message.
    Task,
    /// After a reply without a call.
    Reminder,
    /// Part of the standing orders: how to answer without calls of one's own.
    JsonProtocol,
    /// After an answer that is no such object.
    JsonUnreadable,
    /// After such an object without a call.
    JsonReminder,
    /// The summary of a model that gave none.
    DoneWithoutWords,
    /// Result of a call that a crash interrupted.
    Interrupted,
    /// Result of a call that was not begun before we were asked to stop.
    NotRun,
    /// Result of a call in a reply that was cut off.
    CutOff,
    /// Result of `finish` called together with other tools.
    FinishAlone,
    /// Result of `finish`.
    FinishAccepted,
    /// Told to the model when its tree had to be cloned again.
    WorkTreeMadeAgain,
    /// Orders for whoever sums up a part of a conversation.
    Summary,
    /// That part, with the task and what came before.
    SummaryRequest,
    /// The message that stands for what was summed up.
    SummaryNote,
    /// Message of the commit of left-overs.
    CommitMessage,
    /// Body of a pull request.
    PullRequestBody,
    /// Final comment of a task that was done.
    CommentCompleted,
    /// Final comment of a task that failed.
    CommentFailed,
    /// Comment at a pause.
    CommentPaused,
    /// Comment at a stop.
    CommentStopped,
    /// Comment at the begin of a task that goes on from an earlier one.
    CommentInherited,
    /// The plan of a model, as a comment.
    CommentPlan,
    /// Part of the task: what an earlier task reported.
    EarlierTask,
    /// What `doctor` asks of a model, to see whether it calls a tool.
    TryOut,
    /// One-line facts of comments, by name.
    Facts,
}

macro_rules! prompts {
    ($($prompt:ident $file:literal [$($name:literal),*]),* $(,)?) => {
        const ALL: &[(Prompt, &str, &str, &[&str])] = &[
            $((Prompt::$prompt, $file, include_str!(concat!("../prompts/", $file)), &[$($name),*])),*
        ];
    };
}

prompts! {
    System "system.md" ["commands_note", "branch", "change_note", "fence"],
    CommandsAvailable "commands_available.md" ["tool"],
    CommandsMissing "commands_missing.md" [],
    UserOrders "user_orders.md" ["orders"],
    ServerMissing "server_missing.md" ["server", "reason"],
    PullRequestNote "pull_request_note.md" ["base"],
    Task "task.md" ["task_json"],
    Reminder "reminder.md" [],
    JsonProtocol "json_protocol.md" ["tools"],
    JsonUnreadable "json_unreadable.md" ["why"],
    JsonReminder "json_reminder.md" [],
    DoneWithoutWords "done_without_words.md" [],
    Interrupted "interrupted.md" [],
    NotRun "not_run.md" [],
    CutOff "cut_off.md" [],
    FinishAlone "finish_alone.md" [],
    FinishAccepted "finish_accepted.md" [],
    WorkTreeMadeAgain "work_tree_made_again.md" [],
    Summary "summary.md" ["fence"],
    SummaryRequest "summary_request.md" ["task", "earlier", "conversation"],
    SummaryNote "summary_note.md" ["summary"],
    CommitMessage "commit_message.md" ["title", "item"],
    PullRequestBody "pull_request_body.md" ["words", "item"],
    CommentCompleted "comment_completed.md" ["first_fact", "facts", "words"],
    CommentFailed "comment_failed.md" ["reason", "facts", "words", "bot_label"],
    CommentPaused "comment_paused.md" ["facts"],
    CommentStopped "comment_stopped.md" ["facts", "bot_label"],
    CommentInherited "comment_inherited.md" ["uuid"],
    CommentPlan "comment_plan.md" ["plan"],
    EarlierTask "earlier_task.md" [],
    TryOut "try_out.md" ["tool", "number"],
    Facts "facts.yaml" [
        "branch", "sha", "url", "reason", "patch", "what", "command", "exit_code", "files", "count", "turns", "model",
        "prompt_tokens", "completion_tokens", "duration", "uuid", "server"
    ],
}

/// All texts, overrides applied and checked.
#[derive(Debug)]
pub struct Prompts {
    texts: BTreeMap<Prompt, String>,
    facts: BTreeMap<String, String>,
}

impl Prompts {
    /// The embedded texts, those replaced that `dir` holds a file for.
    ///
    /// # Errors
    /// `Kind::Host` when a file cannot be read, is none of ours, or uses an unknown placeholder.
    pub fn load(dir: Option<&Path>) -> Result<Self> {
        let mut texts = BTreeMap::new();
        for (prompt, file_name, embedded, allowed) in ALL {
            let path = dir.map(|dir| dir.join(file_name));
            let replaced = path.as_deref().map(file::read).transpose()?.flatten();
            let text = match (replaced, &path) {
                (Some(bytes), Some(path)) => {
                    let text = String::from_utf8(bytes)
                        .context(Kind::Host, || format!("cannot use `{}`: it is not UTF-8", path.display()))?;
                    check(*prompt, &text, allowed)
                        .map_err(|why| Error::host(format!("cannot use `{}`: {why}", path.display())))?;
                    text
                }
                _ => (*embedded).to_owned(),
            };
            texts.insert(*prompt, text);
        }
        if let Some(dir) = dir {
            let known = |name: &String| ALL.iter().any(|(_, file_name, ..)| file_name == name);
            if !dir.is_dir() {
                return Err(Error::host(format!("cannot use `{}`: it is no directory", dir.display()))
                    .hint("set prompts_dir to a directory with replacements, or to null"));
            }
            if let Some(stranger) = file::names(dir)?.into_iter().find(|name| !known(name)) {
                let names: Vec<&str> = ALL.iter().map(|(_, file_name, ..)| *file_name).collect();
                return Err(Error::host(format!(
                    "cannot use `{}`: no prompt has that name",
                    dir.join(stranger).display()
                ))
                .hint(format!("the names are {}", names.join(", "))));
            }
        }
        let facts = texts.get(&Prompt::Facts).map(String::as_str).unwrap_or_default();
        let facts: BTreeMap<String, String> = serde_yaml::from_str(facts)
            .context(Kind::Host, || "cannot use facts.yaml: it must hold one text per name".into())?;
        let embedded: BTreeMap<String, String> = serde_yaml::from_str(include_str!("../prompts/facts.yaml"))
            .context(Kind::Bug, || "the embedded facts.yaml is broken".into())?;
        if let Some(missing) = embedded.keys().find(|name| !facts.contains_key(*name)) {
            return Err(Error::host(format!("cannot use facts.yaml: `{missing}` is missing")));
        }
        Ok(Self { texts, facts })
    }

    /// A text with its placeholders filled in and outer white space removed.
    pub fn render(&self, prompt: Prompt, values: &[(&str, &str)]) -> String {
        let text = self.texts.get(&prompt).map(String::as_str).unwrap_or_default();
        fill(text, values).trim().to_owned()
    }

    /// A one-line fact with its placeholders filled in.
    pub fn fact(&self, name: &str, values: &[(&str, &str)]) -> String {
        fill(self.facts.get(name).map(String::as_str).unwrap_or_default(), values)
    }
}

/// Fills placeholders in one pass, so that a value which looks like one stays as it is.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let known = after.split_once("}}").and_then(|(name, after)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name.trim())?;
            Some((*value, after))
        });
        match known {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push_str("{{");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn check(prompt: Prompt, text: &str, allowed: &[&str]) -> Result<(), String> {
    let mut found = Vec::new();
    for part in text.split("{{").skip(1) {
        let name = part.split_once("}}").ok_or("a `{{` has no `}}`")?.0.trim();
        if !allowed.contains(&name) {
            let list = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            return Err(format!("it has no placeholder `{}`; allowed: {list}", crate::text::head(name, 60)));
        }
        found.push(name);
    }
    // Without it the model would not see its task or its own notes; what else is left out is a matter of taste.
    let needed = match prompt {
        Prompt::Task => "task_json",
        Prompt::SummaryRequest => "conversation",
        Prompt::SummaryNote => "summary",
        Prompt::JsonProtocol => "tools",
        Prompt::UserOrders => "orders",
        _ => return Ok(()),
    };
    if !found.contains(&needed) {
        return Err(format!("it must have the placeholder `{needed}`"));
    }
    Ok(())
}

//! The comments people read: facts first, as they were measured, then the model's words. Pure but
//! for the numbers it is given.

use crate::chat::Usage;
use crate::context::{OutcomeFile, TaskContext};
use crate::error::{Kind, Result};
use crate::ports::{COMMENT_MARK, Comment, Forge, ModelProfile};
use crate::prompts::{Prompt, Prompts};
use crate::sys::clock;
use crate::task::{Labels, OutcomeKind, TaskId, TaskKey};
use crate::text::{head_and_tail, head_chars, inert, inline_code, printable_line, quoted};

/// Kept free below a forge's limit: nobody says exactly what it counts.
const MARGIN_CHARS: usize = 500;
const LONGEST_FACT_CHARS: usize = 2000;
/// Refusals and notes told; a task has a handful.
const MOST_FACTS: usize = 10;
const LONGEST_COMMAND_BYTES: usize = 200;

/// What a comment is made of.
pub struct CommentFacts<'a> {
    /// The texts.
    pub prompts: &'a Prompts,
    /// The task: its commands, numbers and marker.
    pub context: &'a TaskContext,
    /// The decision and what came of it.
    pub outcome: &'a OutcomeFile,
    /// The model that worked.
    pub model: &'a ModelProfile,
    /// The labels that the comment names.
    pub labels: &'a Labels,
    /// Commands could be run.
    pub has_commands: bool,
    /// What the task took, where part of it is our estimate; else the servers' own figures count.
    pub estimated_usage: Option<Usage>,
    /// The forge's limit, in characters.
    pub body_limit_chars: usize,
}

/// The hidden marker of a comment: a comment is ours only if marker and author are.
pub fn marker(context: &TaskContext, name: &str) -> String {
    format!("{COMMENT_MARK}{}:{name} -->", context.uuid())
}

/// The id of our comment with this marker, if it is there.
///
/// # Errors
/// As the forge.
pub fn find_ours(forge: &dyn Forge, key: &TaskKey, marker: &str) -> Result<Option<String>> {
    let is_ours =
        |comment: &Comment| comment.body.contains(marker) && comment.author.eq_ignore_ascii_case(forge.bot_login());
    Ok(forge.comments(key)?.into_iter().find(is_ours).map(|comment| comment.id))
}

/// Posts a comment by the way, once: with `look_first` an earlier run may have posted it. What the forge
/// refuses for good is a warning.
///
/// # Errors
/// Passing trouble, and faults of the host.
pub fn post_by_the_way(
    forge: &dyn Forge,
    context: &TaskContext,
    name: &str,
    text: &str,
    look_first: bool,
) -> Result<()> {
    let key = &context.metadata.message.key;
    let marker = marker(context, name);
    let post = || -> Result<()> {
        if look_first && find_ours(forge, key, &marker)?.is_some() {
            return Ok(());
        }
        forge.post_comment(key, &format!("{text}\n{marker}\n")).map(drop)
    };
    match post() {
        Err(error) if error.kind() == Kind::Task => {
            log::warn!("{key}: {error:#}");
            Ok(())
        }
        done => done,
    }
}

/// The name of the comment that belongs to an outcome; `None` where the outcome has none. A task
/// can be paused several times, so that name carries a number.
pub fn name(kind: OutcomeKind, resumes: u32) -> Option<String> {
    match kind {
        OutcomeKind::Paused => Some(format!("paused-{resumes}")),
        OutcomeKind::Completed | OutcomeKind::Failed | OutcomeKind::GaveUp | OutcomeKind::Stopped => {
            Some("final".into())
        }
        OutcomeKind::Cancelled | OutcomeKind::Skipped | OutcomeKind::Parked => None,
    }
}

impl CommentFacts<'_> {
    /// The whole body, marker included, within the forge's limit. What is too long is shortened in
    /// the model's words; the facts stay.
    pub fn body(&self, name: &str) -> String {
        let marker = format!("\n{}\n", marker(self.context, name));
        let limit = self.body_limit_chars.saturating_sub(MARGIN_CHARS + marker.chars().count());
        let facts = self.without_marker("");
        let heading = format!("{}\n\n", self.prompts.fact("model_words", &[]));
        let room = limit.saturating_sub(facts.chars().count() + heading.chars().count());
        let summary = self.outcome.outcome.summary.as_str();
        let words = quoted_words(self.prompts, self.context.uuid(), summary, room);
        let body = if words.is_empty() { facts } else { self.without_marker(&format!("{heading}{words}")) };
        // Only texts of the operator's own can be so long.
        format!("{}{marker}", head_chars(&body, limit))
    }

    fn without_marker(&self, words: &str) -> String {
        let (prompt, mut values) = match self.outcome.outcome.kind {
            OutcomeKind::Completed => (Prompt::CommentCompleted, vec![("first_fact", self.work())]),
            OutcomeKind::Paused => (Prompt::CommentPaused, vec![]),
            OutcomeKind::Stopped => (Prompt::CommentStopped, vec![]),
            _ => (Prompt::CommentFailed, vec![("reason", fact(&self.outcome.outcome.reason))]),
        };
        let mut facts = self.facts();
        if prompt != Prompt::CommentCompleted {
            facts.insert(0, self.work());
        }
        let facts: Vec<String> = facts.iter().filter(|fact| !fact.is_empty()).map(|fact| format!("- {fact}")).collect();
        values.push(("facts", facts.join("\n")));
        values.push(("words", words.to_owned()));
        values.push(("bot_label", self.labels.bot.clone()));
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        collapse_blank_lines(&self.prompts.render(prompt, &values))
    }

    /// Where the work is: measured, not claimed.
    fn work(&self) -> String {
        let outcome = self.outcome;
        match (&outcome.branch, &outcome.sha, &outcome.patch) {
            (Some(branch), Some(sha), _) => {
                self.prompts.fact("pushed", &[("branch", &inline_code(branch)), ("sha", sha)])
            }
            (_, _, Some(patch)) => {
                let reason = outcome.refusals.first().map_or("see below".to_owned(), |reason| fact(reason));
                self.prompts.fact("held", &[("reason", &reason), ("patch", patch)])
            }
            _ => self.prompts.fact("unchanged", &[]),
        }
    }

    fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let Some(url) = &self.outcome.pr_url {
            facts.push(
                self.prompts.fact("change", &[("what", self.context.metadata.message.key.change_word()), ("url", url)]),
            );
        }
        let mut commands = self.context.tools.recent_commands().peekable();
        match (self.has_commands, commands.peek().is_some()) {
            (false, false) => facts.push(self.prompts.fact("no_executor", &[])),
            (true, false) => facts.push(self.prompts.fact("no_command", &[])),
            _ => {}
        }
        for command in commands {
            let line = inline_code(&head_and_tail(command.command.trim(), LONGEST_COMMAND_BYTES, None));
            facts.push(
                self.prompts.fact("command", &[("command", &line), ("exit_code", &command.exit_code.to_string())]),
            );
        }
        let told_by_work = usize::from(self.outcome.patch.is_some());
        for refusal in self.outcome.refusals.iter().skip(told_by_work).take(MOST_FACTS) {
            facts.push(self.prompts.fact("refused", &[("what", &fact(refusal))]));
        }
        // What is foreign in a note was made inline code when it was written.
        let notes = self.outcome.notes.iter().take(MOST_FACTS);
        facts.extend(notes.map(|note| head_chars(&printable_line(note), LONGEST_FACT_CHARS).to_owned()));
        if self.context.metadata.resumes > 0 {
            facts.push(self.prompts.fact("resumed", &[("count", &self.context.metadata.resumes.to_string())]));
        }
        facts.push(self.cost());
        facts
    }

    fn cost(&self) -> String {
        let mut usage = self.context.messages.usage();
        usage += self.context.summaries.usage();
        let about = if self.estimated_usage.is_some() { "about " } else { "" };
        let usage = self.estimated_usage.unwrap_or(usage);
        let began_ms = clock::parse_rfc3339(&self.context.metadata.created_at).unwrap_or_else(clock::now_ms);
        let seconds = clock::now_ms().saturating_sub(began_ms) / 1000;
        self.prompts.fact(
            "cost",
            &[
                ("turns", &self.context.messages.count_replies().to_string()),
                ("model", &self.model.model),
                ("prompt_tokens", &format!("{about}{}", usage.prompt_tokens)),
                ("completion_tokens", &format!("{about}{}", usage.completion_tokens)),
                ("duration", &format!("{} min {} s", seconds / 60, seconds % 60)),
            ],
        )
    }
}

/// The model's words as a quotation of at most `max_chars` characters: nothing in it can pass for one
/// of our facts or markers, close another issue, call a person or load a picture. What does not fit
/// is left out, and a note says where the whole is.
pub fn quoted_words(prompts: &Prompts, uuid: TaskId, words: &str, max_chars: usize) -> String {
    quoted(words, max_chars, |left_out| {
        prompts.fact("words_cut", &[("count", &left_out.to_string()), ("uuid", &uuid.to_string())])
    })
}

/// The body of a pull request: the model's words, and the issue that it closes.
pub fn pull_request_body(
    prompts: &Prompts,
    context: &TaskContext,
    outcome: &OutcomeFile,
    limit_chars: usize,
) -> String {
    let item = format!("#{}", context.metadata.message.key.identifier());
    let body = |words: &str| prompts.render(Prompt::PullRequestBody, &[("words", words), ("item", &item)]);
    let room = limit_chars.saturating_sub(MARGIN_CHARS + body("").chars().count());
    body(&quoted_words(prompts, context.uuid(), &outcome.outcome.summary, room))
}

/// A sentence with foreign parts as a fact: one line, inert, without its final period.
fn fact(sentence: &str) -> String {
    let sentence = inert(&sentence.trim().trim_end_matches('.').replace('\n', " "));
    head_chars(&sentence, LONGEST_FACT_CHARS).to_owned()
}

fn collapse_blank_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut blank = 0;
    for line in text.lines() {
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        if blank < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim_end().to_owned()
}

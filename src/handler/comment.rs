//! The comments people read: facts first, as they were measured, then the model's words. Pure but
//! for the numbers it is given.

use crate::context::{OutcomeFile, TaskContext};
use crate::ports::ModelProfile;
use crate::prompts::{Prompt, Prompts};
use crate::sys::clock;
use crate::task::{Labels, OutcomeKind};
use crate::text::{head, head_and_tail, without_references};

/// Room kept for the marker and the facts when the model's words are cut.
const RESERVED_CHARS: usize = 6000;

/// What a comment is made of.
pub struct CommentFacts<'a> {
    pub prompts: &'a Prompts,
    pub context: &'a TaskContext,
    pub outcome: &'a OutcomeFile,
    pub model: &'a ModelProfile,
    pub labels: &'a Labels,
    /// Commands could be run.
    pub has_commands: bool,
    /// The forge's limit, in characters.
    pub body_limit_chars: usize,
}

/// The hidden marker of a comment: a comment is ours only if marker and author are.
pub fn marker(context: &TaskContext, name: &str) -> String {
    format!("<!-- coding-agent:{}:{name} -->", context.uuid())
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
    /// The whole body, marker included, within the forge's limit.
    pub fn body(&self, name: &str) -> String {
        let (prompt, mut values) = match self.outcome.outcome.kind {
            OutcomeKind::Completed => (Prompt::CommentCompleted, vec![("first_fact", self.work())]),
            OutcomeKind::Paused => (Prompt::CommentPaused, vec![]),
            OutcomeKind::Stopped => (Prompt::CommentStopped, vec![]),
            _ => {
                (Prompt::CommentFailed, vec![("reason", self.outcome.outcome.reason.trim_end_matches('.').to_owned())])
            }
        };
        let mut facts = self.facts();
        if prompt != Prompt::CommentCompleted {
            facts.insert(0, self.work());
        }
        let facts: Vec<String> = facts.iter().filter(|fact| !fact.is_empty()).map(|fact| format!("- {fact}")).collect();
        values.push(("facts", facts.join("\n")));
        values.push(("words", self.words()));
        values.push(("bot_label", self.labels.bot.clone()));
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = self.prompts.render(prompt, &values);
        // Counted in bytes, which are never fewer than characters.
        let body = head_and_tail(&body, self.body_limit_chars.saturating_sub(200), None);
        format!("{}\n{}\n", collapse_blank_lines(&body), marker(self.context, name))
    }

    /// Where the work is: measured, not claimed.
    fn work(&self) -> String {
        let outcome = self.outcome;
        match (&outcome.branch, &outcome.sha, &outcome.patch) {
            (Some(branch), Some(sha), _) => self.prompts.fact("pushed", &[("branch", branch), ("sha", sha)]),
            (_, _, Some(patch)) => {
                let reason = outcome.refusals.first().map_or("see below", String::as_str);
                self.prompts.fact("held", &[("reason", reason), ("patch", patch)])
            }
            _ => self.prompts.fact("unchanged", &[]),
        }
    }

    fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let Some(url) = &self.outcome.pr_url {
            facts.push(self.prompts.fact("pull_request", &[("url", url)]));
        }
        let mut commands = self.context.tools.recent_commands().peekable();
        match (self.has_commands, commands.peek().is_some()) {
            (false, false) => facts.push(self.prompts.fact("no_executor", &[])),
            (true, false) => facts.push(self.prompts.fact("no_command", &[])),
            _ => {}
        }
        for command in commands {
            let line = command.command.replace(['`', '\n', '\r'], " ");
            let line = head_and_tail(line.trim(), 200, None).replace('\n', " ");
            facts.push(
                self.prompts.fact("command", &[("command", &line), ("exit_code", &command.exit_code.to_string())]),
            );
        }
        let told_by_work = usize::from(self.outcome.patch.is_some());
        for refusal in self.outcome.refusals.iter().skip(told_by_work) {
            facts.push(self.prompts.fact("refused", &[("what", refusal)]));
        }
        facts.extend(self.outcome.notes.iter().cloned());
        if self.context.metadata.resumes > 0 {
            facts.push(self.prompts.fact("resumed", &[("count", &self.context.metadata.resumes.to_string())]));
        }
        facts.push(self.cost());
        facts
    }

    fn cost(&self) -> String {
        let mut usage = self.context.messages.usage();
        usage += self.context.summaries.usage();
        let began_ms = clock::parse_rfc3339(&self.context.metadata.created_at).unwrap_or_else(clock::now_ms);
        let seconds = clock::now_ms().saturating_sub(began_ms) / 1000;
        self.prompts.fact(
            "cost",
            &[
                ("turns", &self.context.messages.count_replies().to_string()),
                ("model", &self.model.model),
                ("prompt_tokens", &usage.prompt_tokens.to_string()),
                ("completion_tokens", &usage.completion_tokens.to_string()),
                ("duration", &format!("{} min {} s", seconds / 60, seconds % 60)),
            ],
        )
    }

    fn words(&self) -> String {
        let words = self.outcome.outcome.summary.trim();
        if words.is_empty() {
            return String::new();
        }
        let words = quoted_words(words, self.body_limit_chars);
        format!("{}\n\n{words}", self.prompts.fact("model_words", &[]))
    }
}

/// The model's words as a quotation: nothing in it can pass for one of our facts or markers, close
/// another issue or call a person, and the body it goes into keeps the forge's limit (counted in
/// bytes, which are never fewer than characters).
pub fn quoted_words(words: &str, body_limit_chars: usize) -> String {
    let words = head_and_tail(words.trim(), body_limit_chars.saturating_sub(RESERVED_CHARS), None);
    let words = without_references(&words.replace("<!--", "&lt;!--"));
    words.lines().map(|line| format!("> {line}\n")).collect::<String>().trim_end().to_owned()
}

/// The line for a log or a commit: the first line of a title, cut.
pub fn one_line(text: &str) -> &str {
    head(text.lines().next().unwrap_or_default().trim(), 200)
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

//! The transcript as text for a person: head, entries in order, ending, cost.

use std::io::{self, Write};

use serde_json::Value;

use super::block::{self, Limit, lines_of_text, lines_of_value};
use super::facts::Facts;
use super::tally::Tally;
use crate::commands::figures::{cost_text, duration_text};
use crate::context::{Call, CallRecord, Ending, Entry, PlanEntry, Spoken, SummaryEntry, Transcript};
use crate::sys::clock;
use crate::text::{Paint, Redactor, Style, counted, printable_line};

/// Our orders to the model, which are the same in every task.
const ORDERS: Limit = Limit { first: 3, last: 0 };
/// The arguments of a call, and its result.
const CALL: Limit = Limit { first: 14, last: 6 };
/// What the model and people say.
const WORDS: Limit = Limit { first: 40, last: 20 };

/// A place to write the transcript to.
pub struct Page<'a> {
    /// Where it goes.
    pub out: &'a mut dyn Write,
    /// Its colours.
    pub paint: Paint,
    /// Masks what older programs may have let in.
    pub redactor: &'a Redactor,
    /// Nothing is shortened.
    pub full: bool,
}

impl Page<'_> {
    /// Writes all of it.
    ///
    /// # Errors
    /// What the output says.
    pub fn write(mut self, facts: &Facts, transcript: Transcript) -> io::Result<()> {
        self.head(facts)?;
        let mut tally = Tally::default();
        for entry in transcript {
            tally.count(&entry);
            self.entry(facts, &entry)?;
        }
        self.ending(facts)?;
        self.cost(facts, &tally)
    }

    fn head(&mut self, facts: &Facts) -> io::Result<()> {
        let record = &facts.record;
        self.line(0, Style::Title, &format!("Task {}", record.uuid))?;
        self.fact("item", record.item.as_deref())?;
        self.fact("repository", record.repository.as_deref())?;
        self.fact("user", record.user.as_deref())?;
        self.state(facts)?;
        self.fact("reason", facts.reason())?;
        self.fact("began", facts.began().map(time_text).as_deref())?;
        self.fact("ended", facts.ended().map(time_text).as_deref())?;
        if let Some(resumes) = record.resumes.filter(|resumes| *resumes > 0) {
            self.fact("resumed", Some(&format!("{resumes}×")))?;
        }
        if let Some(ending) = &record.ending {
            self.fact("branch", ending.branch.as_deref())?;
            self.fact("commit", ending.sha.as_deref())?;
            self.fact("pull request", ending.pr_url.as_deref())?;
        }
        for (provider, model) in facts.models() {
            self.fact("model", Some(&format!("{provider} {model}")))?;
        }
        self.fact("directory", Some(&facts.dir.display().to_string()))?;
        for name in &record.other_files {
            self.fact("also there", Some(name))?;
        }
        facts.damage.iter().try_for_each(|damage| self.line(0, Style::Bad, &format!("!! {damage}")))
    }

    fn state(&mut self, facts: &Facts) -> io::Result<()> {
        let state = facts.state();
        let mut text = state.to_owned();
        if let (Some(ending), "running") = (&facts.record.ending, state) {
            text.push_str(&format!(", ends as {}", ending.outcome));
        }
        let queue = &facts.queue;
        if let Some(at) = queue["not_before"].as_str() {
            text.push_str(&format!(", put off until {}", time_text(at)));
        } else if queue["worker_alive"] == Value::Bool(false) {
            text.push_str(", its worker is gone; the next run takes it up");
        } else if queue["state"] == "queue" {
            text.push_str(", waits in the queue");
        }
        if let Some((since, count)) = &facts.record.put_off {
            text.push_str(&format!(" (since {}, {count}× in a row)", time_text(since)));
        }
        let style = match state {
            "completed" => Style::Good,
            "failed" | "gave_up" => Style::Bad,
            _ => Style::Plain,
        };
        self.painted_fact("state", &text, style)
    }

    fn entry(&mut self, facts: &Facts, entry: &Entry) -> io::Result<()> {
        writeln!(self.out)?;
        match entry {
            Entry::Message(message) => self.message(facts, message),
            Entry::Call(record) => self.lone_call(record),
            Entry::Summary(summary) => self.summary(summary),
            Entry::Plan(plan) => self.plan(plan),
            Entry::Damage(damage) => self.line(0, Style::Bad, &format!("!! {damage}")),
        }
    }

    fn message(&mut self, facts: &Facts, message: &Spoken) -> io::Result<()> {
        let who = match message.role.as_str() {
            "assistant" => "model",
            "tool" => "result",
            "" => "nobody",
            other => other,
        };
        let number = message.seq.map_or_else(|| "#?".to_owned(), |seq| format!("#{seq}"));
        let mut parts = vec![(Style::Title, format!("{number} {who}"))];
        if let Some(name) = message.tool_name.as_ref().or(message.record.as_ref().map(|record| &record.tool_name)) {
            parts.push((Style::Name, name.clone()));
        }
        parts.extend(message.at.as_deref().map(|at| (Style::Faint, time_text(at))));
        if let Some(usage) = message.usage {
            let text = format!("{} tokens in, {} out", usage.prompt_tokens, usage.completion_tokens);
            parts.push((Style::Faint, text));
        }
        match &message.record {
            Some(record) => parts.extend(verdict(record)),
            None if message.role == "tool" => parts.extend(exit_code_in(&message.content).map(exit_part)),
            None => {}
        }
        self.parts(&parts)?;
        let limit = match message.role.as_str() {
            "system" => ORDERS,
            "tool" => CALL,
            _ => WORDS,
        };
        let text = self.redactor.mask(&message.content);
        self.block(4, lines_of_text(&text), limit, message.output_file.is_some())?;
        if let Some(name) = &message.output_file {
            let note = format!("[the whole is in {}]", facts.dir.join(name).display());
            self.line(4, Style::Faint, &note)?;
        }
        message.calls.iter().try_for_each(|call| self.call(call))
    }

    fn call(&mut self, call: &Call) -> io::Result<()> {
        let name = if call.name.is_empty() { "a tool without a name" } else { &call.name };
        self.indented_parts(4, &[(Style::Plain, "calls".to_owned()), (Style::Name, name.to_owned())])?;
        self.value(8, &call.arguments)
    }

    /// A recorded call whose result stands in no message.
    fn lone_call(&mut self, record: &CallRecord) -> io::Result<()> {
        let number = record.seq.map_or_else(|| "call".to_owned(), |seq| format!("call {seq}"));
        let mut parts = vec![(Style::Title, number), (Style::Name, record.tool_name.clone())];
        parts.extend(record.at.as_deref().map(|at| (Style::Faint, time_text(at))));
        parts.extend(verdict(record));
        self.parts(&parts)?;
        self.value(8, &record.arguments)?;
        match &record.error {
            Some(error) => self.block(4, lines_of_text(&self.redactor.mask(error)), CALL, false),
            None => match &record.result {
                Value::String(text) => self.block(4, lines_of_text(&self.redactor.mask(text)), CALL, false),
                other => self.value(4, other),
            },
        }
    }

    fn summary(&mut self, summary: &SummaryEntry) -> io::Result<()> {
        let number = summary.id.map_or_else(String::new, |id| format!(" {id}"));
        let mut parts = vec![(Style::Title, format!("summary{number}"))];
        parts.extend(summary.at.as_deref().map(|at| (Style::Faint, time_text(at))));
        let span = match (summary.from_seq, summary.through_seq) {
            (Some(from), Some(through)) => format!(" #{from} to #{through}"),
            (None, Some(through)) => format!(" up to #{through}"),
            _ => String::new(),
        };
        let count = summary.messages.map_or_else(|| "messages".to_owned(), |count| format!("{count} messages"));
        let saved = summary.tokens_saved.map_or_else(String::new, |saved| format!(", saves {saved} tokens"));
        parts.push((Style::Plain, format!("stands for {count}{span}{saved}")));
        self.parts(&parts)?;
        self.block(4, lines_of_text(&self.redactor.mask(&summary.text)), WORDS, false)
    }

    fn plan(&mut self, plan: &PlanEntry) -> io::Result<()> {
        let number = plan.id.map_or_else(String::new, |id| format!(" {id}"));
        let mut parts = vec![(Style::Title, format!("plan{number}"))];
        if !plan.kind.is_empty() {
            parts.push((Style::Name, plan.kind.clone()));
        }
        parts.extend(plan.at.as_deref().map(|at| (Style::Faint, time_text(at))));
        self.parts(&parts)?;
        match &plan.content {
            Value::String(text) => self.block(4, lines_of_text(&self.redactor.mask(text)), WORDS, false),
            other => self.value(4, other),
        }
    }

    fn ending(&mut self, facts: &Facts) -> io::Result<()> {
        let record = &facts.record;
        let ending = record.ending.clone().unwrap_or_default();
        let words = ending.summary.as_deref().or(record.final_summary.as_deref());
        if record.ending.is_none() && words.is_none() {
            return Ok(());
        }
        writeln!(self.out)?;
        self.line(0, Style::Title, "Ending")?;
        self.ending_facts(&ending)?;
        match words {
            Some(words) => self.block(4, lines_of_text(&self.redactor.mask(words)), WORDS, false),
            None => Ok(()),
        }
    }

    fn ending_facts(&mut self, ending: &Ending) -> io::Result<()> {
        self.fact("outcome", Some(&ending.outcome))?;
        self.fact("patch", ending.patch.as_deref())?;
        ending.refusals.iter().try_for_each(|refusal| self.painted_fact("refused", refusal, Style::Bad))?;
        ending.notes.iter().try_for_each(|note| self.fact("note", Some(note)))?;
        self.fact("comment", ending.comment.as_deref())?;
        self.fact("steps done", Some(&ending.steps_done.join(", ")))
    }

    fn cost(&mut self, facts: &Facts, tally: &Tally) -> io::Result<()> {
        let (source, cost) = tally.cost(facts);
        writeln!(self.out)?;
        self.line(0, Style::Title, "Cost")?;
        self.fact("model", Some(&cost_text(&cost, source == super::tally::Source::LlmCalls)))?;
        if source == super::tally::Source::LlmCalls {
            for phase in &facts.phases {
                let what = format!("{} with {} {}: ", phase.phase, phase.provider, phase.model);
                self.fact("phase", Some(&(what + &cost_text(&phase.cost, true))))?;
            }
        }
        let failed = if tally.tool_errors > 0 { format!(" ({} failed)", tally.tool_errors) } else { String::new() };
        let tools = format!("{}{failed}, {}", counted(tally.tool_calls, "call"), duration_text(tally.tool_ms));
        self.fact("tools", Some(&tools))?;
        self.fact("last message", tally.last_at.as_deref().map(time_text).as_deref())
    }

    fn fact(&mut self, name: &str, value: Option<&str>) -> io::Result<()> {
        value.filter(|value| !value.is_empty()).map_or(Ok(()), |value| self.painted_fact(name, value, Style::Plain))
    }

    fn painted_fact(&mut self, name: &str, value: &str, style: Style) -> io::Result<()> {
        let name = self.paint.paint(Style::Faint, &format!("{name:<12}")).into_owned();
        let value = self.clean(value);
        writeln!(self.out, "  {name} {}", self.paint.paint(style, &value))
    }

    fn value(&mut self, indent: usize, value: &Value) -> io::Result<()> {
        let lines = lines_of_value(&self.redactor.mask_json(value.clone()));
        self.block(indent, lines, CALL, false)
    }

    /// Lines, shortened. `has_whole`: a note says where the whole is, so none need say how to see it.
    fn block(&mut self, indent: usize, lines: Vec<String>, limit: Limit, has_whole: bool) -> io::Result<()> {
        let shown = block::shortened(lines, (!self.full).then_some(limit));
        shown.head.iter().try_for_each(|line| self.line(indent, Style::Plain, line))?;
        if shown.left_out > 0 {
            let how = if has_whole { "" } else { "; --full shows them" };
            self.line(indent, Style::Faint, &format!("[… {} lines left out{how} …]", shown.left_out))?;
        }
        shown.tail.iter().try_for_each(|line| self.line(indent, Style::Plain, line))
    }

    fn line(&mut self, indent: usize, style: Style, text: &str) -> io::Result<()> {
        self.indented_parts(indent, &[(style, text.to_owned())])
    }

    fn parts(&mut self, parts: &[(Style, String)]) -> io::Result<()> {
        self.indented_parts(0, parts)
    }

    fn indented_parts(&mut self, indent: usize, parts: &[(Style, String)]) -> io::Result<()> {
        let parts: Vec<String> =
            parts.iter().map(|(style, text)| self.paint.paint(*style, &self.clean(text)).into_owned()).collect();
        let text = parts.join("  ");
        if text.is_empty() { writeln!(self.out) } else { writeln!(self.out, "{:indent$}{text}", "") }
    }

    /// The one door for foreign text.
    fn clean(&self, text: &str) -> String {
        printable_line(&self.redactor.mask(text)).into_owned()
    }
}

/// How a call ended, as the record has it.
fn verdict(record: &CallRecord) -> Vec<(Style, String)> {
    let mut parts = Vec::new();
    parts.extend(record.error.as_ref().map(|_| (Style::Bad, "ERROR".to_owned())));
    parts.extend(record.exit_code.map(exit_part));
    parts.extend(record.duration_ms.map(|duration_ms| (Style::Faint, duration_text(duration_ms))));
    parts
}

fn exit_part(code: i64) -> (Style, String) {
    (if code == 0 { Style::Good } else { Style::Bad }, format!("exit code {code}"))
}

/// The exit code in the result of a command whose record is lost.
fn exit_code_in(content: &str) -> Option<i64> {
    serde_json::from_str::<Value>(content).ok()?.get("exit_code")?.as_i64()
}

/// A time (UTC) without its letters; one that is none stays as it is.
fn time_text(at: &str) -> String {
    let ms = clock::parse_time_loosely(at);
    ms.map_or_else(|| at.to_owned(), |ms| clock::rfc3339(ms).replace('T', " ").replace("+00:00", ""))
}

//! The loop: ask the model, append, run the calls, append, look around, repeat. Every way to stop
//! is an outcome or a directive; what comes next is read from the history (`next_step`), so a
//! resumed task runs the same code as a fresh one.

use std::time::Instant;

use serde_json::Value;

use super::compaction::Compaction;
use super::error_limits::ErrorLimits;
use super::json_protocol::{self, Protocol};
use super::next_step::{NO_ANSWER, NextStep, cut_text};
use super::reply::{self, Fate, PreparedCall};
use super::requirement;
use super::say::say;
use crate::chat::{Arguments, Message, Reasoning, Role, ToolCall, estimate_tokens, within_tokens};
use crate::context::{CompressionSettings, Parking, TaskContext, ToolRecord};
use crate::control::{Control, Directive};
use crate::error::Result;
use crate::ports::{Forge, Llm, Reply, Request, ToolResult};
use crate::prompts::{Prompt, Prompts};
use crate::sys::fault;
use crate::task::Outcome;
use crate::text::{Redactor, head, json_without_nul, without_controls};
use crate::tools::{Toolbox, finish};

/// How the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// With an outcome of the task.
    Outcome(Outcome),
    /// Something outside asks us to leave.
    Directive(Directive),
}

/// Everything the loop works with.
pub struct AgentLoop<'a, 'c> {
    /// Where the model's comments go.
    pub forge: &'a dyn Forge,
    /// How the model calls tools.
    pub protocol: Protocol,
    pub llm: &'a mut dyn Llm,
    pub toolbox: &'a mut Toolbox,
    pub context: &'a mut TaskContext,
    pub control: &'a mut Control<'c>,
    pub prompts: &'a Prompts,
    pub redactor: &'a Redactor,
    /// Replies of the model this task may have in all.
    pub max_turns: u64,
    /// Most estimated tokens of one tool result.
    pub result_cap_tokens: u64,
    /// When older messages are summed up; `None` for never.
    pub compression: Option<CompressionSettings>,
    /// Called after each completed turn.
    pub on_turn: &'a mut dyn FnMut() -> Result<()>,
}

impl AgentLoop<'_, '_> {
    /// Runs to the end.
    ///
    /// # Errors
    /// As the model and the disk; the history on disk is valid then as well.
    pub fn run(mut self) -> Result<LoopEnd> {
        let mut limits = ErrorLimits::default();
        self.say_what_may_be_unsaid()?;
        let mut compaction = Compaction::new(self.compression, self.toolbox.specs(), self.prompts, self.redactor);
        // Calls found without a result were begun by a process that died: they are never run by us again.
        let mut fresh: Vec<PreparedCall> = Vec::new();
        loop {
            match self.protocol.next_step(self.context.messages.current()) {
                NextStep::Finish(outcome, unanswered) => {
                    if let Some(call) = unanswered {
                        self.answer(&call, &self.prompts.render(Prompt::FinishAccepted, &[]))?;
                    }
                    return Ok(LoopEnd::Outcome(outcome));
                }
                NextStep::Remind => {
                    let reminder = self.reminder();
                    self.context.messages.add(Message::text(Role::User, reminder), None)?;
                }
                NextStep::Answer(calls) => {
                    let ended = self.answer_all(&calls, std::mem::take(&mut fresh), &mut limits)?;
                    if let Some(end) = ended {
                        return Ok(end);
                    }
                }
                NextStep::Ask => {
                    let directive = self.control.checkpoint()?;
                    if directive != Directive::Continue {
                        return Ok(LoopEnd::Directive(directive));
                    }
                    if let Some(reason) = requirement::missing(self.toolbox)? {
                        return Ok(LoopEnd::Outcome(Outcome::failed(reason)));
                    }
                    let turns = self.context.messages.count_replies();
                    if turns >= self.max_turns {
                        let reason = format!("the limit of {} model calls for one task is reached", self.max_turns);
                        return Ok(LoopEnd::Outcome(Outcome::failed(reason)));
                    }
                    if let Some(reason) = compaction.make_room(self.llm, self.context)? {
                        return Ok(LoopEnd::Outcome(Outcome::failed(reason)));
                    }
                    let (calls, is_cut) = self.ask(&mut compaction)?;
                    fresh = calls;
                    let mut reason = limits.count_reply(is_cut);
                    if self.protocol == Protocol::Json {
                        let is_readable = !fresh.is_empty() || json_protocol::parse(self.last_text()).is_ok();
                        reason = reason.or(limits.count_text_reply(!fresh.is_empty(), is_readable));
                    }
                    if let Some(reason) = reason {
                        self.refuse_all(&fresh)?;
                        return Ok(LoopEnd::Outcome(Outcome::failed(reason)));
                    }
                }
            }
        }
    }

    fn last_text(&self) -> &str {
        let mut replies =
            self.context.messages.current().iter().rev().filter(|message| message.role == Role::Assistant);
        replies.next().map_or("", |reply| reply.content.as_str())
    }

    fn reminder(&self) -> String {
        match self.protocol {
            Protocol::Native => self.prompts.render(Prompt::Reminder, &[]),
            Protocol::Json => json_protocol::reminder(self.last_text(), self.prompts),
        }
    }

    /// An earlier run may have died between a reply and its comment.
    fn say_what_may_be_unsaid(&self) -> Result<()> {
        let messages = &self.context.messages;
        let last = messages.current().iter().rposition(|message| message.role == Role::Assistant);
        let is_recovered = self.protocol == Protocol::Json && self.context.metadata.resumes > 0;
        let Some((index, seq)) = last.filter(|_| is_recovered).and_then(|index| Some((index, messages.seq_of(index)?)))
        else {
            return Ok(());
        };
        say(self.forge, self.prompts, self.context, seq, &messages.current()[index].content, true)
    }

    /// One turn of the model, appended. The calls it made, and whether it was cut off.
    fn ask(&mut self, compaction: &mut Compaction<'_>) -> Result<(Vec<PreparedCall>, bool)> {
        let turn = self.context.messages.count_replies();
        let reply = self.reply(turn, compaction)?;
        fault::point("loop.replied");
        let reply = match self.protocol {
            Protocol::Native => reply,
            Protocol::Json => json_protocol::read(reply, self.toolbox, self.prompts, self.redactor),
        };
        let usage = reply.usage;
        let limit = self.llm.model().max_output_tokens;
        let prepared = reply::prepare(reply, turn, self.toolbox.specs(), limit);
        let mut content = self.redactor.mask(&prepared.content);
        if prepared.calls.is_empty() {
            if prepared.is_cut {
                content = cut_text(&content);
            } else if content.trim().is_empty() {
                content = NO_ANSWER.into();
            }
        }
        let calls: Vec<ToolCall> = prepared.calls.iter().map(|prepared| self.masked(&prepared.call)).collect();
        log::info!("turn {}: {}", turn + 1, describe(&content, &calls));
        let message =
            Message { reasoning: self.masked_reasoning(prepared.reasoning), ..Message::assistant(content, calls) };
        let seq = self.context.messages.add(message, usage)?;
        Parking::end(self.context.dir())?;
        (self.on_turn)()?;
        fault::point("loop.turn");
        if self.protocol == Protocol::Json {
            say(self.forge, self.prompts, self.context, seq, self.last_text(), false)?;
        }
        Ok((prepared.calls, prepared.is_cut))
    }

    /// A reply to the conversation, which is made shorter where the server cannot take it.
    fn reply(&mut self, turn: u64, compaction: &mut Compaction<'_>) -> Result<Reply> {
        loop {
            let history = self.context.messages.current();
            let (task, phase) = (self.context.uuid(), "loop");
            let in_text: Vec<Message>;
            let request = match self.protocol {
                Protocol::Native => Request { task, phase, turn, messages: history, tools: self.toolbox.specs() },
                Protocol::Json => {
                    in_text = json_protocol::rendered(history, self.toolbox, self.prompts);
                    Request { task, phase, turn, messages: &in_text, tools: &[] }
                }
            };
            match self.llm.complete(&request) {
                Ok(reply) if compaction.trusts(reply.usage, self.llm, self.context)? => return Ok(reply),
                Ok(_) => {}
                Err(error) if error.is_too_large() && compaction.after_overflow(self.llm, self.context)? => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn masked(&self, call: &ToolCall) -> ToolCall {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
        ToolCall {
            id: call.id.clone(),
            name: reply::wire_name(&self.redactor.mask(&call.name)),
            arguments: Value::Object(self.masked_arguments(arguments)).to_string(),
            extra: call.extra.as_ref().map(|extra| self.redactor.mask_json(json_without_nul(extra.clone()))),
        }
    }

    fn masked_reasoning(&self, reasoning: Option<Reasoning>) -> Option<Reasoning> {
        let fit = |text: &str| self.redactor.mask(&without_controls(text));
        reasoning.map(|kept| Reasoning { text: fit(&kept.text), ..kept })
    }

    /// Masked value by value: in JSON text a secret may be written otherwise, and masking there can
    /// break the text. Without NUL, as every text of the history.
    fn masked_arguments(&self, arguments: Arguments) -> Arguments {
        match self.redactor.mask_json(json_without_nul(Value::Object(arguments))) {
            Value::Object(arguments) => arguments,
            _ => Arguments::new(),
        }
    }

    /// Gives every open call its result, in order. Calls of this run are executed.
    fn answer_all(
        &mut self,
        open: &[ToolCall],
        fresh: Vec<PreparedCall>,
        limits: &mut ErrorLimits,
    ) -> Result<Option<LoopEnd>> {
        let alone = open.len() == 1;
        let mut end = None;
        for (index, call) in open.iter().enumerate() {
            let Some(fresh) = fresh.iter().find(|fresh| fresh.call.id == call.id) else {
                self.answer(call, &self.prompts.render(Prompt::Interrupted, &[]))?;
                continue;
            };
            if index > 0 && end.is_none() {
                let directive = self.control.checkpoint()?;
                if directive != Directive::Continue {
                    end = Some(LoopEnd::Directive(directive));
                }
            }
            if end.is_some() {
                // Every call needs a result, and this one honestly was not begun.
                self.answer(call, &self.prompts.render(Prompt::NotRun, &[]))?;
                continue;
            }
            let (result, arguments, duration_ms) = self.execute(call, &fresh.fate, alone);
            fault::point("loop.tool_ran");
            self.keep(call, &result, &arguments, duration_ms)?;
            let counts = !matches!(fresh.fate, Fate::CutOff);
            if counts && let Some(reason) = limits.count_tool_result(&call.name, result.is_error) {
                end = Some(LoopEnd::Outcome(Outcome::failed(reason)));
            }
        }
        Ok(end)
    }

    fn execute(&mut self, call: &ToolCall, fate: &Fate, alone: bool) -> (ToolResult, Arguments, u64) {
        let started = Instant::now();
        let (result, arguments) = match fate {
            Fate::Run(arguments) if call.name == finish::NAME => {
                // Alone and right it would have ended the task before we came here.
                let result = match finish::outcome(arguments) {
                    Ok(_) if !alone => ToolResult::good(self.prompts.render(Prompt::FinishAlone, &[])),
                    Ok(_) => ToolResult::good(self.prompts.render(Prompt::FinishAccepted, &[])),
                    Err(why) => ToolResult::error(why),
                };
                (result, arguments.clone())
            }
            Fate::Run(arguments) => (self.toolbox.call(&call.name, arguments), arguments.clone()),
            Fate::Refuse(why) => (ToolResult::error(why.clone()), Arguments::new()),
            Fate::Unknown => (self.toolbox.unknown(&call.name), Arguments::new()),
            Fate::CutOff => (ToolResult::error(self.prompts.render(Prompt::CutOff, &[])), Arguments::new()),
        };
        (result, arguments, u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Appends a result to the history and to the record.
    fn keep(&mut self, call: &ToolCall, result: &ToolResult, arguments: &Arguments, duration_ms: u64) -> Result<()> {
        let text = self.shown(result)?;
        log::info!("  {} -> {}", call.name, summary_of(result));
        self.answer(call, &text)?;
        let masked = ToolResult { text, whole: None, ..*result };
        let arguments = self.masked_arguments(arguments.clone());
        let record = ToolRecord { tool_name: &call.name, arguments: &arguments, result: &masked, duration_ms };
        self.context.tools.add_tool_call(&record)?;
        Ok(())
    }

    fn answer(&mut self, call: &ToolCall, text: &str) -> Result<()> {
        self.context.messages.add(Message::tool_result(call, text), None).map(drop)
    }

    fn refuse_all(&mut self, calls: &[PreparedCall]) -> Result<()> {
        let text = self.prompts.render(Prompt::CutOff, &[]);
        calls.iter().try_for_each(|prepared| self.answer(&prepared.call, &text))
    }

    /// The text of a result as it goes into the history: no secret, no control characters, and no
    /// more tokens than one result may have. What is left out goes to a file that the text names.
    fn shown(&self, result: &ToolResult) -> Result<String> {
        let text = self.redactor.mask(&without_controls(&result.text));
        if result.whole.is_none() && estimate_tokens(&text) <= self.result_cap_tokens {
            return Ok(text);
        }
        let whole = result.whole.as_ref().map(|whole| self.redactor.mask(whole));
        let path = self.context.keep_output(self.context.messages.next_seq(), whole.as_ref().unwrap_or(&text))?;
        let path = path.display().to_string();
        let noted = format!("{text}\n[… the whole is in {path} …]");
        if estimate_tokens(&noted) <= self.result_cap_tokens {
            return Ok(noted);
        }
        Ok(within_tokens(&text, self.result_cap_tokens, Some(&path)))
    }
}

/// One line for the log.
fn describe(content: &str, calls: &[ToolCall]) -> String {
    let line = |text: &str| head(text.lines().next().unwrap_or_default(), 100).to_owned();
    if calls.is_empty() {
        return format!("says: {}", line(content));
    }
    let calls = calls.iter().map(|call| format!("{} {}", call.name, line(&call.arguments)));
    calls.collect::<Vec<_>>().join("; ")
}

fn summary_of(result: &ToolResult) -> String {
    match (result.exit_code, result.is_error) {
        (Some(code), _) => format!("exit code {code}"),
        (None, true) => format!("error: {}", head(result.text.lines().next().unwrap_or_default(), 100)),
        (None, false) => format!("{} characters", result.text.chars().count()),
    }
}

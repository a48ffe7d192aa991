//! Puts a summary into the place of the older part of a conversation. The pinned head (standing
//! orders and task) stays, and so do the newest messages; the cut never parts a reply from what
//! answers it. The archive keeps everything.
//!
//! Order of writes: temporaries, `summaries.jsonl`, `current.jsonl` by one rename. Killed anywhere,
//! the next start finds the old `current.jsonl` or the new one.

use std::ops::Range;
use std::path::Path;

use super::jsonl::write_scratch;
use super::message_lines::{CurrentLine, Origin};
use super::summary_request::{Parts, joined, request, transcribed};
use super::{NewSummary, TaskContext};
use crate::chat::{Message, Role, Usage, estimate_tokens, within_tokens};
use crate::error::{Kind, Result};
use crate::ports::{FinishReason, Llm, Request};
use crate::prompts::{Prompt, Prompts};
use crate::sys::{fault, file};
use crate::text::Redactor;

const TO_SUMMARIZE: &str = "to_summarize.jsonl";
const UNSUMMARIZED: &str = "unsummarized.jsonl";
const REQUEST: &str = "request.jsonl";
/// The last is one of the earlier program's, made at the end of a task.
const TEMPORARIES: [&str; 4] = [TO_SUMMARIZE, UNSUMMARIZED, REQUEST, "all_messages.jsonl"];

/// Requests for one summary; a chunk that is refused as too long counts.
const MOST_REQUESTS: u32 = 32;
/// Estimated tokens of a chunk below which it is not halved again.
const SMALLEST_CHUNK_TOKENS: u64 = 400;
/// Less is no summary.
const FEWEST_SUMMARY_CHARS: usize = 20;

/// When and what to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionSettings {
    /// Tokens of everything but head and tools from which on it is due.
    pub threshold_tokens: u64,
    /// Newest messages that stay, if there is room.
    pub keep_recent: usize,
    /// Fewest messages worth a summary.
    pub min_to_compress: usize,
}

/// What a compression has room for, in tokens as we estimate them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of the newest messages that stay; the last turn stays in any case.
    pub tail_tokens: u64,
    /// Of a request for a summary.
    pub request_tokens: u64,
}

/// What a compression did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressed {
    /// It saved so many estimated tokens.
    Saved(u64),
    /// Nothing: there were too few messages to sum up, and no model was asked.
    TooFew,
    /// Nothing: no summary came, or none worth having. A warning says why.
    Refused,
}

/// Compresses conversations.
pub struct Compressor<'a> {
    /// Who writes the summary.
    pub llm: &'a mut dyn Llm,
    /// What is asked.
    pub prompts: &'a Prompts,
    /// What is never kept.
    pub redactor: &'a Redactor,
    /// When and what.
    pub settings: CompressionSettings,
}

impl Compressor<'_> {
    /// Whether the part that can be compressed has grown over the threshold. `ratio`: tokens of the
    /// model per token of our estimate.
    pub fn should_compress(settings: &CompressionSettings, context: &TaskContext, ratio: f64) -> bool {
        let messages = &context.messages;
        let compressible = messages.current_token_count() - messages.head_token_count();
        compressible as f64 * ratio > settings.threshold_tokens as f64
    }

    /// Compresses what is sent.
    ///
    /// # Errors
    /// As the disk; as the model where it is not the task's fault. The store must be opened again
    /// after an error of the disk.
    pub fn compress(&mut self, context: &mut TaskContext, room: Room) -> Result<Compressed> {
        let messages = context.messages.current();
        let head = context.messages.head_len();
        let replaced = head..clean_cut(messages, head, self.settings.keep_recent, room.tail_tokens);
        let count = replaced.len() - context.messages.count_summaries_in(replaced.clone());
        if count < self.settings.min_to_compress {
            log::debug!("only {count} messages could be summed up; left as they are");
            return Ok(Compressed::TooFew);
        }
        log::info!("summing up {count} messages of the conversation");
        let done = self.replace(context, replaced, count, room);
        remove_temporaries(context.dir())?;
        done
    }

    fn replace(
        &mut self,
        context: &mut TaskContext,
        replaced: Range<usize>,
        count: usize,
        room: Room,
    ) -> Result<Compressed> {
        let messages = context.messages.current();
        let (old, tail) = (&messages[replaced.clone()], &messages[replaced.end..]);
        write_scratch(&context.dir().join(TO_SUMMARIZE), old.iter().map(sent))?;
        write_scratch(&context.dir().join(UNSUMMARIZED), tail.iter().map(sent))?;
        let old_tokens: u64 = old.iter().map(Message::estimated_tokens).sum();
        let Some((summary, usage)) = self.summary(context, replaced.clone(), room.request_tokens)? else {
            return Ok(Compressed::Refused);
        };
        fault::point("compress.replied");
        let note = self.prompts.render(Prompt::SummaryNote, &[("summary", &summary)]);
        let tokens_saved = old_tokens.saturating_sub(estimate_tokens(&note));
        if tokens_saved * 10 < context.messages.current_token_count() {
            log::warn!("a summary would save only {tokens_saved} tokens; the conversation is left as it is");
            return Ok(Compressed::Refused);
        }
        let new = NewSummary {
            summary: &summary,
            compressed_message_count: count as u64,
            tokens_saved,
            through_seq: context.messages.through_seq(&replaced),
            usage,
        };
        context.summaries.add_summary(&new)?;
        fault::point("compress.summarised");
        let left = context.messages.recreate_current_context(replaced, &note)?;
        fault::point("compress.recreated");
        log::info!("the conversation has {left} messages now, about {tokens_saved} tokens fewer");
        Ok(Compressed::Saved(tokens_saved))
    }

    /// Asks for a summary of these messages, in as many chunks as it takes: each request carries the
    /// summary of the chunks before it. `None` when the model gave none.
    fn summary(
        &mut self,
        context: &TaskContext,
        replaced: Range<usize>,
        request_tokens: u64,
    ) -> Result<Option<(String, Option<Usage>)>> {
        let head = &context.messages.current()[..context.messages.head_len()];
        let task = head.iter().rfind(|message| message.role == Role::User).map_or("", |task| &task.content);
        let task = within_tokens(task, request_tokens / 8, None);
        let pieces: Vec<String> = context.messages.current()[replaced].iter().map(transcribed).collect();
        let mut room_tokens = request_tokens.saturating_sub(estimate_tokens(&task));
        let (mut done, mut summary, mut usage) = (0, String::new(), None::<Usage>);
        for _ in 0..MOST_REQUESTS {
            let earlier = within_tokens(&summary, room_tokens / 2, None);
            let (taken, conversation) = joined(&pieces[done..], room_tokens - estimate_tokens(&earlier));
            let parts =
                Parts { task: &task, earlier: &earlier, conversation: &conversation, fence: &context.metadata.fence };
            let messages = request(self.prompts, &parts);
            write_scratch(&context.dir().join(REQUEST), messages.iter().map(sent))?;
            fault::point("compress.requested");
            let asked = self.llm.complete(&Request {
                task: context.uuid(),
                phase: "summary",
                turn: context.summaries.count_summaries(),
                messages: &messages,
                tools: &[],
            });
            let reply = match asked {
                Ok(reply) => reply,
                Err(error) if error.is_too_large() => {
                    room_tokens = estimate_tokens(&conversation).min(room_tokens) / 2;
                    if room_tokens < SMALLEST_CHUNK_TOKENS {
                        log::warn!("no summary: {error}");
                        return Ok(None);
                    }
                    continue;
                }
                Err(error) if error.kind() == Kind::Task => {
                    log::warn!("no summary: {error}");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            if let Some(used) = reply.usage {
                *usage.get_or_insert_default() += used;
            }
            let text = self.redactor.mask(reply.content.trim());
            if text.chars().count() < FEWEST_SUMMARY_CHARS {
                log::warn!("the model gave no summary; the conversation is left as it is");
                return Ok(None);
            }
            summary = if reply.finish == FinishReason::Length { format!("{text} […]") } else { text };
            done += taken;
            if done == pieces.len() {
                return Ok(Some((summary, usage)));
            }
        }
        log::warn!("no summary after {MOST_REQUESTS} requests; the conversation is left as it is");
        Ok(None)
    }
}

/// Where the newest messages that stay begin: at a reply of the model, never between a reply and
/// what answers it, `head` at least. `keep_recent` messages or a few more; fewer when they are
/// longer than `tail_tokens`, but always the last turn.
pub fn clean_cut(messages: &[Message], head: usize, keep_recent: usize, tail_tokens: u64) -> usize {
    let begins_turn = |index: &usize| messages[*index].role == Role::Assistant;
    let wish = messages.len().saturating_sub(keep_recent.max(1)).max(head);
    let mut cut = (head..messages.len().min(wish + 1)).rev().find(begins_turn).unwrap_or(head);
    let mut tail: u64 = messages[cut.min(messages.len())..].iter().map(Message::estimated_tokens).sum();
    while tail > tail_tokens {
        let Some(next) = (cut + 1..messages.len()).find(begins_turn) else { break };
        tail -= messages[cut..next].iter().map(Message::estimated_tokens).sum::<u64>();
        cut = next;
    }
    cut
}

/// Removes what a compression that was killed left.
///
/// # Errors
/// `Kind::Host` when a file cannot be removed.
pub(super) fn remove_temporaries(dir: &Path) -> Result<()> {
    TEMPORARIES.iter().map(|name| dir.join(name)).filter(|path| path.exists()).try_for_each(|path| file::remove(&path))
}

fn sent(message: &Message) -> CurrentLine {
    CurrentLine::new(message, Origin::Message(None))
}

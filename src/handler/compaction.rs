//! Keeps what is sent within the model's window: looks before each request, and after one that the
//! server found too long. A summary first; where none can be had or it is not enough, the oldest
//! results of tools are shortened. Knows the loop's numbers, and leaves the work to the context.

use crate::chat::{Usage, estimate_tokens};
use crate::context::{Compressed, CompressionSettings, Compressor, Room, TaskContext, shorten};
use crate::error::{Error, Result};
use crate::ports::{Llm, ModelProfile, ToolSpec};
use crate::prompts::Prompts;
use crate::text::Redactor;

/// A count of fewer tokens than this is no sign of a server that drops the front of a request: no
/// window is so small.
const SMALLEST_WINDOW_TOKENS: u64 = 1000;
/// A count this many times smaller than the estimate cannot be of the whole request.
const FAR_BELOW: u64 = 3;
/// Tokens of the model per token of our estimate that are believed.
const MOST_RATIO: f64 = 16.0;

/// What is known of the room a conversation has.
pub struct Compaction<'a> {
    /// `None` when compression is switched off.
    settings: Option<CompressionSettings>,
    prompts: &'a Prompts,
    redactor: &'a Redactor,
    tools_tokens: u64,
    /// The last reported size of a request, as a multiple of our estimate.
    ratio: f64,
    /// Estimated tokens that no request may exceed, since such a one was refused.
    most_estimated: u64,
    /// The next summary is not worth its price before the compressible part has grown to this.
    again_above: u64,
    steps: Steps,
    /// The last count told of a dropped front.
    has_doubt: bool,
    ignores_counts: bool,
}

/// What was done for the request in hand.
#[derive(Default)]
struct Steps {
    compressed: bool,
    shortened: bool,
}

impl<'a> Compaction<'a> {
    /// For a task with these tools.
    pub fn new(
        settings: Option<CompressionSettings>,
        specs: &[ToolSpec],
        prompts: &'a Prompts,
        redactor: &'a Redactor,
    ) -> Self {
        let tokens = |spec: &ToolSpec| {
            estimate_tokens(&spec.wire_name)
                + estimate_tokens(&spec.description)
                + estimate_tokens(&spec.schema.to_string())
        };
        Self {
            settings,
            prompts,
            redactor,
            tools_tokens: specs.iter().map(tokens).sum(),
            ratio: 1.0,
            most_estimated: u64::MAX,
            again_above: 0,
            steps: Steps::default(),
            has_doubt: false,
            ignores_counts: false,
        }
    }

    /// Makes the conversation ready for the next request. Why it cannot be sent, if it cannot.
    ///
    /// # Errors
    /// As [`Compressor::compress`], and `Kind::Host` when the tools leave no room for any task.
    pub fn make_room(&mut self, llm: &mut dyn Llm, context: &mut TaskContext) -> Result<Option<String>> {
        self.steps = Steps::default();
        self.check_tools(llm.model(), context)?;
        if let Some(settings) = self.settings {
            let is_due = Compressor::should_compress(&settings, context, self.ratio);
            if is_due || self.excess(llm.model(), context) > 0 {
                self.compress(settings, llm, context)?;
            }
            let excess = self.excess(llm.model(), context);
            if excess > 0 {
                // Some more, or it would have to be done again for the next request.
                self.steps.shortened = true;
                shorten(context, excess + self.most(llm.model()) / 10)?;
            }
        }
        if self.excess(llm.model(), context) == 0 {
            return Ok(None);
        }
        let needed = (self.estimate(context) as f64 * self.ratio) as u64;
        Ok(Some(if self.most_estimated == u64::MAX {
            let window = llm.model().context_tokens;
            format!("the conversation of about {needed} tokens no longer fits the model's window of {window} tokens")
        } else {
            let most = (self.most_estimated as f64 * self.ratio) as u64;
            format!(
                "the conversation of about {needed} tokens is more than the model's server takes, about {most} tokens"
            )
        }))
    }

    /// Nothing in a task can help where its tools take most of the window, and no orders fit beside them.
    fn check_tools(&self, profile: &ModelProfile, context: &TaskContext) -> Result<()> {
        let size = |estimated: u64| (estimated as f64 * self.ratio) as u64;
        let tools = size(self.tools_tokens);
        let window = profile.context_tokens.saturating_sub(profile.max_output_tokens.unwrap_or(0));
        if tools <= window / 2 || tools + size(context.messages.head_token_count()) <= window {
            return Ok(());
        }
        let all = profile.context_tokens;
        Err(Error::host(format!(
            "the tools take about {tools} tokens of a window of {all}, and no task fits beside them"
        ))
        .hint("name the tools that are needed in `tools` of `mcp_servers`"))
    }

    /// After a request that was too long for the server: whether another try is worth it. A summary
    /// once, shortened results once, and no try without progress.
    ///
    /// # Errors
    /// As [`Compressor::compress`].
    pub fn after_overflow(&mut self, llm: &mut dyn Llm, context: &mut TaskContext) -> Result<bool> {
        let Some(settings) = self.settings else { return Ok(false) };
        let refused = self.estimate(context);
        // What was refused once is not sent again, whatever the configuration says of the window.
        self.most_estimated = self.most_estimated.min(refused * 9 / 10);
        log::warn!("the model's server found a request of about {refused} tokens too long");
        if !self.steps.compressed && self.compress(settings, llm, context)? > 0 {
            return Ok(true);
        }
        if self.steps.shortened {
            return Ok(false);
        }
        self.steps.shortened = true;
        Ok(shorten(context, refused * 4 / 10)? > 0)
    }

    /// Looks at the count a server gave for the request just sent. Whether the reply can be trusted:
    /// a count far below the estimate means that the server dropped the front of the request and
    /// said nothing (case C15). Then the conversation is made as short as what was read, and asked
    /// with again. When the next count is far below as well it is the counts that are wrong.
    ///
    /// # Errors
    /// As [`Compressor::compress`].
    pub fn trusts(&mut self, usage: Option<Usage>, llm: &mut dyn Llm, context: &mut TaskContext) -> Result<bool> {
        let (Some(counted), Some(settings)) = (usage.map(|usage| usage.prompt_tokens), self.settings) else {
            return Ok(true);
        };
        if self.ignores_counts {
            return Ok(true);
        }
        let estimate = self.estimate(context);
        let had_doubt = std::mem::take(&mut self.has_doubt);
        if counted.saturating_mul(FAR_BELOW) >= estimate {
            self.ratio = (counted as f64 / estimate.max(1) as f64).min(MOST_RATIO);
            return Ok(true);
        }
        if counted < SMALLEST_WINDOW_TOKENS {
            return Ok(true);
        }
        if had_doubt {
            log::warn!("the server's counts of tokens are not looked at any more; they are far from what is sent");
            self.ignores_counts = true;
            return Ok(true);
        }
        log::warn!(
            "the server counted {counted} tokens in a request of about {estimate}: it may drop the front of it; \
             set context_length to the window it really has"
        );
        self.has_doubt = true;
        let most_estimated = std::mem::replace(&mut self.most_estimated, counted);
        let mut saved = self.compress(settings, llm, context)?;
        let excess = self.estimate(context).saturating_sub(counted);
        if excess > 0 {
            saved += shorten(context, excess)?;
        }
        self.most_estimated = most_estimated;
        Ok(saved == 0)
    }

    fn compress(&mut self, settings: CompressionSettings, llm: &mut dyn Llm, context: &mut TaskContext) -> Result<u64> {
        if compressible(context) <= self.again_above {
            return Ok(0);
        }
        let most = self.most(llm.model());
        let for_messages = most.saturating_sub(context.messages.head_token_count() + self.tools_tokens);
        let threshold = (settings.threshold_tokens as f64 / self.ratio) as u64;
        // A tail of half the room leaves as much for the summary and what comes next.
        let room = Room { tail_tokens: threshold.min(for_messages) / 2, request_tokens: most - most / 4 };
        let mut compressor = Compressor { llm, prompts: self.prompts, redactor: self.redactor, settings };
        let done = compressor.compress(context, room)?;
        if done == Compressed::TooFew {
            return Ok(0);
        }
        self.steps.compressed = true;
        self.again_above = compressible(context) * 5 / 4;
        Ok(if let Compressed::Saved(tokens) = done { tokens } else { 0 })
    }

    /// Estimated tokens of the next request.
    fn estimate(&self, context: &TaskContext) -> u64 {
        context.messages.current_token_count() + self.tools_tokens
    }

    /// Most estimated tokens of a request.
    fn most(&self, profile: &ModelProfile) -> u64 {
        let window = profile.context_tokens.saturating_sub(profile.max_output_tokens.unwrap_or(0));
        ((window as f64 / self.ratio) as u64).min(self.most_estimated)
    }

    fn excess(&self, profile: &ModelProfile, context: &TaskContext) -> u64 {
        self.estimate(context).saturating_sub(self.most(profile))
    }
}

/// Estimated tokens of everything but the head.
fn compressible(context: &TaskContext) -> u64 {
    context.messages.current_token_count() - context.messages.head_token_count()
}

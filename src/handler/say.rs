//! What a model says to people while it works: one comment for each reply, found again by its
//! marker after a crash.

use super::comment::{self, quoted_words};
use super::json_protocol;
use crate::context::TaskContext;
use crate::error::Result;
use crate::ports::Forge;
use crate::prompts::{Prompt, Prompts};
use crate::sys::fault;

/// Kept free below a forge's limit.
const MARGIN_CHARS: usize = 500;

/// Posts the comment and the plan of the reply `answer`, number `seq` of the history. `look_first`:
/// an earlier run may have posted them. What the forge refuses for good is a warning.
///
/// # Errors
/// Passing trouble, and faults of the host.
pub fn say(
    forge: &dyn Forge,
    prompts: &Prompts,
    context: &TaskContext,
    seq: u64,
    answer: &str,
    look_first: bool,
) -> Result<()> {
    let Ok(said) = json_protocol::parse(answer) else { return Ok(()) };
    let room = forge.body_limit_chars().saturating_sub(MARGIN_CHARS) / 2;
    let quoted = |words: &str| quoted_words(prompts, context.uuid(), words, room);
    let plan = |words: String| prompts.render(Prompt::CommentPlan, &[("plan", &quoted(&words))]);
    let parts: Vec<String> =
        [said.comment.map(|words| quoted(&words)), said.plan.map(plan)].into_iter().flatten().collect();
    if parts.is_empty() {
        return Ok(());
    }
    comment::post_by_the_way(forge, context, &format!("say-{seq}"), &parts.join("\n\n"), look_first)?;
    fault::point("loop.said");
    Ok(())
}

//! The first two messages of a task: standing orders, and the task as one JSON object. Who may steer
//! is decided here: the body, and the newest comment of a person with write access. Everything else
//! that people wrote is data between fences that nobody could know when he wrote it.

use serde_json::json;

use crate::error::Result;
use crate::ports::{Comment, Forge, Item};
use crate::prompts::{Prompt, Prompts};
use crate::text::{fenced, visible};

/// The standing orders. `command_tool` is the wire name of the tool that runs commands, if there is one.
pub fn system_prompt(prompts: &Prompts, branch: &str, command_tool: Option<&str>, fence: &str) -> String {
    let commands_note = match command_tool {
        Some(tool) => prompts.render(Prompt::CommandsAvailable, &[("tool", tool)]),
        None => prompts.render(Prompt::CommandsMissing, &[]),
    };
    let values = [("commands_note", commands_note.as_str()), ("branch", branch), ("fence", fence)];
    prompts.render(Prompt::System, &values)
}

/// The task: what is asked for, and what was said about it.
///
/// # Errors
/// As the forge.
pub fn task_prompt(prompts: &Prompts, forge: &dyn Forge, item: &Item, fence: &str) -> Result<String> {
    let mut comments: Vec<Comment> = forge
        .comments(&item.key)?
        .into_iter()
        .filter(|comment| !is_ours(forge, comment) && !comment.body.trim().is_empty())
        .collect();
    let mut request = visible(item.body.trim());
    if let Some(newest) = newest_of_a_writer(forge, item, &comments)? {
        let comment = comments.remove(newest);
        request = format!("{request}\n\n{}", visible(comment.body.trim()));
    }
    let earlier: Vec<_> = comments
        .iter()
        .map(|comment| {
            let body = fenced(&visible(comment.body.trim()), fence);
            json!({ "author": comment.author, "created_at": comment.created_at, "body": body })
        })
        .collect();
    let task = json!({
        "kind": item.key.task_type(),
        "repository": item.repository,
        "number": item.key.identifier(),
        "title": visible(&item.title),
        "request": request,
        "earlier_comments": earlier,
    });
    let text = serde_json::to_string_pretty(&task).unwrap_or_default();
    Ok(prompts.render(Prompt::Task, &[("task_json", &text)]))
}

/// Author and marker: with a person's own token his comments come from the same account.
fn is_ours(forge: &dyn Forge, comment: &Comment) -> bool {
    comment.author.eq_ignore_ascii_case(forge.bot_login()) && comment.body.contains("<!-- coding-agent:")
}

/// Newest first, so that one question is enough in most cases; each author is asked for once.
fn newest_of_a_writer(forge: &dyn Forge, item: &Item, comments: &[Comment]) -> Result<Option<usize>> {
    let mut outsiders: Vec<&str> = Vec::new();
    for (index, comment) in comments.iter().enumerate().rev() {
        if outsiders.contains(&comment.author.as_str()) {
            continue;
        }
        if forge.may_write(&item.key, &comment.author)? {
            return Ok(Some(index));
        }
        outsiders.push(&comment.author);
    }
    Ok(None)
}

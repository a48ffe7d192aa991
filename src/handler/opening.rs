//! The first two messages of a task: standing orders, and the task as one JSON object. Who may steer
//! is decided here: the body, and the newest comment of a person with write access. Everything else
//! that people wrote is data between fences that nobody could know when he wrote it.

use serde_json::{Value, json};

use crate::context::InheritanceContext;
use crate::error::Result;
use crate::ports::{COMMENT_MARK, Comment, Forge, Item};
use crate::prompts::{Prompt, Prompts};
use crate::text::{fenced, head_and_tail, tail, visible};
use crate::workspace::Workspace;

/// Most bytes of the list of what a pull request changes.
const CHANGES_BYTES: usize = 6_000;
/// Most bytes of the difference that a remark is shown with; its end is what the remark is about.
const HUNK_BYTES: usize = 2_000;

/// The standing orders. `tools_note` says which tools there are beyond the usual, and which are missing;
/// `user_orders` is what the person the task is for wants in all of his tasks.
pub fn system_prompt(
    prompts: &Prompts,
    workspace: &Workspace,
    tools_note: &str,
    user_orders: Option<&str>,
    fence: &str,
) -> String {
    let change_note = workspace
        .base_in_tree()
        .map_or_else(String::new, |base| format!(" {}", prompts.render(Prompt::PullRequestNote, &[("base", &base)])));
    let values = [
        ("commands_note", tools_note),
        ("branch", workspace.branch()),
        ("change_note", &change_note),
        ("fence", fence),
    ];
    let orders = prompts.render(Prompt::System, &values);
    match user_orders {
        Some(wishes) => format!("{orders}\n\n{}", prompts.render(Prompt::UserOrders, &[("orders", wishes.trim())])),
        None => orders,
    }
}

/// The task: what is asked for, and what was said about it.
///
/// # Errors
/// As the forge.
pub fn task_prompt(
    prompts: &Prompts,
    forge: &dyn Forge,
    item: &Item,
    workspace: &Workspace,
    inherited: Option<&InheritanceContext>,
    fence: &str,
) -> Result<String> {
    let mut comments: Vec<Comment> = forge
        .comments(&item.key)?
        .into_iter()
        .filter(|comment| !is_ours(forge, comment) && !comment.is_blank())
        .collect();
    let mut request = visible(item.body.trim());
    if let Some(newest) = newest_of_a_writer(forge, item, &comments)? {
        let comment = comments.remove(newest);
        for part in std::iter::once(visible(comment.body.trim())).chain(remarks_as_text(&comment, fence)) {
            request = format!("{request}\n\n{part}");
        }
    }
    let mut task = json!({
        "kind": item.key.task_type(),
        "repository": item.repository,
        "number": item.key.identifier(),
        "title": visible(&item.title),
        "request": request.trim(),
        "earlier_comments": comments.iter().map(|comment| quoted(comment, fence)).collect::<Vec<_>>(),
    });
    if let Some(base) = workspace.base_in_tree() {
        task["branch"] = workspace.branch().into();
        task["base"] = base.into();
        // The names of files are words of others too.
        let changes = visible(&workspace.changes_so_far()?);
        task["changes_so_far"] = fenced(&head_and_tail(&changes, CHANGES_BYTES, None), fence).into();
    }
    if let Some(inherited) = inherited {
        task["earlier_task"] = earlier_task(prompts, inherited, fence);
    }
    let text = serde_json::to_string_pretty(&task).unwrap_or_default();
    Ok(prompts.render(Prompt::Task, &[("task_json", &text)]))
}

/// What an earlier task reported, as data: a model wrote it, from what it had read.
fn earlier_task(prompts: &Prompts, inherited: &InheritanceContext, fence: &str) -> Value {
    let mut value = json!({
        "note": prompts.render(Prompt::EarlierTask, &[]),
        "ended": inherited.previous.status,
        "ended_at": inherited.previous.completed_at,
        "report": fenced(&visible(&inherited.final_summary), fence),
    });
    if !inherited.planning_summary.is_empty() {
        value["plans"] = fenced(&visible(&inherited.planning_summary), fence).into();
    }
    value
}

/// A comment as data.
fn quoted(comment: &Comment, fence: &str) -> Value {
    let body = fenced(&visible(comment.body.trim()), fence);
    let mut value = json!({ "author": comment.author, "created_at": comment.created_at, "body": body });
    if let Some(verdict) = &comment.verdict {
        value["review"] = verdict.as_str().into();
    }
    if !comment.remarks.is_empty() {
        let remarks = comment.remarks.iter().map(|remark| {
            json!({
                "path": visible(&remark.path),
                "line": remark.line,
                "diff_hunk": fenced(&visible(tail(&remark.diff_hunk, HUNK_BYTES)), fence),
                "body": fenced(&visible(remark.body.trim()), fence),
            })
        });
        value["remarks"] = remarks.collect();
    }
    value
}

/// The remarks of a review that is the request: its words are orders, the lines they stand at are data.
fn remarks_as_text<'a>(comment: &'a Comment, fence: &'a str) -> impl Iterator<Item = String> + 'a {
    comment.remarks.iter().map(move |remark| {
        let line = remark.line.map_or_else(String::new, |line| format!(", line {line}"));
        let hunk = fenced(&visible(tail(&remark.diff_hunk, HUNK_BYTES)), fence);
        format!("`{}`{line}:\n{hunk}\n{}", visible(&remark.path), visible(remark.body.trim()))
    })
}

/// Author and marker: with a person's own token his comments come from the same account.
fn is_ours(forge: &dyn Forge, comment: &Comment) -> bool {
    comment.author.eq_ignore_ascii_case(forge.bot_login()) && comment.body.contains(COMMENT_MARK)
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

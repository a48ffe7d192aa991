//! The first two messages of a task: standing orders, and the task as one JSON object. Text of
//! people is data inside that object, never pasted between quotes.

use serde_json::json;

use crate::error::Result;
use crate::ports::{Comment, Forge, Item};
use crate::prompts::{Prompt, Prompts};

/// Name of the tool that runs commands, if the toolbox has one.
pub fn system_prompt(prompts: &Prompts, branch: &str, command_tool: Option<&str>) -> String {
    let commands_note = match command_tool {
        Some(tool) => prompts.render(Prompt::CommandsAvailable, &[("tool", tool)]),
        None => prompts.render(Prompt::CommandsMissing, &[]),
    };
    prompts.render(Prompt::System, &[("commands_note", &commands_note), ("branch", branch)])
}

/// The task: the body, and on top of it the newest comment of a person who may write; everything
/// else is reference.
///
/// # Errors
/// As the forge.
pub fn task_prompt(prompts: &Prompts, forge: &dyn Forge, item: &Item) -> Result<String> {
    let comments: Vec<Comment> = forge
        .comments(&item.key)?
        .into_iter()
        .filter(|comment| !comment.author.eq_ignore_ascii_case(forge.bot_login()) && !comment.body.trim().is_empty())
        .collect();
    let mut newest = None;
    for (index, comment) in comments.iter().enumerate().rev() {
        if forge.may_write(&item.key, &comment.author)? {
            newest = Some(index);
            break;
        }
    }
    let request = match newest {
        Some(index) => format!("{}\n\n{}", item.body.trim(), comments[index].body.trim()),
        None => item.body.trim().to_owned(),
    };
    let earlier = comments.iter().enumerate().filter(|(index, _)| Some(*index) != newest);
    let earlier: Vec<_> = earlier
        .map(|(_, comment)| json!({ "author": comment.author, "created_at": comment.created_at, "body": comment.body }))
        .collect();
    let task = json!({
        "kind": item.key.task_type(),
        "repository": item.repository,
        "number": item.key.identifier(),
        "title": item.title,
        "request": request,
        "earlier_comments": earlier,
    });
    let text = serde_json::to_string_pretty(&task).unwrap_or_default();
    Ok(prompts.render(Prompt::Task, &[("task_json", &text)]))
}

//! What an MCP server offers, as the model sees it: names, descriptions and schemas of strangers made fit
//! to be sent, the operator's choice among them, and whether they are too many.

use std::collections::HashSet;

use serde_json::Value;

use super::schema;
use crate::chat::estimate_tokens;
use crate::ports::ToolSpec;
use crate::text::{Redactor, head_chars, inline_code, json_without_nul, visible};

/// OpenAI refuses a request with a longer description of a tool.
const LONGEST_DESCRIPTION_CHARS: usize = 1024;
/// Stands at the end of one that was cut.
const CUT_MARK: &str = " […]";
/// Tools may take so much of the window before a warning: one part of it in …
const WINDOW_PART: u64 = 10;
/// Names in a warning.
const MOST_NAMES: usize = 10;

/// The tools in `list`, as `tools/list` of the server called `server` gave it; those of `wanted` where any
/// are named. What cannot be offered is a warning.
pub fn specs(server: &str, list: &[Value], wanted: &[String], redactor: &Redactor) -> Vec<ToolSpec> {
    let (mut specs, mut seen) = (Vec::new(), HashSet::new());
    for tool in list {
        let text = |name: &str| tool.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let Some(name) = text("name") else {
            log::warn!("MCP server `{server}` offers a tool without a name, which is left out");
            continue;
        };
        if !seen.insert(name) {
            log::warn!("MCP server `{server}` offers {} twice; the second is left out", inline_code(name));
            continue;
        }
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        // Such a tool gives a task to ask after instead of a result (specification 2025-11-25, "Tasks").
        if tool.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required") {
            // A server is not at fault for what it offers besides; one who named the tool wants to know.
            let level = if wanted.is_empty() { log::Level::Info } else { log::Level::Warn };
            log::log!(level, "MCP server `{server}` offers {} only as a task, so it is left out", inline_code(name));
            continue;
        }
        // Most servers leave the title to people; without a description it is all there is.
        let description = text("description").or(text("title")).unwrap_or_default();
        specs.push(ToolSpec {
            wire_name: name.to_owned(),
            description: redactor.mask(&described(description)),
            schema: redactor.mask_json(json_without_nul(schema::repaired(tool.get("inputSchema")))),
        });
    }
    specs
}

/// A warning where `wanted` names tools that the server called `server` does not have in its `list`.
pub fn missing_warning(server: &str, list: &[Value], wanted: &[String]) -> Option<String> {
    let has: Vec<&str> = list.iter().filter_map(|tool| tool.get("name")?.as_str()).collect();
    let missing: Vec<String> =
        wanted.iter().filter(|name| !has.contains(&name.as_str())).map(|name| format!("`{name}`")).collect();
    if missing.is_empty() {
        return None;
    }
    let names: Vec<_> = has.iter().take(MOST_NAMES).map(|name| inline_code(name)).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Some(format!("MCP server `{server}` does not offer {}, named in its `tools`; it has {names}", missing.join(", ")))
}

fn described(text: &str) -> String {
    let text = visible(text.trim());
    if text.chars().count() <= LONGEST_DESCRIPTION_CHARS {
        return text;
    }
    format!("{}{CUT_MARK}", head_chars(&text, LONGEST_DESCRIPTION_CHARS - CUT_MARK.chars().count()))
}

/// Estimated tokens that tools take of every request.
pub fn tokens(specs: &[ToolSpec]) -> u64 {
    let of = |spec: &ToolSpec| {
        estimate_tokens(&spec.wire_name)
            + estimate_tokens(&spec.description)
            + estimate_tokens(&spec.schema.to_string())
    };
    specs.iter().map(of).sum()
}

/// A warning with its remedy, where the tools of all servers together (name and tokens of each) take more
/// than a tenth of the window.
pub fn budget_warning(servers: &[(String, u64)], window_tokens: u64) -> Option<String> {
    let all: u64 = servers.iter().map(|(_, tokens)| tokens).sum();
    if all <= window_tokens / WINDOW_PART {
        return None;
    }
    let mut servers: Vec<&(String, u64)> = servers.iter().filter(|(_, tokens)| *tokens > 0).collect();
    servers.sort_by(|(one, less), (other, more)| more.cmp(less).then(one.cmp(other)));
    let sizes = servers.iter().map(|(name, tokens)| format!("`{name}` {tokens}")).collect::<Vec<_>>().join(", ");
    let percent = all.saturating_mul(100) / window_tokens.max(1);
    Some(format!(
        "the tools of MCP servers take about {all} tokens of every request, {percent} % of the model's window ({sizes}); \
         name the tools that are needed in `tools` of these `mcp_servers`"
    ))
}

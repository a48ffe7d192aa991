//! The rules of the strictest chat completions servers, written down without a look at the
//! program's own. Source: OpenAI's API reference, "Create chat completion"; what single servers
//! refuse beyond it stands in cases C01–C08.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

type Checked = Result<(), String>;

/// Why a strict server refuses `body`; `None` when it does not.
pub fn objection(body: &Value) -> Option<String> {
    request(body).err()
}

fn ensure(holds: bool, what: impl Into<String>) -> Checked {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn object<'a>(value: &'a Value, at: &str, allowed: &[&str], needed: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("{at} is not an object"))?;
    for name in object.keys() {
        ensure(allowed.contains(&name.as_str()), format!("unknown field `{name}` in {at}"))?;
    }
    for name in needed {
        ensure(object.contains_key(*name), format!("{at} has no `{name}`"))?;
    }
    Ok(object)
}

fn request(body: &Value) -> Checked {
    let allowed = ["model", "messages", "tools", "tool_choice", "max_completion_tokens"];
    let body = object(body, "the request", &allowed, &["model", "messages"])?;
    ensure(body["model"].is_string(), "model is not text")?;
    if let Some(most) = body.get("max_completion_tokens") {
        ensure(most.as_u64().is_some_and(|most| most > 0), "max_completion_tokens is not a number above 0")?;
    }
    match body.get("tools") {
        Some(tools) => offered(tools)?,
        None => ensure(!body.contains_key("tool_choice"), "tool_choice without tools")?,
    }
    let messages = body["messages"].as_array().filter(|list| !list.is_empty()).ok_or("no messages")?;
    conversation(messages)
}

fn offered(tools: &Value) -> Checked {
    let tools = tools.as_array().filter(|list| !list.is_empty()).ok_or("tools is empty; leave it out")?;
    let mut names = BTreeSet::new();
    for tool in tools {
        let tool = object(tool, "a tool", &["type", "function"], &["type", "function"])?;
        ensure(tool["type"] == "function", "a tool that is no function")?;
        let fields = ["name", "description", "parameters"];
        let function = object(&tool["function"], "a function", &fields, &fields)?;
        function_name(&function["name"])?;
        ensure(names.insert(function["name"].to_string()), "two tools of one name")?;
        ensure(function["description"].is_string(), "a description that is no text")?;
        ensure(function["parameters"]["type"] == "object", "parameters that describe no object")?;
    }
    Ok(())
}

fn function_name(name: &Value) -> Checked {
    let fits = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    let text = name.as_str().unwrap_or_default();
    ensure((1..=64).contains(&text.len()) && text.chars().all(fits), format!("{name} is no function name"))
}

fn conversation(messages: &[Value]) -> Checked {
    let mut ids = BTreeSet::new();
    let mut unanswered: Vec<String> = Vec::new();
    let mut before = "";
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = message["role"].as_str().ok_or(format!("{at} has no role"))?;
        let own: &[&str] = match role {
            "system" | "user" => &["role", "content"],
            "assistant" => &["role", "content", "tool_calls"],
            "tool" => &["role", "content", "tool_call_id"],
            _ => return Err(format!("{at}: no such role: {role}")),
        };
        let fields = object(message, &at, own, &["role", "content"])?;
        let content = fields["content"].as_str().ok_or(format!("{at}: content is null or no text"))?;
        let in_order = match role {
            "system" => index == 0,
            "user" => true,
            "assistant" => ["user", "tool"].contains(&before),
            _ => ["assistant", "tool"].contains(&before),
        };
        ensure(in_order, format!("{at}: {role} may not follow `{before}`"))?;
        if role == "tool" {
            let id = fields.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
            let place = unanswered.iter().position(|open| open == id);
            let place = place.ok_or(format!("{at}: a result for `{id}`, which waits for none"))?;
            unanswered.remove(place);
        } else {
            ensure(unanswered.is_empty(), format!("{at}: calls {unanswered:?} have no result"))?;
        }
        if let Some(calls) = fields.get("tool_calls") {
            let calls = calls.as_array().filter(|list| !list.is_empty()).ok_or(format!("{at}: empty tool_calls"))?;
            for made in calls {
                let id = called(made, &at)?;
                ensure(ids.insert(id.clone()), format!("{at}: the id `{id}` was used before"))?;
                unanswered.push(id);
            }
        } else {
            ensure(role != "assistant" || !content.is_empty(), format!("{at}: neither text nor calls"))?;
        }
        before = role;
    }
    ensure(unanswered.is_empty(), format!("calls {unanswered:?} at the end have no result"))?;
    ensure(["user", "tool"].contains(&before), format!("the last message is of `{before}`"))
}

/// A call in the history; its id.
fn called(call: &Value, at: &str) -> Result<String, String> {
    let fields = ["id", "type", "function"];
    let call = object(call, at, &fields, &fields)?;
    ensure(call["type"] == "function", format!("{at}: a call of no function"))?;
    let id = call["id"].as_str().unwrap_or_default();
    let fits = !id.is_empty() && id.chars().all(|char| char.is_ascii_alphanumeric());
    ensure(fits, format!("{at}: `{id}` is no id every server takes"))?;
    let fields = ["name", "arguments"];
    let function = object(&call["function"], at, &fields, &fields)?;
    function_name(&function["name"])?;
    let arguments = function["arguments"].as_str().ok_or(format!("{at}: arguments are no text"))?;
    let parsed: Result<Value, _> = serde_json::from_str(arguments);
    ensure(parsed.is_ok_and(|value| value.is_object()), format!("{at}: arguments are not the text of an object"))?;
    Ok(id.to_owned())
}

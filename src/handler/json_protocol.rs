//! The protocol for models that cannot call tools: each answer is one JSON object in text, results
//! go back as text. In the history its calls and results stand as those of any other model, so a
//! resume, a summary and a change of the setting need nothing of their own; what goes over the wire
//! is made from there anew for each request. Pure.

use serde_json::{Map, Value, json};

use crate::chat::{Message, Reasoning, Role, ToolCall};
use crate::ports::{RawToolCall, Reply, ToolSpec};
use crate::prompts::{Prompt, Prompts};
use crate::text::{Redactor, json_objects, parse_json, without_controls};
use crate::tools::{Toolbox, finish};

use super::next_step::is_cut_text;

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// In the way of its server.
    Native,
    /// As JSON in its text.
    Json,
}

/// The fields of an answer.
const FIELDS: [&str; 7] = ["comment", "plan", "command", "function_call", "function_calls", "call_tool", "done"];

/// What an answer says.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    /// Words for people.
    pub comment: Option<String>,
    /// What the model is going to do, as text.
    pub plan: Option<String>,
    /// Calls as they came: commands, functions, tools.
    pub calls: Vec<RawToolCall>,
    /// The task is done.
    pub done: bool,
}

/// Reads an answer.
///
/// # Errors
/// What is wrong with it, for the model; then nothing of it counts.
pub fn parse(text: &str) -> Result<Said, String> {
    let mut fitting: Vec<Map<String, Value>> = Vec::new();
    for object in json_objects(text) {
        let Value::Object(object) = object else { continue };
        // Said twice in the same words is said once.
        if FIELDS.iter().any(|field| object.contains_key(*field)) && !fitting.contains(&object) {
            fitting.push(object);
        }
    }
    match fitting.as_slice() {
        [object] => said(object),
        [] => Err(match parse_json(text.trim().as_bytes()) {
            Err(error) if text.trim_start().starts_with('{') => format!("it is not valid JSON: {error}"),
            _ => "it holds no JSON object with one of the known fields".into(),
        }),
        several => Err(format!("it holds {} different JSON objects, and only one can be meant", several.len())),
    }
}

fn said(object: &Map<String, Value>) -> Result<Said, String> {
    let field = |name: &str| object.get(name).filter(|value| !value.is_null());
    let text = |name: &str| field(name).map(words).filter(|words| !words.trim().is_empty());
    let mut calls = Vec::new();
    for name in ["command", "function_call", "function_calls", "call_tool"] {
        match field(name) {
            None => {}
            Some(Value::Array(list)) => {
                for value in list {
                    calls.push(call(name, value)?);
                }
            }
            Some(value) => calls.push(call(name, value)?),
        }
    }
    let done = match field("done") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(Value::String(word)) if word.eq_ignore_ascii_case("true") => true,
        Some(Value::String(word)) if word.eq_ignore_ascii_case("false") => false,
        Some(_) => return Err("`done` must be true or false".into()),
    };
    Ok(Said { comment: text("comment"), plan: text("plan"), calls, done })
}

fn call(field: &str, value: &Value) -> Result<RawToolCall, String> {
    let Value::Object(call) = value else { return Err(format!("`{field}` must be an object")) };
    let of = |names: [&str; 2]| names.iter().find_map(|name| call.get(*name)).filter(|value| !value.is_null());
    let name = of(["tool", "name"]).and_then(Value::as_str).map(str::to_owned);
    if name.is_none() {
        return Err(format!("`{field}` does not name a tool"));
    }
    Ok(RawToolCall { id: None, name, arguments: of(["args", "arguments"]).cloned(), extra: None })
}

/// A comment or a plan as text: a list is one of lines.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(steps) => steps.iter().map(|step| format!("- {}", words(step))).collect::<Vec<_>>().join("\n"),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// A reply in the form of any other: calls as calls, `done` as one of `finish`, and as its text what
/// is left of the object. One that cannot be read keeps its text and has no calls.
pub fn read(reply: Reply, toolbox: &Toolbox, prompts: &Prompts, redactor: &Redactor) -> Reply {
    let Ok(said) = parse(&reply.content) else { return Reply { tool_calls: Vec::new(), ..reply } };
    let fit = |text: String| redactor.mask(&without_controls(&text));
    let mut comment = said.comment.map(fit);
    let mut calls: Vec<RawToolCall> = said.calls;
    for call in &mut calls {
        if let Some(name) = call.name.as_deref().and_then(|name| toolbox.wire_name(name)) {
            call.name = Some(name.to_owned());
        }
    }
    if said.done {
        let summary = comment.clone().unwrap_or_else(|| prompts.render(Prompt::DoneWithoutWords, &[]));
        if calls.is_empty() {
            // It is told at the end, with the facts; twice would be once too much.
            comment = None;
        }
        let arguments = json!({ "status": "done", "summary": summary });
        let name = Some(finish::NAME.to_owned());
        calls.push(RawToolCall { id: None, name, arguments: Some(arguments), extra: None });
    }
    let is_whole = parse_json(reply.content.trim().as_bytes()).is_ok();
    let around = if is_whole { "" } else { reply.content.trim() };
    let reasoning = match reply.reasoning {
        None => Reasoning::inside_text(around),
        Some(kept) if kept.field.is_empty() => {
            Some(Reasoning { text: format!("{}\n{around}", kept.text).trim_end().to_owned(), ..kept })
        }
        kept => kept,
    };
    let mut content = rest(comment, said.plan.map(fit));
    if content.is_empty() && calls.is_empty() {
        // It said nothing, but in the right form, and is not told otherwise.
        content = json!({ "done": false }).to_string();
    }
    Reply { content, tool_calls: calls, reasoning, ..reply }
}

/// What of an answer is no call, as an object; empty when nothing is.
fn rest(comment: Option<String>, plan: Option<String>) -> String {
    let fields = [("comment", comment), ("plan", plan)];
    let object: Map<String, Value> =
        fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?)))).collect();
    if object.is_empty() { String::new() } else { Value::Object(object).to_string() }
}

/// What the model is told behind an answer without a call.
pub fn reminder(answer: &str, prompts: &Prompts) -> String {
    if is_cut_text(answer) {
        return prompts.render(Prompt::CutOff, &[]);
    }
    match parse(answer) {
        Err(why) => prompts.render(Prompt::JsonUnreadable, &[("why", &why)]),
        Ok(said) => {
            let plan = said.plan.map(|plan| format!("{}\n\n", json!({ "plan": plan })));
            format!("{}{}", plan.unwrap_or_default(), prompts.render(Prompt::JsonReminder, &[]))
        }
    }
}

/// The rules of the protocol and the tools, for the standing orders.
fn orders(toolbox: &Toolbox, prompts: &Prompts) -> String {
    let tool = |spec: &ToolSpec| {
        format!("- `{}`: {}\n  {}", toolbox.slash_name(&spec.wire_name), spec.description, spec.schema)
    };
    let tools: Vec<String> = toolbox.specs().iter().map(tool).collect();
    prompts.render(Prompt::JsonProtocol, &[("tools", &tools.join("\n"))])
}

/// The history as such a model is sent it: no calls, no results, and never two messages of the user
/// in a row, which the templates of many such models do not take.
pub fn rendered(history: &[Message], toolbox: &Toolbox, prompts: &Prompts) -> Vec<Message> {
    let mut sent: Vec<Message> = Vec::new();
    let (mut plan, mut after_result) = (None, false);
    for message in history {
        let is_result = message.role == Role::Tool;
        let text = match message.role {
            Role::System => format!("{}\n\n{}", message.content, orders(toolbox, prompts)),
            Role::User => message.content.clone(),
            Role::Assistant => {
                let object = object_of(message, toolbox);
                plan = object.get("plan").cloned();
                if message.tool_calls.is_empty() { message.content.clone() } else { Value::Object(object).to_string() }
            }
            Role::Tool => {
                let tool = message.tool_name.as_deref().unwrap_or_default();
                let result = json!({ "tool": toolbox.slash_name(tool), "result": message.content });
                // The plan comes back once, in front of the first result.
                plan.take().map_or_else(String::new, |plan| format!("{}\n", json!({ "plan": plan })))
                    + &result.to_string()
            }
        };
        let role = if is_result { Role::User } else { message.role };
        match sent.last_mut() {
            Some(last) if last.role == Role::User && role == Role::User => {
                last.content.push_str(if is_result && after_result { "\n" } else { "\n\n" });
                last.content.push_str(&text);
            }
            _ => sent.push(Message::text(role, text)),
        }
        after_result = is_result;
    }
    sent
}

/// An answer as the model should have written it.
fn object_of(message: &Message, toolbox: &Toolbox) -> Map<String, Value> {
    let mut object = match serde_json::from_str(&message.content) {
        Ok(Value::Object(object)) => object,
        // Text of a time when the model called tools otherwise.
        _ if message.content.is_empty() || message.tool_calls.is_empty() => Map::new(),
        _ => Map::from_iter([("comment".to_owned(), Value::String(message.content.clone()))]),
    };
    let call = |call: &ToolCall| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        json!({ "tool": toolbox.slash_name(&call.name), "args": arguments })
    };
    if !message.tool_calls.is_empty() {
        object.insert("call_tool".into(), message.tool_calls.iter().map(call).collect());
    }
    object
}

//! The conversation with a model, free of any provider: messages, tool calls and results, usage,
//! the token estimate, and the rules a strict server applies to a history.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::text::head_and_tail;

use crate::text::without_controls;

/// Arguments of a tool call: always an object.
pub type Arguments = Map<String, Value>;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Our standing orders.
    System,
    /// The task, and what we say on its behalf.
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

impl Role {
    /// The name used on every wire and in every file.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.name() == name)
    }
}

/// A call as it stands in the history: id and arguments are ours to keep valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Unique in the task, letters and digits only.
    pub id: String,
    /// Wire name of the tool.
    pub name: String,
    /// Text of a JSON object.
    pub arguments: String,
    /// What a server wants back with the call as it came (`extra_content`: Gemini's signatures).
    pub extra: Option<Value>,
}

/// What a model thought before it answered: kept, shown to nobody outside, never acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The field of the server's message it came in; empty where it stood in the text.
    pub field: String,
    /// The words.
    pub text: String,
}

impl Reasoning {
    /// Thinking that stood in the text of an answer; `None` without any.
    pub fn inside_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self { field: String::new(), text: text.to_owned() })
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text; may be empty.
    pub content: String,
    /// Calls of an assistant message.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<String>,
    /// The tool that a tool message comes from.
    pub tool_name: Option<String>,
    /// What the model thought before an assistant message.
    pub reasoning: Option<Reasoning>,
}

impl Message {
    /// A message of `role` with text alone. Control characters in it become visible: some servers
    /// refuse them, and no reader sees them.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        let content = content.into();
        let content = match without_controls(&content) {
            Cow::Borrowed(_) => content,
            Cow::Owned(visible) => visible,
        };
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None, tool_name: None, reasoning: None }
    }

    /// A message of the model.
    pub fn assistant(content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self { tool_calls, ..Self::text(Role::Assistant, content) }
    }

    /// The answer to `call`.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(call.id.clone()),
            tool_name: Some(call.name.clone()),
            ..Self::text(Role::Tool, content)
        }
    }

    /// The thinking that goes back in `field` with calls: the servers that have such a field think
    /// on from there, and DeepSeek refuses a turn of tools without it (case C08). With other
    /// messages it is not sent: some servers refuse it there.
    pub fn reasoning_for(&self, field: &str) -> Option<&str> {
        let reasoning = self.reasoning.as_ref().filter(|reasoning| reasoning.field == field);
        reasoning.filter(|_| !self.tool_calls.is_empty()).map(|reasoning| reasoning.text.as_str())
    }

    /// Estimated tokens of everything in it that is sent.
    pub fn estimated_tokens(&self) -> u64 {
        let extra = |call: &ToolCall| call.extra.as_ref().map_or(0, |extra| estimate_tokens(&extra.to_string()));
        let of_call = |call: &ToolCall| estimate_tokens(&call.name) + estimate_tokens(&call.arguments) + extra(call);
        let calls: u64 = self.tool_calls.iter().map(of_call).sum();
        let reasoning = self.reasoning.as_ref().and_then(|reasoning| self.reasoning_for(&reasoning.field));
        estimate_tokens(&self.content) + calls + reasoning.map_or(0, estimate_tokens)
    }
}

/// What a call of the model cost, in tokens, as the server reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens of the reply.
    pub completion_tokens: u64,
    /// Tokens of the request that the server had cached.
    pub cached_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cached_tokens += other.cached_tokens;
    }
}

/// Estimated tokens of a text (first seed, `add_message`): characters / 4, or / 2 when at least half
/// of them are Japanese (U+3000–U+30FF, U+3400–U+9FFF, U+FF00–U+FFEF); integer division.
pub fn estimate_tokens(text: &str) -> u64 {
    let (mut all, mut japanese) = (0u64, 0u64);
    for character in text.chars() {
        all += 1;
        if matches!(character, '\u{3000}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{FF00}'..='\u{FFEF}') {
            japanese += 1;
        }
    }
    if all > 0 && japanese * 2 >= all { all / 2 } else { all / 4 }
}

/// `text` in at most `tokens` estimated tokens: head and tail, with a note of what is missing between
/// them and, where given, `where_whole`.
pub fn within_tokens(text: &str, tokens: u64, where_whole: Option<&str>) -> String {
    let found = estimate_tokens(text);
    if found <= tokens {
        return text.to_owned();
    }
    let mut max_bytes = (text.len() as f64 * (tokens as f64 / found as f64)) as usize;
    loop {
        let cut = head_and_tail(text, max_bytes, where_whole);
        // The share of Japanese, which counts double, can be larger in what is left.
        if max_bytes == 0 || estimate_tokens(&cut) <= tokens {
            return cut;
        }
        max_bytes = max_bytes * 9 / 10;
    }
}

/// Checks a history as a strict server would, and says what is wrong with it.
///
/// # Errors
/// The first rule broken, as a sentence for the log.
pub fn check_history(messages: &[Message]) -> Result<(), String> {
    let mut seen_ids: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = |what: &str| Err(format!("message {index} ({}): {what}", message.role.name()));
        if !message.tool_calls.is_empty() && message.role != Role::Assistant {
            return at("only the model calls tools");
        }
        if message.role == Role::System && index > 0 {
            return at("standing orders stand first");
        }
        if message.role == Role::Tool {
            let Some(id) = message.tool_call_id.as_deref() else {
                return at("a tool result without a call id");
            };
            match open.first() {
                Some(first) if *first == id => drop(open.remove(0)),
                _ => return at(&format!("result for `{id}`, which is not the next call to answer")),
            }
            continue;
        }
        if !open.is_empty() {
            return at(&format!("call `{}` has no result", open[0]));
        }
        if message.role == Role::Assistant && message.content.is_empty() && message.tool_calls.is_empty() {
            return at("neither text nor calls");
        }
        for call in &message.tool_calls {
            if call.id.is_empty() || !seen_ids.insert(&call.id) {
                return at(&format!("call id `{}` is empty or used twice", call.id));
            }
            if !matches!(serde_json::from_str(&call.arguments), Ok(Value::Object(_))) {
                return at(&format!("arguments of `{}` are not a JSON object", call.id));
            }
            if !is_wire_name(&call.name) {
                return at(&format!("`{}` is no tool name", call.name));
            }
            open.push(&call.id);
        }
    }
    match (open.first(), messages.last().map(|message| message.role)) {
        (Some(id), _) => Err(format!("call `{id}` at the end has no result")),
        (None, Some(Role::User | Role::Tool)) => Ok(()),
        (None, last) => Err(format!("the last message must be of user or tool, not {:?}", last.map(Role::name))),
    }
}

/// Whether `name` fits `[A-Za-z0-9_-]{1,64}`, the rule of OpenAI's function names.
pub fn is_wire_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

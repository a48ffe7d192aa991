//! The model: whether it is there, how long its window is, whether it answers and calls a tool.

use std::time::Instant;

use serde_json::json;

use crate::chat::{Message, Role};
use crate::commands::figures::duration_text;
use crate::commands::models::model;
use crate::commands::setup::Setup;
use crate::config::{Config, Provider};
use crate::error::{Error, Kind, Result};
use crate::handler::{normalise, read_json_answer, rendered_for_json};
use crate::ports::{Finding, FindingState, Llm, Reply, Request, ToolSpec};
use crate::prompts::Prompt;
use crate::task::TaskId;
use crate::text::head;
use crate::tools::Toolbox;

/// Longest wait for the one answer: a model may have to be loaded first.
const ANSWER_SECONDS: u64 = 120;
const MODEL: &str = "model";
const WINDOW: &str = "model window";
const CALLS: &str = "tool calls";
const SERVER: &str = "see that the server of the model runs at the address in `llm`, and what its log says";
/// The tool it is to call.
const TOOL: &str = "report";
/// What it is to call it with.
const NUMBER: u8 = 7;
/// Of what it calls it with instead.
const MOST_SAID_BYTES: usize = 100;

/// Looks at it; tokens of its window, where they are known.
pub fn look(setup: &Setup, tell: &mut dyn FnMut(Finding)) -> Option<u64> {
    let mut llm = match model(&hurried(&setup.config)) {
        Ok(llm) => llm,
        Err(error) => return not_there(setup, &error, tell),
    };
    let configured_tokens = llm.model().context_tokens;
    if let Err(error) = llm.probe() {
        return not_there(setup, &error, tell);
    }
    let profile = llm.model().clone();
    let unchecked = llm.unchecked().map_or(String::new(), |why| format!("; {why}, so not checked"));
    tell(Finding::good(MODEL, format!("`{}` of {}{unchecked}", profile.model, profile.provider)));
    let tokens = profile.context_tokens;
    if tokens < configured_tokens {
        let finding = format!("{tokens} tokens, not {configured_tokens} as configured");
        let remedy = format!("set llm.{}.context_length to {tokens}, or give it a longer one there", profile.provider);
        tell(Finding::warning(WINDOW, finding, remedy));
    } else {
        tell(Finding::good(WINDOW, format!("{tokens} tokens, as configured")));
    }
    if setup.config.llm.provider == Provider::Replay {
        tell(Finding::skipped(CALLS, "recorded replies are not asked"));
    } else {
        tell(calls(setup, llm.as_mut()));
    }
    Some(tokens)
}

fn not_there(setup: &Setup, error: &Error, tell: &mut dyn FnMut(Finding)) -> Option<u64> {
    tell(Finding::of(MODEL, FindingState::Bad, error, remedy(&setup.config, error)));
    for name in [WINDOW, CALLS] {
        tell(Finding::skipped(name, "the model cannot be used"));
    }
    None
}

/// What to do about trouble that names nothing to do itself.
fn remedy(config: &Config, error: &Error) -> &'static str {
    let llm = &config.llm;
    if llm.provider == Provider::Replay {
        return "mend that file, or name another one in llm.replay.file";
    }
    match error.kind() {
        Kind::Later if error.sentence().contains("(429)") => {
            "wait a while; if it comes again, see what your plan at that server allows"
        }
        // It takes the connection and the key, so it is something in the request.
        Kind::Task if llm.function_calling => {
            "set llm.function_calling to false if it is the tools that it refuses, else see what it says"
        }
        Kind::Task => "see what it says: the model or the server takes no such request",
        _ => SERVER,
    }
}

/// The same model, with patience for one short answer.
fn hurried(config: &Config) -> Config {
    let mut config = config.clone();
    let llm = &mut config.llm;
    for seconds in [&mut llm.openai.timeout_seconds, &mut llm.ollama.timeout_seconds, &mut llm.lmstudio.timeout_seconds]
    {
        *seconds = if *seconds == 0 { ANSWER_SECONDS } else { ANSWER_SECONDS.min(*seconds) };
    }
    config
}

/// One real request, in the way the model will be asked.
fn calls(setup: &Setup, llm: &mut dyn Llm) -> Finding {
    let started = Instant::now();
    let reply = match ask(setup, llm) {
        Ok(reply) => reply,
        Err(error) => return Finding::of(CALLS, FindingState::Bad, &error, remedy(&setup.config, &error)),
    };
    let took = duration_text(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let natively = setup.config.llm.function_calling;
    let way = if natively { "tools" } else { "tools in JSON text (llm.function_calling is false)" };
    let called = reply.tool_calls.iter().find(|call| call.name.as_deref() == Some(TOOL));
    let wrong = match called.map(|call| normalise(call.arguments.as_ref(), &tool())) {
        Some(Ok(arguments)) if arguments["number"].as_f64() == Some(f64::from(NUMBER)) => {
            return Finding::good(CALLS, format!("it answers and calls {way}; its answer took {took}"));
        }
        Some(Ok(arguments)) => {
            let said = arguments["number"].to_string();
            format!("called the tool with {}, not with {NUMBER}", head(&said, MOST_SAID_BYTES))
        }
        Some(Err(why)) => {
            let why = why.lines().next().unwrap_or_default().to_owned();
            format!("called the tool in a way that cannot be used. {}", why.trim_end_matches('.'))
        }
        None => "did not call the tool it was told to call".to_owned(),
    };
    let remedy = if natively {
        "set llm.function_calling to false, or take a model that is made for tools"
    } else {
        "take a model that keeps to a form it is given"
    };
    Finding::warning(CALLS, format!("it answered after {took}, but {wrong}"), remedy)
}

fn tool() -> ToolSpec {
    ToolSpec {
        wire_name: TOOL.into(),
        description: "Reports a number.".into(),
        schema: json!({
            "type": "object", "properties": { "number": { "type": "integer" } }, "required": ["number"],
        }),
    }
}

fn ask(setup: &Setup, llm: &mut dyn Llm) -> Result<Reply> {
    let mut toolbox = Toolbox::new();
    toolbox.add_spec(tool());
    let orders = setup.prompts.render(Prompt::TryOut, &[("tool", TOOL), ("number", &NUMBER.to_string())]);
    let history = [Message::text(Role::System, orders.clone()), Message::text(Role::User, orders)];
    let of = |messages, tools| Request { task: TaskId::new_v4(), phase: "doctor", turn: 0, messages, tools };
    if setup.config.llm.function_calling {
        return llm.complete(&of(&history, toolbox.specs()));
    }
    let in_text = rendered_for_json(&history, &toolbox, &setup.prompts);
    let reply = llm.complete(&of(&in_text, &[]))?;
    Ok(read_json_answer(reply, &toolbox, &setup.prompts, &setup.redactor))
}

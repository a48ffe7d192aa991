//! The model: whether it is there, how long its window is, whether it answers and calls a tool; and the
//! API with settings of users.

use std::time::Instant;

use serde_json::json;

use crate::chat::{Message, Role};
use crate::commands::figures::duration_text;
use crate::commands::models::model;
use crate::commands::setup::Setup;
use crate::commands::user_config;
use crate::config::{Config, Provider};
use crate::error::{Error, Result};
use crate::handler::{read_json_answer, rendered_for_json};
use crate::ports::{Finding, FindingState, Llm, Reply, Request, ToolSpec};
use crate::prompts::Prompt;
use crate::task::TaskId;
use crate::tools::Toolbox;

/// Longest wait for the one answer: a model may have to be loaded first.
const ANSWER_SECONDS: u64 = 120;
const MODEL: &str = "model";
const WINDOW: &str = "model window";
const CALLS: &str = "tool calls";
const SERVER: &str = "see that the server of the model runs at the address in `llm`, and what its log says";
/// The tool it is to call.
const TOOL: &str = "report";

/// Looks at it; tokens of its window, where they are known.
pub fn look(setup: &Setup, tell: &mut dyn FnMut(Finding)) -> Option<u64> {
    let mut llm = match model(&hurried(&setup.config)) {
        Ok(llm) => llm,
        Err(error) => return not_there(&error, tell),
    };
    let configured_tokens = llm.model().context_tokens;
    if let Err(error) = llm.probe() {
        return not_there(&error, tell);
    }
    let profile = llm.model().clone();
    tell(Finding::good(MODEL, format!("`{}` of {}", profile.model, profile.provider)));
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

fn not_there(error: &Error, tell: &mut dyn FnMut(Finding)) -> Option<u64> {
    tell(Finding::of(MODEL, FindingState::Bad, error, SERVER));
    for name in [WINDOW, CALLS] {
        tell(Finding::skipped(name, "the model cannot be used"));
    }
    None
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
        Err(error) => return Finding::of(CALLS, FindingState::Bad, &error, SERVER),
    };
    let took = duration_text(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let natively = setup.config.llm.function_calling;
    let way = if natively { "tools" } else { "tools in JSON text (llm.function_calling is false)" };
    if reply.tool_calls.iter().any(|call| call.name.as_deref() == Some(TOOL)) {
        return Finding::good(CALLS, format!("it answers and calls {way}; its answer took {took}"));
    }
    let remedy = if natively {
        "set llm.function_calling to false, or take a model that is made for tools"
    } else {
        "take a model that keeps to a form it is given"
    };
    Finding::warning(CALLS, format!("it answered after {took}, but did not call the tool it was told to call"), remedy)
}

fn ask(setup: &Setup, llm: &mut dyn Llm) -> Result<Reply> {
    let mut toolbox = Toolbox::new();
    toolbox.add_spec(ToolSpec {
        wire_name: TOOL.into(),
        description: "Reports a number.".into(),
        schema: json!({
            "type": "object", "properties": { "number": { "type": "integer" } }, "required": ["number"],
        }),
    });
    let orders = setup.prompts.render(Prompt::TryOut, &[("tool", TOOL)]);
    let history = [Message::text(Role::System, orders.clone()), Message::text(Role::User, orders)];
    let of = |messages, tools| Request { task: TaskId::new_v4(), phase: "doctor", turn: 0, messages, tools };
    if setup.config.llm.function_calling {
        return llm.complete(&of(&history, toolbox.specs()));
    }
    let in_text = rendered_for_json(&history, &toolbox, &setup.prompts);
    let reply = llm.complete(&of(&in_text, &[]))?;
    Ok(read_json_answer(reply, &toolbox, &setup.prompts, &setup.redactor))
}

/// Whether the API answers and takes our key. It is asked for the bot, whom it need not know.
pub fn user_config_api(config: &Config, bot: Option<&str>) -> Option<Finding> {
    const NAME: &str = "user config API";
    if !config.user_config_api.enabled {
        return None;
    }
    let url = &config.user_config_api.url;
    let without = "tasks are worked on with the base settings meanwhile";
    Some(match user_config::request(config, config.task_source.name(), bot.unwrap_or("coding-agent")) {
        Err(error) => Finding::warning(NAME, format!("{}; {without}", error.sentence()), "check user_config_api.url"),
        Ok(answer) if matches!(answer.status, 200 | 404) => Finding::good(NAME, format!("`{url}` answers")),
        Ok(answer) if matches!(answer.status, 401 | 403) => {
            let finding = format!("`{url}` refuses the key ({}); {without}", answer.status);
            Finding::warning(NAME, finding, "put a valid one into USER_CONFIG_API_KEY")
        }
        Ok(answer) => {
            let finding = format!("`{url}` answers with status {}; {without}", answer.status);
            Finding::warning(NAME, finding, "look at the log of that API")
        }
    })
}

//! The API with settings of users: whether it answers, takes our key, and says what a task could use.

use serde_json::Value;

use crate::commands::setup::Setup;
use crate::commands::user_config;
use crate::error::Error;
use crate::ports::Finding;
use crate::sys::http::HttpResponse;
use crate::text::parse_json;

const NAME: &str = "user config API";

/// Looks at it where it is switched on. It is asked for the bot, whom it need not know; the answer is judged
/// as for a task of his.
pub fn look(setup: &Setup, bot: Option<&str>, window_tokens: Option<u64>) -> Option<Finding> {
    let config = &setup.config;
    if !config.user_config_api.enabled {
        return None;
    }
    let (url, user) = (&config.user_config_api.url, bot.unwrap_or("coding-agent"));
    let told = |error: &Error, remedy: &str| {
        let why = error.sentence().trim_start_matches(user_config::API).trim_start_matches([':', ' ']);
        let finding = format!("{why}; tasks are worked on with the base settings meanwhile");
        Finding::warning(NAME, finding, remedy)
    };
    let response = match user_config::request(config, config.task_source.name(), user) {
        Ok(response) => response,
        Err(error) => return Some(told(&error, "check user_config_api.url")),
    };
    if is_unknown(&response) {
        return Some(Finding::good(NAME, format!("`{url}` answers; it does not know the user `{user}`")));
    }
    let window_tokens = window_tokens.unwrap_or(u64::MAX);
    Some(match user_config::settings_in(&response, config, user, window_tokens, &setup.redactor) {
        Ok(_) => Finding::good(NAME, format!("`{url}` answers with settings for `{user}`")),
        Err(error) => told(&error, remedy(response.status)),
    })
}

/// Whether the answer is that of the API about a user it does not know. A wrong address gives 404 as well,
/// but seldom in JSON.
fn is_unknown(response: &HttpResponse) -> bool {
    response.status == 404 && parse_json(&response.body).is_ok_and(|body: Value| body.is_object())
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "put a valid one into USER_CONFIG_API_KEY",
        404 => "see that the address in user_config_api.url is right",
        500.. => "look at the log of that API",
        _ => "check user_config_api.url, and what the API answers for that user",
    }
}

//! What a model server's refusal means for us: whose fault it is, and until when. The spellings of
//! many servers are gathered here and nowhere else. Sends nothing.

use super::quota;
use crate::error::Error;
use crate::sys::clock;
use crate::sys::http::HttpResponse;
use crate::text::{parse_json, server_sentence};

/// A used-up quota without a known end is not looked at again before this.
const QUOTA_WAIT_MS: u64 = 3_600_000;

/// Ways of saying that the request does not fit the model's window: OpenAI, vLLM, SGLang, llama.cpp,
/// LM Studio, Anthropic and Gemini (through their compatible APIs), OpenRouter, Mistral, TGI, xAI, Groq,
/// Ollama, which may have dropped the one message of the user (case C15).
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "context size has been exceeded",
    "exceeds the available context size",
    "maximum context length",
    "maximum prompt length",
    "exceeds the context length",
    "exceeds context length",
    "exceed context limit",
    "context length of only",
    "reduce the length of the messages",
    "no user query found",
    "max_model_len",
    "maximum model length",
    "longer than the model's context length",
    "exceeds the context window",
    "exceed context window",
    "exceeds model context window",
    "context window exceeded",
    "context length exceeded",
    "context length is only",
    "greater than the context length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count exceeds",
    "exceeds the maximum number of tokens",
    "exceeds maximum tokens",
    "too large for model with",
    "`inputs` tokens + `max_new_tokens` must be",
];

/// OpenAI's way of saying that one request alone is more than the tokens of a minute, with status 429: no wait
/// makes it pass, a shorter request does (seen as `Request too large for gpt-4o … on tokens per min (TPM): Limit
/// 30000, Requested 31538. The input or output tokens must be reduced`).
const OVER_A_MINUTE: &[&str] = &["request too large"];

/// Ways of saying that nothing more is given, as opposed to "not so fast". Source: OpenAI's guide
/// "Error codes" (platform.openai.com/docs/guides/error-codes), and what compatible servers say.
const QUOTA: &[&str] = &[
    "exceeded your current quota",
    "daily limit",
    "per day",
    "per-day",
    "quota exceeded",
    "quota_exceeded",
    "exceeded your quota",
];

/// The same where a person has to pay for more: no time that the server names ends it.
const MONEY: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit",
    "billing hard limit",
    "insufficient balance",
    "insufficient credits",
    "insufficient_credits",
    "out of credits",
    "credit balance is too low",
];

/// Values of `error.code` and `error.type` that say the same by themselves: OpenAI's, One API's, LiteLLM's, and
/// plain ones.
const QUOTA_CODES: &[&str] = &["quota_exceeded", "budget_exceeded"];
/// Of these, what a person has to pay for.
const MONEY_CODES: &[&str] = &[
    "insufficient_quota",
    "insufficient_user_quota",
    "insufficient_credits",
    "insufficient_balance",
    "billing_hard_limit_reached",
    "billing_not_active",
];
/// Whole sentences for it without a code, by their beginning: Anthropic's (400) and OpenRouter's (403).
const QUOTA_SENTENCES: &[&str] = &["your credit balance is too low to access", "key limit exceeded"];

/// Ways of saying that this model, or this server, takes no tools: OpenAI, Azure, Ollama, vLLM, llama.cpp,
/// OpenRouter, DeepInfra, Groq, Gemini, LiteLLM, Novita.
const NO_TOOLS: &[&str] = &[
    "tools is not supported",
    "tools are not supported",
    "'tools' is not supported",
    "`tools` is not supported",
    "does not support tools",
    "does not support tool",
    "does not support function",
    "does not support parameters: tools",
    "does not support parameters: ['tools'",
    "unrecognized request argument supplied: tools",
    "unsupported parameter: 'tools'",
    "tool calling is not supported",
    "tool calling` is not supported",
    "tool calling not support",
    "function calling is not supported",
    "function calling is not enabled",
    "function calling not support",
    "tool choice requires --enable-auto-tool-choice",
    "tools param requires --jinja",
    "no endpoints found that support tool use",
];

/// Whether a refusal says that no tools are taken. Asked only where tools were sent and no reply has come
/// yet: later words may be about something else.
pub fn is_without_tools(status: u16, body: &[u8]) -> bool {
    matches!(status, 400 | 404 | 405 | 422 | 500 | 501) && says(&server_sentence(body), NO_TOOLS)
}

/// Whether a refusal says that the conversation does not fit the model's window (case C13), or what the server
/// takes in a minute. Any other rate limit never does, whatever its words.
pub fn is_overflow(status: u16, body: &[u8]) -> bool {
    match status {
        401..=403 => false,
        413 => true,
        429 => says(&server_sentence(body), OVER_A_MINUTE),
        _ => says(&String::from_utf8_lossy(body), OVERFLOW),
    }
}

/// Whether a 403 is about the content (OpenRouter: openrouter.ai/docs/api-reference/errors).
pub fn is_moderation(body: &[u8]) -> bool {
    says(&String::from_utf8_lossy(body), &["moderation", "flagged"])
}

/// Whether a refusal says that the quota or the money is used up. Prose counts only where the status speaks of
/// limits: in front of any other, the server may repeat what the request said.
pub fn is_quota(status: u16, body: &[u8]) -> bool {
    let sentence = server_sentence(body).to_lowercase();
    let is_plain = has_code(body, QUOTA_CODES)
        || has_code(body, MONEY_CODES)
        || QUOTA_SENTENCES.iter().any(|beginning| sentence.starts_with(beginning));
    match status {
        402 => true,
        429 => !is_overflow(status, body) && (is_plain || says(&sentence, QUOTA) || says(&sentence, MONEY)),
        200 | 400 | 403 => is_plain,
        _ => false,
    }
}

fn says(text: &str, spellings: &[&str]) -> bool {
    let text = text.to_lowercase();
    spellings.iter().any(|spelling| text.contains(spelling))
}

/// Whether `error.code` or `error.type` is one of `words`; Gemini sends its error in a list.
fn has_code(body: &[u8], words: &[&str]) -> bool {
    let value = parse_json(body).unwrap_or_default();
    let error = value.pointer("/0/error").or_else(|| value.get("error")).unwrap_or(&value);
    let codes = ["code", "type"].iter().filter_map(|name| error.get(name)?.as_str());
    codes.into_iter().any(|code| words.iter().any(|word| code.eq_ignore_ascii_case(word)))
}

/// A passing fault, with its end where the server names one.
pub fn passing(response: &HttpResponse, sentence: String) -> Error {
    later(response, Some(&response.body), sentence)
}

/// An answer that is none: a passing fault too, but its body may hold a model's words, which name no time.
pub fn no_answer(response: &HttpResponse, sentence: String) -> Error {
    later(response, None, sentence)
}

fn later(response: &HttpResponse, body: Option<&[u8]>, sentence: String) -> Error {
    let error = Error::later(sentence);
    match quota::end_ms(|name| response.header(name), body, clock::now_ms()) {
        Some(until_ms) => error.until(until_ms),
        None => error,
    }
}

/// The quota is used up: nothing for a quick retry, nor this task's fault.
pub fn quota(response: &HttpResponse, server: &str, words: &str) -> Error {
    let now_ms = clock::now_ms();
    let named_ms = quota::end_ms(|name| response.header(name), Some(&response.body), now_ms);
    let body = &response.body;
    let is_money = response.status == 402 || has_code(body, MONEY_CODES) || says(&server_sentence(body), MONEY);
    let until_ms = match named_ms {
        Some(until_ms) if !is_money => until_ms,
        named_ms => named_ms.unwrap_or(0).max(now_ms + QUOTA_WAIT_MS),
    };
    Error::later(format!("the quota at `{server}` is used up{words}"))
        .until(until_ms)
        .hint("look at the plan and the balance of the account")
}

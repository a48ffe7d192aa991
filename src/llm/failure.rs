//! What a model server's refusal means for us: whose fault it is, and until when. The spellings of
//! many servers are gathered here and nowhere else. Sends nothing.

use super::quota;
use crate::error::Error;
use crate::sys::clock;
use crate::sys::http::HttpResponse;

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

/// Ways of saying that nothing more is paid for, as opposed to "not so fast". Source: OpenAI's guide
/// "Error codes" (platform.openai.com/docs/guides/error-codes), and what compatible servers say.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "billing_hard_limit",
    "billing hard limit",
    "insufficient balance",
    "insufficient credits",
    "insufficient_credits",
    "out of credits",
    "credit balance is too low",
    "daily limit",
    "per day",
    "per-day",
    "quota exceeded",
    "quota_exceeded",
    "exceeded your quota",
];

/// Of these, what a person has to pay for: no time that the server names ends it.
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
    matches!(status, 400 | 404 | 405 | 422 | 500 | 501) && says(body, NO_TOOLS)
}

/// Whether a refusal says that the conversation does not fit the model's window (case C13). A rate
/// limit never does, whatever its words.
pub fn is_overflow(status: u16, body: &[u8]) -> bool {
    match status {
        401..=403 | 429 => false,
        413 => true,
        _ => says(body, OVERFLOW),
    }
}

/// Whether a 403 is about the content (OpenRouter: openrouter.ai/docs/api-reference/errors).
pub fn is_moderation(body: &[u8]) -> bool {
    says(body, &["moderation", "flagged"])
}

/// Whether a refusal says that the quota or the money is used up.
pub fn is_quota(status: u16, body: &[u8]) -> bool {
    status == 402 || (matches!(status, 200 | 400 | 403 | 429) && says(body, QUOTA))
}

fn says(body: &[u8], spellings: &[&str]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    spellings.iter().any(|spelling| text.contains(spelling))
}

/// A passing fault, with its end where the server names one.
pub fn passing(response: &HttpResponse, sentence: String) -> Error {
    let error = Error::later(sentence);
    match quota::end_ms(|name| response.header(name), Some(&response.body), clock::now_ms()) {
        Some(until_ms) => error.until(until_ms),
        None => error,
    }
}

/// An answer that is none: a passing fault too, but its body may hold a model's words, which name no time.
pub fn no_answer(response: &HttpResponse, sentence: String) -> Error {
    let error = Error::later(sentence);
    match quota::end_ms(|name| response.header(name), None, clock::now_ms()) {
        Some(until_ms) => error.until(until_ms),
        None => error,
    }
}

/// The quota is used up: nothing for a quick retry, nor this task's fault.
pub fn quota(response: &HttpResponse, server: &str, words: &str) -> Error {
    let now_ms = clock::now_ms();
    let named_ms = quota::end_ms(|name| response.header(name), Some(&response.body), now_ms);
    let is_money = response.status == 402 || says(&response.body, MONEY);
    let until_ms = match named_ms {
        Some(until_ms) if !is_money => until_ms,
        named_ms => named_ms.unwrap_or(0).max(now_ms + QUOTA_WAIT_MS),
    };
    Error::later(format!("the quota at `{server}` is used up{words}"))
        .until(until_ms)
        .hint("look at the plan and the balance of the account")
}

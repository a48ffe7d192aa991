//! What GitHub answers when something is ordered to go wrong.

use serde_json::json;

pub use super::super::fake_forge::faults::{ANY_CALL, Fault, Faults, fits};
use super::wire::Reply;

/// The answer a fault gives in place of the real one, where it gives one.
pub fn answer(fault: &Fault) -> Option<Reply> {
    let docs = "https://docs.github.com/rest";
    match fault {
        Fault::Status(status) => Some(match status {
            500.. => unicorn(*status),
            _ => {
                let message = match status {
                    401 => "Bad credentials",
                    403 => "Resource not accessible by personal access token",
                    404 => "Not Found",
                    410 => "This issue was deleted",
                    422 => "Validation Failed",
                    _ => "Refused",
                };
                Reply::json(
                    *status,
                    &json!({"message": message, "documentation_url": docs, "status": status.to_string()}),
                )
            }
        }),
        Fault::Answer(reply) => Some(reply.clone()),
        Fault::Primary { status, .. } => {
            let message = "API rate limit exceeded for user ID 1001. If you reach out to GitHub Support for help, \
                           please include the request ID and timestamp.";
            Some(Reply::json(
                *status,
                &json!({"message": message, "documentation_url": docs, "status": status.to_string()}),
            ))
        }
        Fault::Secondary { status, retry_after } => {
            let message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
            let reply = Reply::json(
                *status,
                &json!({"message": message, "documentation_url": docs, "status": status.to_string()}),
            );
            Some(match retry_after {
                Some(seconds) => reply.with("retry-after", seconds.to_string()),
                None => reply,
            })
        }
        Fault::Reset | Fault::AfterEffect502 | Fault::AfterEffectReset | Fault::Truncated => None,
    }
}

/// A page for people where JSON was expected, as front ends send it.
pub fn unicorn(status: u16) -> Reply {
    Reply::new(status, "text/html; charset=utf-8", "<!DOCTYPE html>\n<html><body><h1>Unicorn!</h1></body></html>\n")
}

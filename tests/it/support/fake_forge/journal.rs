//! What was asked and what a fake answered, one JSON object a line: kept for judges outside of these tests, where
//! one of them asks for it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::wire::{Reply, Request};

/// Names the directory of the journals; without it nothing is kept.
const DIRECTORY: &str = "CODING_AGENT_TESTS_JOURNAL";

/// Adds an exchange to the journal `name`. `prefix` is the API's own path; `ordered` says that a test ordered this
/// answer, so that it is none of the fake's.
pub fn keep(name: &str, prefix: &str, request: &Request, reply: &Reply, ordered: bool) {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let secret = |name: &str| ["authorization", "private-token"].contains(&name);
    let headers: Vec<&(String, String)> = request.headers.iter().filter(|(name, _)| !secret(name)).collect();
    let record = json!({
        "method": request.method,
        "target": request.target.strip_prefix(prefix).unwrap_or(&request.target),
        "headers": headers,
        "body": text(&request.body),
        "status": reply.status,
        "answer_headers": reply.headers,
        "answer": text(&reply.body),
        "ordered": ordered,
    });
    let mut file = OpenOptions::new().create(true).append(true).open(directory.join(format!("{name}.jsonl"))).unwrap();
    // One write, since many tests run at once.
    file.write_all(format!("{record}\n").as_bytes()).unwrap();
}

fn text(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)))
}

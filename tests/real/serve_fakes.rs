//! Runs one of the fakes of `tests/it` for clients that others wrote: says in a line of JSON where it listens, and
//! serves until its standard input ends. Fails when the fake has to complain about what it was asked.
//!
//! ```text
//! serve_fakes gitlab|openai|ollama
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the fakes are code of tests")]
#![allow(clippy::print_stdout, reason = "it is what this program is for")]
#![allow(dead_code, unused_imports, reason = "a client needs a part of what the tests need")]

/// The support of the tests, as far as fakes are made of it.
#[path = "../it/support"]
mod support {
    mod cassette;
    pub mod fake_forge;
    pub mod fake_gitlab;
    mod fake_model;
    mod fake_ollama;
    pub mod http_server;
    mod strict_chat;

    pub use cassette::{Cassette, call, calls, finish, says};
    pub use fake_model::{FakeModel, KEY, MODEL, reply};
    pub use fake_ollama::{FakeOllama, OLLAMA_MODEL, ollama_answer, ollama_call};
    pub use http_server::Answer;
    pub use strict_chat::objection;
}

use std::io::Read as _;

use serde_json::{Value, json};

use support::fake_gitlab::{DEVELOPER, FakeGitlab, GUEST, Issue, issue, request};
use support::{Answer, Cassette, FakeModel, FakeOllama, KEY, MODEL, OLLAMA_MODEL, ollama_answer, ollama_call};

const PROJECT: &str = "acme/tools/widgets.v2";

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("gitlab") => {
            let fake = gitlab();
            let url = fake.api_url().trim_end_matches("/api/v4").to_owned();
            serve(&json!({"url": url, "token": fake.token(), "bot": fake.bot(), "project": PROJECT}));
        }
        Some("openai") => {
            let fake = FakeModel::playing(&Cassette::new().runs("cat add.sh").finishes("Fixed."));
            let error =
                json!({"message": "slow down", "type": "requests", "param": null, "code": "rate_limit_exceeded"});
            fake.then([Answer::json(429, &json!({"error": error})).at_once()]);
            fake.then([support::reply(
                &json!({"content": "Hello.", "usage": {"prompt_tokens": 9, "completion_tokens": 3}}),
            )]);
            serve(&json!({"url": fake.base_url(), "token": KEY, "model": MODEL}));
        }
        Some("ollama") => {
            let fake = FakeOllama::new([
                ollama_answer(ollama_call("run", json!({"command": "cat add.sh"})), json!(42)),
                ollama_answer(json!({"content": "Fixed.", "thinking": "It subtracts."}), json!(50)),
            ]);
            serve(&json!({"url": fake.endpoint(), "model": OLLAMA_MODEL}));
        }
        _ => panic!("say which fake"),
    }
}

fn serve(place: &Value) {
    println!("{place}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A project with what a client may look for.
fn gitlab() -> FakeGitlab {
    let fake = FakeGitlab::start();
    fake.add_project(PROJECT);
    fake.set_role(PROJECT, "alice", DEVELOPER);
    fake.set_role(PROJECT, "guest", GUEST);
    for number in 1..=120 {
        let title = format!("Issue {number}");
        fake.add_issue(PROJECT, &Issue { title: &title, labels: &["coding agent", "a+b #1"], ..Issue::default() });
    }
    let first = issue(PROJECT, 1);
    fake.set_assignees(first, &["alice"]);
    fake.label(first, "a+b #1", false, "alice");
    for number in 1..=25 {
        fake.note(first, "alice", &format!("Note {number}"));
    }
    fake.internal_note(first, "alice", "For members.");
    fake.set_state(issue(PROJECT, 120), "closed");
    let number = fake.add_request(PROJECT, &Issue { title: "Draft: work", ..Issue::default() }, PROJECT, "feature/1");
    fake.remark(request(PROJECT, number), "alice", "add.sh", Some(1), "Why minus?");
    fake
}

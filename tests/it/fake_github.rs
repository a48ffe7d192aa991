//! Tests of the fake GitHub itself, with requests written byte by byte and with real git: its
//! shapes against recordings of the real one, and each of its strict rules once.

mod faults;
mod git;
mod lists;
mod pulls;
mod rules;
mod shapes;
mod writes;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::fake_github::FakeGithub;

pub const REPO: &str = "acme/widgets";

/// A fake with one organization and one private repository.
fn with_repo() -> FakeGithub {
    let fake = FakeGithub::start();
    fake.add_org("acme");
    fake.add_repo(REPO);
    fake
}

/// A request as a careful client sends it, until it is spoilt.
#[derive(Clone)]
struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

#[derive(Debug)]
struct Got {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    fn new(method: &str, target: &str) -> Self {
        let headers = [
            ("authorization", "Bearer ghp_0123456789abcdefghijklmnopqrstuvwxyz"),
            ("accept", "application/vnd.github+json"),
            ("x-github-api-version", "2022-11-28"),
            ("user-agent", "coding-agent/0.1.0"),
        ];
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Vec::new(),
        }
    }

    fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target).json(body)
    }

    fn json(self, body: &Value) -> Self {
        self.with("content-type", "application/json").raw(body.to_string().as_bytes())
    }

    fn raw(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.with("content-length", &body.len().to_string())
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    fn bytes(&self, host: &str) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: {host}\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        [text.as_bytes(), b"\r\n", &self.body].concat()
    }

    /// The answer, where a whole one comes.
    fn try_send(&self, url: &str) -> Option<Got> {
        let host = url.split("://").nth(1).unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(&self.bytes(host)).unwrap();
        read(&mut BufReader::new(stream))
    }

    #[track_caller]
    fn send(&self, fake: &FakeGithub) -> Got {
        self.try_send(&fake.api_url()).expect("an answer")
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<Got> {
    let mut line = || {
        let mut text = String::new();
        stream.read_line(&mut text).ok().filter(|read| *read > 0)?;
        Some(text.trim_end().to_owned())
    };
    let status = line()?.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let text = line()?;
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(": ")?;
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, text)| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Got { status, headers, body })
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// The URL of a relation of the Link header.
    fn link(&self, relation: &str) -> Option<String> {
        let wanted = format!("rel=\"{relation}\"");
        let part = self.header("link")?.split(", ").find(|part| part.ends_with(&wanted))?;
        Some(part.split(['<', '>']).nth(1)?.to_owned())
    }
}

/// Path and query of a URL of the API.
fn target(fake: &FakeGithub, url: &str) -> String {
    let root = fake.api_url();
    let prefix = root.split("://").nth(1).and_then(|rest| rest.find('/').map(|at| &rest[at..])).unwrap_or_default();
    format!("{prefix}{}", url.strip_prefix(&root).unwrap_or_else(|| panic!("{url} is not below {root}")))
}

/// The one thing the fake complained about.
#[track_caller]
fn only_violation(fake: &FakeGithub) -> String {
    let mut violations = fake.take_violations();
    assert_eq!(violations.len(), 1, "{violations:?}");
    violations.remove(0)
}

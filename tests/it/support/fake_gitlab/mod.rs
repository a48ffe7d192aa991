//! A GitLab for tests on 127.0.0.1: stateful, strict about what it is asked, with real git behind it,
//! people beside it and failures on order. A request that GitLab would not understand, or that nobody
//! should send, is recorded as a violation and fails the test when the fake is dropped.

#![allow(dead_code, reason = "a toolbox: no single test uses all of it")]

mod door;
#[cfg(test)]
pub mod fixture;
mod git_door;
mod items;
mod json;
mod notes;
mod page;
mod people;
mod projects;
mod rate;
mod state;
mod table;

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};

use super::fake_forge::faults::{ANY_CALL, Faults, fits};
use super::fake_forge::server::{Act, Server, Service, lock};
use super::fake_forge::wire::{Host, Reply, Request};
use super::fake_forge::{git, journal};

pub use super::fake_forge::faults::Fault;
pub use people::Issue;
pub use state::{DEVELOPER, GUEST, Kind, Logged, REPORTER};

use state::Hub;
use table::Call;

/// Which item.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub path: &'a str,
    pub kind: Kind,
    pub iid: u64,
}

/// An issue by the path of its project.
pub fn issue(path: &str, iid: u64) -> Place<'_> {
    Place { path, kind: Kind::Issue, iid }
}

/// A merge request by the path of its project.
pub fn request(path: &str, iid: u64) -> Place<'_> {
    Place { path, kind: Kind::Request, iid }
}

/// A server of its own for one test.
pub struct FakeGitlab {
    shared: Arc<Shared>,
    server: Option<Server>,
    _git: tempfile::TempDir,
}

struct Shared {
    hub: Mutex<Hub>,
}

impl Service for Shared {
    fn exchange(&self, request: Request) -> Act {
        exchange(self, request)
    }

    fn violate(&self, text: String) {
        lock(&self.hub).violate(text);
    }
}

impl FakeGitlab {
    /// Starts with one user (the bot), one token and no project.
    pub fn start() -> Self {
        let git = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hub = Hub {
            root: format!("http://{}", listener.local_addr().unwrap()),
            git_root: git.path().to_owned(),
            now: chrono::DateTime::parse_from_rfc3339("2024-12-07T03:00:00Z").unwrap().timestamp(),
            next_id: 1000,
            users: Vec::new(),
            tokens: HashMap::new(),
            projects: Vec::new(),
            renames: Vec::new(),
            blank_notes: false,
            link_root: None,
            hides_totals: false,
            faults: Faults::default(),
            rate: rate::Rate::new(),
            has_tags: true,
            log: Vec::new(),
            violations: Vec::new(),
        };
        let shared = Arc::new(Shared { hub: Mutex::new(hub) });
        let server = Server::start(vec![(Host::Api, listener)], Arc::clone(&shared) as Arc<dyn Service>);
        let fake = Self { shared, server: Some(server), _git: git };
        fake.add_token(fake.token(), fake.bot(), false);
        fake
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        lock(&self.shared.hub)
    }

    /// Value of `gitlab.api_url`.
    pub fn api_url(&self) -> String {
        format!("{}/api/v4", self.hub().root)
    }

    pub fn token(&self) -> &'static str {
        "glpat-0123456789abcdefghij"
    }

    pub fn bot(&self) -> &'static str {
        "coding-agent-bot"
    }

    /// The next request that fits `METHOD path` (with `*`) fails like this.
    pub fn fail_next(&self, pattern: &str, fault: Fault) {
        self.hub().faults.add(pattern, 0, 1, fault);
    }

    /// The n-th request to the API from now on (the first is 1) fails like this.
    pub fn fail_nth(&self, n: u64, fault: Fault) {
        self.hub().faults.add(ANY_CALL, n - 1, 1, fault);
    }

    /// Failures that were ordered once and never met.
    pub fn faults_left(&self) -> usize {
        self.hub().faults.pending()
    }

    /// After this many requests the limit is used up, until `reset` (seconds since the epoch).
    pub fn set_budget(&self, requests: Option<u64>, reset: i64) {
        let mut hub = self.hub();
        (hub.rate.budget, hub.rate.reset) = (requests, Some(reset));
    }

    /// From now on answers carry no entity tag.
    pub fn drop_tags(&self) {
        self.hub().has_tags = false;
    }

    /// All requests so far, oldest first.
    pub fn log(&self) -> Vec<Logged> {
        self.hub().log.clone()
    }

    pub fn clear_log(&self) {
        self.hub().log.clear();
    }

    /// `METHOD target` of the requests to the API so far.
    pub fn calls(&self) -> Vec<String> {
        self.hub().log.iter().filter(|one| one.is_api).map(|one| one.request.line()).collect()
    }

    /// How many requests to the API fit `METHOD path`.
    pub fn count(&self, pattern: &str) -> usize {
        let hub = self.hub();
        let fitting = hub.log.iter().filter(|one| one.is_api);
        fitting.filter(|one| fits(pattern, &format!("{} {}", one.request.method, one.request.path))).count()
    }

    /// What was asked that should not have been; forgotten with this.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.hub().violations)
    }

    #[track_caller]
    pub fn assert_no_violations(&self) {
        let violations = self.take_violations();
        assert!(violations.is_empty(), "GitLab would not have understood this:\n{}", violations.join("\n"));
    }
}

impl Drop for FakeGitlab {
    fn drop(&mut self) {
        drop(self.server.take());
        if !std::thread::panicking() {
            self.assert_no_violations();
        }
    }
}

fn exchange(shared: &Shared, mut request: Request) -> Act {
    let mut hub = lock(&shared.hub);
    let at = hub.log.len();
    let is_api = request.path.starts_with("/api/v4/");
    request.host = if is_api { Host::Api } else { Host::Web };
    hub.log.push(Logged { request: request.clone(), is_api, status: None });
    let limited = if is_api { hub.rate.spend() } else { None };
    let fault = limited.or_else(|| hub.faults.take(&request));
    let reply = match fault.as_ref().and_then(failure) {
        Some(reply) => Some(reply),
        None if matches!(fault, Some(Fault::Reset)) => None,
        None if is_api => {
            let reply = api(&mut hub, &request);
            Some(if hub.has_tags { page::tag(&request, reply) } else { reply })
        }
        None => {
            let root = hub.git_root.clone();
            let pass = git_door::admit(&mut hub, &request);
            drop(hub);
            let reply = pass.map_or_else(|refusal| refusal, |pass| git::serve(&root, &pass, &request));
            hub = lock(&shared.hub);
            Some(reply)
        }
    };
    let Some(mut reply) = reply else { return Act::Cut(Vec::new()) };
    if matches!(fault, Some(Fault::AfterEffectReset)) {
        return Act::Cut(Vec::new());
    }
    if matches!(fault, Some(Fault::AfterEffect502)) {
        reply = Reply::new(502, "text/html", "<!DOCTYPE html>\n<html><body>GitLab is not responding</body></html>\n");
    }
    if is_api {
        reply = hub.rate.mark(reply, hub.now, fault.as_ref());
    }
    if let Some(logged) = hub.log.get_mut(at) {
        logged.status = Some(reply.status);
    }
    if is_api {
        journal::keep("gitlab", "/api/v4", &request, &reply, fault.is_some());
    }
    let bytes = reply.encode();
    if matches!(fault, Some(Fault::Truncated)) {
        let body = reply.body.len();
        return Act::Cut(bytes[..bytes.len() - body.div_ceil(2)].to_vec());
    }
    Act::Send(bytes)
}

/// The answer a fault gives in place of the real one, where it gives one.
fn failure(fault: &Fault) -> Option<Reply> {
    let later = |status: u16| Reply::new(status, "text/plain", "Retry later\n");
    match fault {
        Fault::Status(status) => Some(match status {
            401 => door::refuse(401, "401 Unauthorized"),
            403 => door::refuse(403, "403 Forbidden"),
            404 => door::refuse(404, "404 Not Found"),
            500.. => door::refuse(*status, "500 Internal Server Error"),
            _ => door::refuse(*status, "Refused"),
        }),
        Fault::Answer(reply) => Some(reply.clone()),
        // The headers come with every answer.
        Fault::Primary { status, .. } => Some(later(*status)),
        Fault::Secondary { status, retry_after } => Some(match retry_after {
            Some(seconds) => later(*status).with("retry-after", seconds.to_string()),
            None => later(*status),
        }),
        Fault::Reset | Fault::AfterEffect502 | Fault::AfterEffectReset | Fault::Truncated => None,
    }
}

fn api(hub: &mut Hub, request: &Request) -> Reply {
    if request.method == "GET" && request.path == "/api/v4/" {
        // Nothing is there, and everybody may ask.
        return door::refuse(404, "404 Not Found");
    }
    let reply = door::enter(hub, request).and_then(|asked| match asked.row.call {
        Call::Items => items::list(hub, &asked),
        Call::Item => items::one(hub, &asked),
        Call::PutItem => items::put(hub, &asked),
        Call::CreateRequest => items::create(hub, &asked),
        Call::Notes | Call::Discussions => notes::list(hub, &asked),
        Call::PostNote => notes::post(hub, &asked),
        Call::Note | Call::PutNote => notes::one(hub, &asked),
        Call::LabelEvents => notes::events(hub, &asked),
        _ => projects::answer(hub, &asked),
    });
    reply.unwrap_or_else(|refusal| refusal)
}

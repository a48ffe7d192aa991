//! A GitHub for tests on 127.0.0.1: stateful, strict about what it is asked, with real git behind
//! it, people beside it and failures on order. A request that GitHub would not understand, or that
//! nobody should send, is recorded as a violation and fails the test when the fake is dropped.
//!
//! ```ignore
//! let fake = FakeGithub::start();
//! fake.add_repo("acme/widgets");
//! let n = fake.add_issue("acme/widgets", &Issue { labels: &["coding agent"], ..Issue::default() });
//! fake.fail_next("POST */comments", Fault::AfterEffect502);
//! // … run the program against fake.api_url() with fake.token() …
//! assert_eq!(fake.comments("acme/widgets", n).len(), 1);
//! ```

#![allow(dead_code, reason = "a toolbox: no single test uses all of it")]

mod door;
mod faults;
pub mod fixture;
mod git_door;
mod issues;
mod json;
mod look;
mod page;
mod people;
mod pull_json;
mod pulls;
mod rate;
mod search;
mod state;
mod table;

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};

pub use super::fake_forge::git::unbase64;
pub use super::fake_forge::wire::{Host, Reply, Request};
pub use faults::{Fault, fits};
pub use json::segment;
pub use people::Issue;
pub use search::terms;
pub use state::{Gone, Lock, Logged, Permission};

use super::fake_forge::server::{Act, Server, Service, lock};
use super::fake_forge::{git, journal, wire};
use state::Hub;
use table::Call;

/// A server of its own for one test.
pub struct FakeGithub {
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

impl FakeGithub {
    /// Starts with one user (the bot), one token and no repository.
    pub fn start() -> Self {
        Self::with_prefix("")
    }

    /// The same as an Enterprise Server has it: the API below `/api/v3`.
    pub fn enterprise() -> Self {
        Self::with_prefix("/api/v3")
    }

    fn with_prefix(prefix: &str) -> Self {
        let git = tempfile::tempdir().unwrap();
        let listeners = [Host::Api, Host::Web].map(|host| (host, TcpListener::bind("127.0.0.1:0").unwrap()));
        let addresses: Vec<String> =
            listeners.iter().map(|(_, listener)| listener.local_addr().unwrap().to_string()).collect();
        let start = chrono::DateTime::parse_from_rfc3339("2024-12-07T03:00:00Z").unwrap().timestamp();
        let hub = Hub {
            api: format!("http://{}{prefix}", addresses[0]),
            web: format!("http://{}", addresses[1]),
            git_root: git.path().to_owned(),
            now: start,
            next_id: 1000,
            users: Vec::new(),
            tokens: HashMap::new(),
            repos: Vec::new(),
            renames: Vec::new(),
            stale_index: None,
            incomplete_search: false,
            blank_comments: false,
            faults: faults::Faults::default(),
            rate: rate::Rate::new(start),
            log: Vec::new(),
            violations: Vec::new(),
        };
        let shared = Arc::new(Shared { hub: Mutex::new(hub) });
        let server = Server::start(listeners.into(), Arc::clone(&shared) as Arc<dyn Service>);
        let fake = Self { shared, server: Some(server), _git: git };
        fake.add_token(fake.token(), fake.bot(), false);
        fake
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        lock(&self.shared.hub)
    }

    /// Value of `github.api_url`.
    pub fn api_url(&self) -> String {
        self.hub().api.clone()
    }

    /// Where pages and git live: another host than the API's.
    pub fn web_url(&self) -> String {
        self.hub().web.clone()
    }

    pub fn token(&self) -> &'static str {
        "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
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
        self.hub().faults.add(faults::ANY_CALL, n - 1, 1, fault);
    }

    /// Every request that fits fails until `heal`.
    pub fn fail_always(&self, pattern: &str, fault: Fault) {
        self.hub().faults.add(pattern, 0, u64::MAX, fault);
    }

    pub fn heal(&self) {
        self.hub().faults.clear();
    }

    /// Failures that were ordered once and never met.
    pub fn faults_left(&self) -> usize {
        self.hub().faults.pending()
    }

    /// After this many requests the hourly limit is used up, until `reset` (seconds since the epoch).
    pub fn set_budget(&self, requests: Option<u64>, status: u16, reset: i64) {
        let mut hub = self.hub();
        (hub.rate.budget, hub.rate.status, hub.rate.reset) = (requests, status, reset);
    }

    pub fn set_time(&self, seconds: i64) {
        self.hub().now = seconds;
    }

    pub fn set_incomplete_search(&self, yes: bool) {
        self.hub().incomplete_search = yes;
    }

    /// Lets comments without text through, which GitHub itself refuses.
    pub fn allow_blank_comments(&self) {
        self.hub().blank_comments = true;
    }

    /// All requests so far, oldest first, to both hosts.
    pub fn log(&self) -> Vec<Logged> {
        self.hub().log.clone()
    }

    /// `METHOD target` of the requests to the API so far.
    pub fn calls(&self) -> Vec<String> {
        let hub = self.hub();
        hub.log.iter().filter(|one| one.request.host == Host::Api).map(|one| one.request.line()).collect()
    }

    /// How many requests to the API fit `METHOD path`.
    pub fn count(&self, pattern: &str) -> usize {
        let hub = self.hub();
        let fitting = hub.log.iter().filter(|one| one.request.host == Host::Api);
        fitting.filter(|one| fits(pattern, &format!("{} {}", one.request.method, one.request.path))).count()
    }

    pub fn clear_log(&self) {
        self.hub().log.clear();
    }

    /// What was asked that should not have been; forgotten with this.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.hub().violations)
    }

    #[track_caller]
    pub fn assert_no_violations(&self) {
        let violations = self.take_violations();
        assert!(violations.is_empty(), "GitHub would not have understood this:\n{}", violations.join("\n"));
    }
}

impl Drop for FakeGithub {
    fn drop(&mut self) {
        drop(self.server.take());
        if !std::thread::panicking() {
            self.assert_no_violations();
        }
    }
}

fn exchange(shared: &Shared, request: Request) -> Act {
    let mut hub = lock(&shared.hub);
    let at = hub.log.len();
    hub.log.push(Logged { request: request.clone(), status: None });
    let search = request.path.contains("/search/");
    let limited = if request.host == Host::Api { hub.rate.spend(search) } else { None };
    let fault = limited.or_else(|| hub.faults.take(&request));
    let reply = match fault.as_ref().and_then(faults::answer) {
        Some(reply) => Some(reply),
        None if matches!(fault, Some(Fault::Reset)) => None,
        None if request.host == Host::Api => Some(api(&mut hub, &request)),
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
        reply = faults::unicorn(502);
    }
    if request.host == Host::Api {
        if reply.status == 304 {
            hub.rate.refund(search);
        }
        reply = hub.rate.mark(reply, search, fault.as_ref());
        let media = ("x-github-media-type", "github.v3; format=json");
        let id = format!("FA4E:{at:X}");
        let secret = request.header("authorization").and_then(|header| header.strip_prefix("Bearer "));
        if let Some(token) = secret.and_then(|secret| hub.tokens.get(secret)) {
            let told = [("x-oauth-scopes", &token.scopes), ("github-authentication-token-expiration", &token.expires)];
            for (name, value) in told {
                reply = value.iter().fold(reply, |reply, value| reply.with(name, value.clone()));
            }
        }
        // The clock by which tests name resets; that of the items stands still years ago.
        let date = chrono::Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        reply = reply.with("date", date).with(media.0, media.1).with("x-github-request-id", id);
        let prefix = hub.api.strip_prefix(&format!("http://{}", request.header("host").unwrap_or_default()));
        journal::keep("github", prefix.unwrap_or_default(), &request, &reply, fault.is_some());
    }
    if let Some(logged) = hub.log.get_mut(at) {
        logged.status = Some(reply.status);
    }
    let bytes = reply.encode();
    if matches!(fault, Some(Fault::Truncated)) {
        let body = reply.body.len();
        return Act::Cut(bytes[..bytes.len() - body.div_ceil(2)].to_vec());
    }
    Act::Send(bytes)
}

fn api(hub: &mut Hub, request: &Request) -> Reply {
    if request.method == "GET"
        && format!("http://{}{}", request.header("host").unwrap_or_default(), request.target) == format!("{}/", hub.api)
    {
        // The root, open to everybody (docs: "GitHub API Root").
        return Reply::json(200, &serde_json::json!({"current_user_url": format!("{}/user", hub.api)}));
    }
    let reply = door::enter(hub, request).and_then(|asked| match asked.row.call {
        Call::Search => search::answer(hub, &asked),
        Call::Pulls
        | Call::Pull
        | Call::CreatePull
        | Call::PatchPull
        | Call::Reviews
        | Call::ReviewComments
        | Call::RequestReviewers
        | Call::GetRef
        | Call::CreateRef
        | Call::Branches
        | Call::Branch => pulls::answer(hub, &asked),
        _ => issues::answer(hub, &asked),
    });
    page::tag(request, reply.unwrap_or_else(|refusal| refusal))
}

//! The GitHub adapter against answers that GitHub really gave (`tests/fixtures/octokit`, from the npm
//! package `@octokit/fixtures`, MIT), and over TLS with an authority of our own, git included.

use std::sync::{Arc, Mutex};

use coding_agent::budget::Account;
use coding_agent::config::Secret;
use coding_agent::error::Kind;
use coding_agent::forge::{ForgeSettings, Github};
use coding_agent::ports::{Forge, ItemState};
use coding_agent::sys::http::{HttpClient, HttpSettings};
use coding_agent::task::{Labels, TaskKey};
use serde_json::{Value, json};

use crate::support::fake_github::FakeGithub;
use crate::support::http_server::{Answer, HttpServer, Received};
use crate::support::{Authority, Cassette, World};

/// A server that plays a recording: the answer whose method and path begin like the request.
fn playing(recording: &str) -> (HttpServer, Arc<Mutex<Vec<String>>>) {
    let recorded: Vec<Value> = serde_json::from_str(recording).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let respond = move |request: &Received| {
        log.lock().unwrap().push(format!("{} {}", request.method, request.path));
        if request.path == "/user" {
            return Answer::json(200, &json!({ "login": "bot" }));
        }
        let host = request.header("host").unwrap();
        let plain = |path: &str| path.split('?').next().unwrap().to_owned();
        let same = |one: &&Value| {
            let path = one["path"].as_str().unwrap();
            // A page is asked for word by word; the first request of a list has our own parameters.
            let is_page = path.contains("&page=");
            one["method"] == request.method.as_str()
                && if is_page { path == request.path } else { plain(path) == plain(&request.path) }
        };
        let Some(found) = recorded.iter().find(same) else {
            return Answer::json(404, &json!({ "message": "Not Found" }));
        };
        let mut answer = Answer::json(u16::try_from(found["status"].as_u64().unwrap()).unwrap(), &found["response"]);
        for name in ["link", "location"] {
            if let Some(value) = found["headers"][name].as_str() {
                answer = answer.header(name, &value.replace("https://api.github.com", &format!("http://{host}")));
            }
        }
        answer
    };
    (HttpServer::start(None, Arc::new(respond)), asked)
}

fn adapter(server: &HttpServer, repository: &str, query: &str) -> Github {
    let settings = ForgeSettings {
        api_url: format!("http://{}", server.address),
        token: Secret::new("ghp_recorded"),
        bot_name: None,
        labels: Labels::default(),
        repositories: vec![repository.to_owned()],
        assignee: None,
        query: query.to_owned(),
    };
    let client = HttpClient::new(HttpSettings::default(), false).unwrap();
    Github::connect(settings, client, Account::kept_nowhere()).unwrap()
}

fn numbers(keys: &[TaskKey]) -> Vec<String> {
    keys.iter().map(TaskKey::identifier).collect()
}

#[test]
fn c25_recorded_pages_are_followed_to_addresses_by_id() {
    let (server, asked) = playing(include_str!("../fixtures/octokit/paginate-issues.json"));
    let forge = adapter(&server, "octokit-fixture-org/paginate-issues", "");
    let found = forge.candidates().unwrap();
    assert_eq!(numbers(&found.keys), ["13", "10", "7", "4", "1"]);
    assert_eq!(found.keys[0].repository(), "octokit-fixture-org/paginate-issues", "not the id of the page's address");
    assert_eq!(asked.lock().unwrap().len(), 6, "who we are, and five pages");
}

#[test]
fn a_recorded_search_is_understood() {
    let (server, _) = playing(include_str!("../fixtures/octokit/search-issues.json"));
    let found = adapter(&server, "octokit-fixture-org/search-issues", "sesame").candidates().unwrap();
    assert!(!found.keys.is_empty());
    assert!(found.keys.iter().all(|key| key.repository() == "octokit-fixture-org/search-issues"));
}

#[test]
fn a_recorded_issue_and_a_recorded_refusal_are_understood() {
    let issue: Vec<Value> = serde_json::from_str(include_str!("../fixtures/octokit/add-labels-to-issue.json")).unwrap();
    let body = issue[0]["response"].clone();
    let recording = json!([
        { "method": "GET", "path": "/repos/octokit-fixture-org/add-labels-to-issue/issues/1", "status": 200, "headers": {}, "response": body },
        { "method": "POST", "path": "/repos/octokit-fixture-org/add-labels-to-issue/issues/1/labels", "status": 200, "headers": {}, "response": issue[1]["response"] },
    ]);
    let (server, _) = playing(&recording.to_string());
    let forge = adapter(&server, "octokit-fixture-org/add-labels-to-issue", "");
    let (owner, repo) = ("octokit-fixture-org".to_owned(), "add-labels-to-issue".to_owned());
    let key = TaskKey::GithubIssue { owner, repo, number: 1 };
    let item = forge.item(&key).unwrap().unwrap();
    assert_eq!(
        (item.key.clone(), item.state, item.title.as_str()),
        (key.clone(), ItemState::Open, body["title"].as_str().unwrap())
    );
    assert!(!item.author.is_empty());
    forge.add_label(&key, "Foo").unwrap();
    let refused = forge.remove_label(&key, "Foo").map_err(|error| error.kind());
    assert_eq!(refused, Ok(()), "404, and the issue does not show the label");
}

#[test]
fn a_recorded_rename_is_followed() {
    let (server, asked) = playing(include_str!("../fixtures/octokit/rename-repository.json"));
    let forge = adapter(&server, "octokit-fixture-org/rename-repository", "");
    let (owner, repo) = ("octokit-fixture-org".to_owned(), "rename-repository".to_owned());
    let found = forge.repository(&TaskKey::GithubIssue { owner, repo, number: 1 });
    // The recording's token may or may not push; the address is the new one either way.
    match found {
        Ok(source) => assert!(source.url.contains("rename-repository-newname"), "{source:?}"),
        Err(error) => assert_eq!(error.kind(), Kind::Task, "{error:#}"),
    }
    assert_eq!(asked.lock().unwrap().last().unwrap(), "GET /repositories/1000");
}

/// A server with TLS in front of `upstream`.
fn behind_tls(authority: &Authority, upstream: String) -> HttpServer {
    let respond = move |request: &Received| {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let mut forwarded =
            ureq::http::Request::builder().method(request.method.as_str()).uri(format!("{upstream}{}", request.path));
        for (name, value) in &request.headers {
            if !["host", "connection", "content-length", "transfer-encoding", "accept-encoding"]
                .contains(&name.as_str())
            {
                forwarded = forwarded.header(name, value);
            }
        }
        let mut answer = agent.run(forwarded.body(request.body.clone()).unwrap()).unwrap();
        let kind =
            answer.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("text/plain").to_owned();
        let status = answer.status().as_u16();
        Answer::raw(status, answer.body_mut().read_to_vec().unwrap()).header("content-type", &kind)
    };
    HttpServer::start(Some(authority.server()), Arc::new(respond))
}

#[test]
fn the_api_over_tls_with_an_authority_of_our_own() {
    let fake = FakeGithub::start();
    let authority = Authority::new();
    let server = behind_tls(&authority, fake.api_url());
    let mut world = World::new();
    world.write("ca.pem", &authority.pem);
    world.replies(&Cassette::new().finishes("x"));
    world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", fake.token());
    let config = format!(
        "task_source: github\ngithub: {{api_url: \"https://localhost:{}\", repositories: []}}\nllm: {{provider: replay, replay: {{file: replies.jsonl}}}}\n",
        server.address.port()
    );
    world.write("config.yaml", &config);
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("certificate is not trusted"), "{ended:?}");
    world.write("config.yaml", &format!("{config}ca_file: ca.pem\n"));
    world.run(&[]).expect(0);
}

#[test]
fn git_over_tls_with_an_authority_of_our_own() {
    let fake = FakeGithub::start();
    fake.add_repo("acme/widgets");
    fake.change_repo("acme/widgets", |repo| repo.private = false);
    let authority = Authority::new();
    let server = behind_tls(&authority, fake.web_url());
    let world = World::with_task(&Cassette::new().creates("fixed.txt", "x\n").finishes("Fixed."));
    world.write("ca.pem", &authority.pem);
    let url = format!("https://localhost:{}/acme/widgets.git", server.address.port());
    let text = world.read("tasks/fix.md").replace("../widgets", &url);
    world.write("tasks/fix.md", &text);
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("the certificate of the remote is not trusted"), "{ended:?}");
    world.configure("ca_file: ca.pem");
    // Cloned and worked on; a push without a token is refused, which is another matter.
    world.run(&[]).expect(1);
    world.assert_settled();
    assert_eq!(world.query("SELECT count(*) FROM llm_calls"), ["2"]);
    assert!(world.comments("fix").contains("the push was refused"), "{}", world.comments("fix"));
    assert!(world.context("completed").join("work.patch").exists());
}

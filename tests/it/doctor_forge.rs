//! `doctor` and a forge that is not where the configuration says it is.

use std::sync::Arc;

use crate::doctor::Report;
use crate::support::http_server::HttpServer;
use crate::support::{Answer, Cassette, World};

const PAGE: &str = "<!DOCTYPE html><html><body>Welcome</body></html>";

/// A world whose forge `name` is this server.
fn world(name: &str, server: &HttpServer) -> World {
    let mut world = World::new();
    world.replies(&Cassette::new());
    world.write(
        "config.yaml",
        &format!(
            "task_source: {name}\n{name}: {{api_url: 'http://{}', bot_name: our-bot, repositories: [acme/widgets]}}\n\
             llm: {{provider: replay, replay: {{file: replies.jsonl}}}}\ncommand_executor: {{backend: host}}\n",
            server.address
        ),
    );
    world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_0123456789abcdef");
    world.set_env("GITLAB_PERSONAL_ACCESS_TOKEN", "glpat-0123456789abcdef");
    world.set_env("NO_PROXY", "127.0.0.1");
    world
}

#[test]
fn a_wrong_address_of_the_api_is_called_that() {
    for (name, product, shape) in
        [("github", "GitHub", "https://HOST/api/v3"), ("gitlab", "GitLab", "https://HOST/api/v4")]
    {
        for (status, body) in [(404, PAGE), (200, PAGE), (404, r#"{"message":"Not Found"}"#)] {
            let server = HttpServer::start(None, Arc::new(move |_| Answer::raw(status, body)));
            let world = world(name, &server);
            let report = Report::of(&world, 78);
            if body == PAGE {
                report.says(name, "warning", "not like an API", &format!("{name}.api_url"));
            } else {
                report.is(name, "good");
            }
            let sentence = format!("is not the address of {product}'s API");
            report.says(&format!("account at {name}"), "bad", &sentence, shape);
            report.is("items in work", "skipped");
            let ended = world.run(&[]).expect(78);
            assert!(ended.stderr.contains(&sentence) && ended.stderr.contains(shape), "{ended:?}");
        }
    }
}

#[test]
fn a_clock_that_is_wrong_is_told() {
    let there = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let date = there.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let server = HttpServer::start(None, Arc::new(move |_| Answer::raw(404, "{}").header("date", &date)));
    let report = Report::of(&world("github", &server), 78);
    report.says("clock", "warning", "it differs by 3", "time service");
}

#[test]
fn items_in_work_are_not_good_when_their_list_fails() {
    let answer = |path: &str| match path {
        "/user" => Answer::raw(200, r#"{"login":"our-bot","id":1}"#),
        "/" => Answer::raw(200, "{}"),
        _ => Answer::raw(404, r#"{"message":"Not Found"}"#),
    };
    let server = HttpServer::start(None, Arc::new(move |request| answer(&request.path)));
    let report = Report::of(&world("github", &server), 78);
    report.says("items that wait", "bad", "Not Found", "");
    report.says("items in work", "warning", "Not Found", "");
}

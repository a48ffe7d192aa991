//! Lets the checks of this directory ask a forge through our own adapter: one JSON object a line on standard input
//! says what to ask, one a line on standard output says what came of it.
//!
//! ```text
//! read_forge github|gitlab <URL of the API>
//! {"do": "item", "owner": "acme", "repo": "widgets", "number": 7}
//! {"do": "comments", "project": 42, "number": 7, "change": true, "below": "/a/path/below/the/URL"}
//! {"do": "candidates", "repositories": ["acme/widgets"]}
//! ```

#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::io::BufRead as _;
use std::process::ExitCode;

use coding_agent::budget::Account;
use coding_agent::config::Secret;
use coding_agent::error::{Error, Result};
use coding_agent::forge::{ForgeSettings, Github, Gitlab};
use coding_agent::ports::{Forge, NewPullRequest};
use coding_agent::sys::http::{HttpClient, HttpSettings};
use coding_agent::task::{Labels, TaskKey};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, url] = arguments.as_slice() else { return ExitCode::from(64) };
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let Ok(asked) = serde_json::from_str::<Value>(&line) else { return ExitCode::from(64) };
        let done = connect(kind, url, &asked).and_then(|forge| ask(forge.as_ref(), &asked));
        let told = match done {
            Ok(value) => json!({"asked": asked, "good": value}),
            Err(error) => json!({"asked": asked, "error": error.sentence(), "cause": format!("{error:#}")}),
        };
        println!("{told}");
    }
    ExitCode::SUCCESS
}

fn connect(kind: &str, url: &str, asked: &Value) -> Result<Box<dyn Forge>> {
    let client = HttpClient::new(HttpSettings { ca_file: None, timeout: None }, false)?;
    let (api_url, token) = (format!("{url}{}", text(asked, "below")), Secret::new("glpat-0123456789abcdefghij"));
    let (bot_name, labels, assignee, account) = (None, Labels::default(), None, Account::kept_nowhere());
    let names = asked["repositories"].as_array().map(Vec::as_slice).unwrap_or_default();
    let repositories = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let query = text(asked, "query");
    let settings = ForgeSettings { api_url, token, bot_name, labels, repositories, assignee, query };
    Ok(if kind == "github" {
        Box::new(Github::connect(settings, client, account)?)
    } else {
        Box::new(Gitlab::connect(settings, client, account)?)
    })
}

fn text(asked: &Value, name: &str) -> String {
    asked[name].as_str().unwrap_or_default().to_owned()
}

fn key(asked: &Value) -> TaskKey {
    let number = asked["number"].as_u64().unwrap_or_default();
    let (owner, repo, project_path) = (text(asked, "owner"), text(asked, "repo"), text(asked, "path"));
    match (asked["project"].as_u64(), asked["change"] == true) {
        (Some(project_id), false) => TaskKey::GitlabIssue { project_id, project_path, issue_iid: number },
        (Some(project_id), true) => TaskKey::GitlabMergeRequest { project_id, project_path, mr_iid: number },
        (None, false) => TaskKey::GithubIssue { owner, repo, number },
        (None, true) => TaskKey::GithubPullRequest { owner, repo, number },
    }
}

/// What came of it, in so few words that a script can tell whether it makes sense.
fn ask(forge: &dyn Forge, asked: &Value) -> Result<Value> {
    let key = key(asked);
    let (user, branch, label, body) =
        (text(asked, "user"), text(asked, "branch"), text(asked, "label"), text(asked, "body"));
    Ok(match text(asked, "do").as_str() {
        "connect" => json!(forge.bot_login()),
        "candidates" => {
            let found = forge.candidates()?;
            let faults: Vec<&str> = found.faults.iter().map(Error::sentence).collect();
            json!({"keys": found.keys.iter().map(ToString::to_string).collect::<Vec<_>>(), "faults": faults})
        }
        "item" => forge.item(&key)?.map_or(Value::Null, |item| {
            json!({"key": item.key.to_string(), "title": item.title, "body": item.body, "author": item.author,
                   "state": format!("{:?}", item.state), "labels": item.labels, "assignees": item.assignees})
        }),
        "comments" => forge
            .comments(&key)?
            .iter()
            .map(|one| json!({"id": one.id, "author": one.author, "body": one.body, "remarks": one.remarks.len()}))
            .collect(),
        "may_write" => json!(forge.may_write(&key, &user)?),
        "repository" => json!(forge.repository(&key)?.url),
        "find" => forge.find_pull_request(&key, &branch)?.map_or(Value::Null, |found| json!(found.url)),
        "comment" => json!(forge.post_comment(&key, &body)?),
        "edit" => json!(forge.update_comment(&key, &text(asked, "id"), &body)?),
        "add_label" => json!(forge.add_label(&key, &label)?),
        "remove_label" => json!(forge.remove_label(&key, &label)?),
        "open" => {
            let request = NewPullRequest {
                title: text(asked, "title"),
                body,
                head: branch,
                base: text(asked, "base"),
                draft: false,
            };
            forge.open_pull_request(&key, &request)?.map_or(Value::Null, |opened| json!(opened.url))
        }
        other => return Err(Error::bug(format!("nobody knows how to do `{other}`"))),
    })
}

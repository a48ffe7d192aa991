//! The way in: headers, token, path, query and body are checked before anything is looked up.

use serde_json::{Value, json};

use super::state::{Hub, Permission, Repo};
use super::table::{self, Call, Kind, Row};
use super::wire::{Reply, Request, decode};

/// A request that passed the door.
pub struct Asked<'a> {
    pub request: &'a Request,
    pub row: &'static Row,
    /// What the path names, decoded.
    pub names: Vec<String>,
    pub query: Vec<(String, String)>,
    pub body: Value,
    pub who: String,
    pub read_only: bool,
    /// Index of the repository; meaningless for calls outside of one.
    pub repo: usize,
    /// The path that paging links use: by id, whatever was asked.
    pub link: String,
}

/// Refusals are answers too; `?` gives them back early.
pub type Answer = Result<Reply, Reply>;

/// A refusal with GitHub's usual body.
pub fn refuse(status: u16, message: &str) -> Reply {
    let docs = "https://docs.github.com/rest";
    Reply::json(status, &json!({"message": message, "documentation_url": docs, "status": status.to_string()}))
}

/// A 422 whose errors say what is wrong.
pub fn invalid(errors: Value) -> Reply {
    let docs = "https://docs.github.com/rest";
    Reply::json(
        422,
        &json!({"message": "Validation Failed", "errors": errors, "documentation_url": docs, "status": "422"}),
    )
}

pub fn not_found() -> Reply {
    refuse(404, "Not Found")
}

impl Asked<'_> {
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.body[name].as_str().map(str::to_owned)
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let values = self.body[name].as_array().map(Vec::as_slice).unwrap_or_default();
        values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub fn number(&self, at: usize) -> Result<u64, Reply> {
        self.names[at].parse().map_err(|_| not_found())
    }

    pub fn held(&self, repo: &Repo) -> Permission {
        let held = repo.permission(&self.who);
        if self.read_only { held.min(Permission::Read) } else { held }
    }

    /// Refuses a write the token may not do, and every write to an archived repository.
    pub fn need(&self, repo: &Repo, least: Permission) -> Result<(), Reply> {
        if repo.archived {
            return Err(refuse(403, "Repository was archived so is read-only."));
        }
        if self.read_only || self.held(repo) < least {
            return Err(refuse(403, "Resource not accessible by personal access token"));
        }
        Ok(())
    }
}

/// Checks a request to the API; an answer where it does not get any further.
pub fn enter<'a>(hub: &mut Hub, request: &'a Request) -> Result<Asked<'a>, Reply> {
    let line = request.line();
    if request.header("user-agent").is_none_or(str::is_empty) {
        hub.violate(format!("{line}: no User-Agent"));
        let text =
            "\r\nRequest forbidden by administrative rules. Please make sure your request has a User-Agent header.\r\n";
        return Err(Reply::new(403, "text/html", text));
    }
    headers(hub, request)?;
    let (who, read_only) = token(hub, request)?;
    let prefix = hub.api.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| rest[at..].to_owned()));
    let prefix = prefix.unwrap_or_default();
    let Some(path) = request.path.strip_prefix(&prefix) else {
        hub.violate(format!("{line}: outside of the API's path {prefix}"));
        return Err(not_found());
    };
    let mut segments = Vec::new();
    for raw in path.split('/').skip(1) {
        match decode(raw, false) {
            Ok(text) if !text.is_empty() && !twice(hub, &text) => segments.push(text),
            Ok(text) => {
                hub.violate(format!("{line}: path segment {text:?} is empty or encoded twice"));
                return Err(not_found());
            }
            Err(why) => {
                hub.violate(format!("{line}: {why}"));
                return Err(not_found());
            }
        }
    }
    let (row, names, repo, link) = find(hub, request, &segments)?;
    let query = query(hub, request, row)?;
    let body = body(hub, request, row)?;
    Ok(Asked { request, row, names, query, body, who, read_only, repo, link: format!("{}{link}", hub.api) })
}

fn headers(hub: &mut Hub, request: &Request) -> Result<(), Reply> {
    let line = request.line();
    let accept = request.header("accept").unwrap_or("nothing").to_owned();
    if accept != "application/vnd.github+json" {
        hub.violate(format!("{line}: Accept is {accept}"));
        if !["json", "*/*", "nothing"].iter().any(|word| accept.contains(word)) {
            let text = format!("Unsupported 'Accept' header: '{accept}'. Must accept 'application/json'.");
            return Err(refuse(415, &text));
        }
    }
    match request.header("x-github-api-version") {
        Some("2022-11-28") => Ok(()),
        None => {
            hub.violate(format!("{line}: no X-GitHub-Api-Version"));
            Ok(())
        }
        Some(other) => {
            let text = format!("{line}: X-GitHub-Api-Version {other} is not supported");
            hub.violate(text);
            Err(refuse(400, "The requested API version is not supported."))
        }
    }
}

fn token(hub: &mut Hub, request: &Request) -> Result<(String, bool), Reply> {
    let Some(header) = request.header("authorization") else { return Err(refuse(401, "Requires authentication")) };
    let secret = header.strip_prefix("Bearer ");
    match secret.and_then(|secret| hub.tokens.get(secret)) {
        Some(token) => Ok((token.login.clone(), token.read_only)),
        None => {
            if secret.is_none() {
                hub.violate(format!("{}: Authorization is not Bearer", request.line()));
            }
            Err(refuse(401, "Bad credentials"))
        }
    }
}

type Found = (&'static Row, Vec<String>, usize, String);

fn find(hub: &mut Hub, request: &Request, segments: &[String]) -> Result<Found, Reply> {
    let by_id = |text: &String| text.parse().ok();
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (repo, rest) = match words.as_slice() {
        ["repos", owner, name, ..] => (hub.repo_at(&format!("{owner}/{name}")), &segments[3..]),
        ["repositories", _, ..] => (by_id(&segments[1]).and_then(|id| hub.repo_by_id(id)), &segments[2..]),
        _ => return global(hub, request, segments),
    };
    let Some((row, names)) = table::find(table::REPOSITORY, &request.method, rest) else {
        return Err(unknown(hub, request));
    };
    if let Some(repo) = repo {
        // Seen as missing by whoever may not read it.
        let visible = token(hub, request).is_ok_and(|(who, _)| hub.repos[repo].permission(&who) > Permission::None);
        let tail: String = rest.iter().map(|part| format!("/{}", super::json::segment(part))).collect();
        let link = format!("/repositories/{}{tail}", hub.repos[repo].id);
        return if visible { Ok((row, names, repo, link)) } else { Err(not_found()) };
    }
    let old = if segments[0] == "repos" { format!("{}/{}", segments[1], segments[2]) } else { String::new() };
    let moved = hub.renames.iter().rev().find(|(name, _)| super::state::same(name, &old)).map(|(_, id)| *id);
    let Some(id) = moved else { return Err(not_found()) };
    let raw: Vec<&str> = request.target.split("/repos/").nth(1).unwrap_or_default().splitn(3, '/').collect();
    let tail = raw.get(2).map(|tail| format!("/{tail}")).unwrap_or_default();
    let url = format!("{}/repositories/{id}{tail}", hub.api);
    let body = json!({
        "message": "Moved Permanently", "url": url, "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
    });
    let status = if request.method == "GET" { 301 } else { 307 };
    Err(Reply::json(status, &body).with("location", url))
}

fn global(hub: &mut Hub, request: &Request, segments: &[String]) -> Result<Found, Reply> {
    // Page links of owners go by id.
    let mut segments = segments.to_vec();
    let owner = match segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["organizations", id, "repos"] => Some(("orgs", *id)),
        ["user", id, "repos"] => Some(("users", *id)),
        _ => None,
    }
    .and_then(|(kind, id)| Some((kind, hub.users.iter().find(|user| user.id.to_string() == id)?.login.clone())));
    if let Some((kind, login)) = owner {
        segments = vec![kind.to_owned(), login, "repos".to_owned()];
    }
    let Some((row, names)) = table::find(table::GLOBAL, &request.method, &segments) else {
        return Err(unknown(hub, request));
    };
    let id = names.first().and_then(|login| hub.known(login)).map_or(0, |user| user.id);
    let link = match row.call {
        Call::OrgRepos => format!("/organizations/{id}/repos"),
        Call::UserRepos => format!("/user/{id}/repos"),
        _ => row.path.to_owned(),
    };
    Ok((row, names, usize::MAX, link))
}

fn unknown(hub: &mut Hub, request: &Request) -> Reply {
    hub.violate(format!("{}: no such call", request.line()));
    not_found()
}

fn query(hub: &mut Hub, request: &Request, row: &Row) -> Result<Vec<(String, String)>, Reply> {
    let line = request.line();
    let mut pairs = Vec::new();
    for part in request.query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decoded = decode(name, true).and_then(|name| Ok((name, decode(value, true)?)));
        let (name, value) = decoded.map_err(|why| {
            hub.violate(format!("{line}: {why}"));
            not_found()
        })?;
        if twice(hub, &value) {
            hub.violate(format!("{line}: {name} is encoded twice"));
            return Err(not_found());
        }
        if !row.query.contains(&name.as_str()) || pairs.iter().any(|(seen, _)| *seen == name) {
            hub.violate(format!("{line}: query parameter {name} is unknown or there twice"));
        }
        if table::allowed(row.call, &name).is_some_and(|values| !values.contains(&value.as_str())) {
            hub.violate(format!("{line}: {name} cannot be {value:?}"));
            return Err(invalid(json!([{"resource": "Search", "field": name, "code": "invalid"}])));
        }
        let most = if name == "per_page" { 100 } else { u64::MAX };
        if ["per_page", "page"].contains(&name.as_str())
            && !value.parse::<u64>().is_ok_and(|number| (1..=most).contains(&number))
        {
            hub.violate(format!("{line}: {name} cannot be {value:?}"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn body(hub: &mut Hub, request: &Request, row: &Row) -> Result<Value, Reply> {
    let line = request.line();
    if row.body.is_empty() {
        if !request.body.is_empty() {
            hub.violate(format!("{line}: a body where none belongs"));
        }
        return Ok(Value::Null);
    }
    if !request.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        hub.violate(format!("{line}: Content-Type is not application/json"));
    }
    let Ok(value) = serde_json::from_slice::<Value>(&request.body) else {
        hub.violate(format!("{line}: the body is not JSON"));
        return Err(refuse(400, "Problems parsing JSON"));
    };
    let Some(fields) = value.as_object() else {
        hub.violate(format!("{line}: the body is not an object"));
        return Err(refuse(400, "Body should be a JSON object"));
    };
    for name in fields.keys().filter(|name| !row.body.iter().any(|(known, _, _)| known == name)) {
        hub.violate(format!("{line}: unknown field {name}"));
    }
    for (name, kind, required) in row.body {
        let problem = match (fields.get(*name), kind) {
            (None, _) if *required => format!("\"{name}\" wasn't supplied."),
            (None, _) | (Some(Value::String(_)), Kind::Text | Kind::MaybeText) => continue,
            (Some(Value::Null), Kind::MaybeText)
            | (Some(Value::Bool(_)), Kind::Flag)
            | (Some(Value::Number(_)), Kind::Number) => continue,
            (Some(Value::Array(values)), Kind::Texts) if values.iter().all(Value::is_string) => continue,
            (Some(value), kind) => format!("For 'properties/{name}', {value} is not {kind:?}."),
        };
        hub.violate(format!("{line}: {problem}"));
        return Err(refuse(422, &format!("Invalid request.\n\n{problem}")));
    }
    Ok(value)
}

/// Whether decoded text still looks encoded, and is not the name of a label that really is so.
fn twice(hub: &Hub, text: &str) -> bool {
    let bytes = text.as_bytes();
    let encoded = bytes.windows(3).any(|w| w[0] == b'%' && w[1].is_ascii_hexdigit() && w[2].is_ascii_hexdigit());
    encoded && !hub.repos.iter().flat_map(|repo| &repo.labels).any(|label| text.contains(&label.name))
}

//! The way in: token, path, query and body are checked before anything is looked up.

use serde_json::{Value, json};

use super::super::fake_forge::wire::{Reply, Request, decode, segment};
use super::state::{DEVELOPER, Hub, Item, Kind, Project};
use super::table::{self, Call, Row, Type};

/// A request that passed the door.
pub struct Asked<'a> {
    pub request: &'a Request,
    pub row: &'static Row,
    /// What the wildcards of the path stand for, decoded.
    pub names: Vec<String>,
    pub query: Vec<(String, String)>,
    pub body: Value,
    pub who: String,
    /// Index of the project; meaningless for calls outside of one.
    pub project: usize,
}

/// Refusals are answers too; `?` gives them back early.
pub type Answer = Result<Reply, Reply>;

/// A refusal with GitLab's usual body.
pub fn refuse(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"message": message}))
}

pub fn not_found(what: &str) -> Reply {
    refuse(404, &format!("404 {what}Not Found"))
}

impl Asked<'_> {
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.body[name].as_str()
    }

    /// Names between commas; GitLab cuts them apart and trims them.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default().split(',');
        text.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }

    /// A list of ids; `None` where it was not sent.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        Some(self.body[name].as_array()?.iter().filter_map(serde_json::Value::as_u64).collect())
    }

    pub fn kind(&self) -> Kind {
        if self.names[0] == "issues" { Kind::Issue } else { Kind::Request }
    }

    pub fn iid(&self) -> u64 {
        self.names[1].parse().unwrap_or(0)
    }

    pub fn item<'h>(&self, hub: &'h Hub) -> Result<(&'h Project, &'h Item), Reply> {
        let project = &hub.projects[self.project];
        let item = project.item(self.kind(), self.iid()).ok_or_else(|| not_found(""))?;
        Ok((project, item))
    }

    /// Refuses a write of whoever has less, and every write to an archived project.
    pub fn need(&self, project: &Project, least: u64) -> Result<(), Reply> {
        if project.archived || (project.role(&self.who) < least && !(least == 0 && project.public)) {
            return Err(refuse(403, "403 Forbidden"));
        }
        Ok(())
    }

    /// Whether labels of the item are ours to change; of others' items a guest may change nothing.
    pub fn may_label(&self, project: &Project, item: &Item) -> Result<bool, Reply> {
        let least = if item.kind == Kind::Issue { super::state::REPORTER } else { DEVELOPER };
        let own = item.author == self.who;
        self.need(project, if own { super::state::GUEST } else { least })?;
        Ok(project.role(&self.who) >= least)
    }
}

/// Checks a request to the API; an answer where it does not get any further.
pub fn enter<'a>(hub: &mut Hub, request: &'a Request) -> Result<Asked<'a>, Reply> {
    let line = request.line();
    if request.header("user-agent").is_none_or(str::is_empty) {
        hub.violate(format!("{line}: no User-Agent"));
    }
    if request.header("authorization").is_some() {
        hub.violate(format!("{line}: an Authorization beside PRIVATE-TOKEN"));
    }
    let unauthorized = || refuse(401, "401 Unauthorized");
    let token = request.header("private-token").ok_or_else(unauthorized)?;
    let token = hub.tokens.get(token).cloned().ok_or_else(unauthorized)?;
    if token.read_only && request.method != "GET" {
        let body = json!({
            "error": "insufficient_scope", "scope": "api",
            "error_description": "The request requires higher privileges than provided by the access token.",
        });
        return Err(Reply::json(403, &body));
    }
    let mut segments = Vec::new();
    for raw in request.path.trim_start_matches("/api/v4").split('/').skip(1) {
        match decode(raw, false) {
            Ok(text) if !text.is_empty() && !is_encoded(&text) => segments.push(text),
            other => {
                hub.violate(format!("{line}: path segment {raw:?}: {other:?}"));
                return Err(not_found(""));
            }
        }
    }
    let rows = match segments.first().map(String::as_str) {
        Some("projects") if segments.len() > 1 => (table::PROJECT, &segments[2..]),
        _ => (table::GLOBAL, &segments[..]),
    };
    let Some((row, names)) = table::find(rows.0, &request.method, rows.1) else {
        hub.violate(format!("{line}: no such call"));
        return Err(Reply::json(404, &json!({"error": "404 Not Found"})));
    };
    let query = query(hub, request, row)?;
    let body = body(hub, request, row)?;
    let mut project = usize::MAX;
    if std::ptr::eq(rows.0, table::PROJECT) {
        project = find(hub, request, &segments[1], &token.username)?;
    }
    Ok(Asked { request, row, names, query, body, who: token.username, project })
}

/// A project that the asker can see; an old path leads to the new one.
fn find(hub: &Hub, request: &Request, name: &str, who: &str) -> Result<usize, Reply> {
    if let Some(at) = hub.project_at(name).filter(|at| hub.projects[*at].is_visible_to(who)) {
        return Ok(at);
    }
    let moved = hub.renames.iter().find(|(path, _)| path == name).and_then(|(_, id)| hub.project_at(&id.to_string()));
    let Some(at) = moved.filter(|_| request.method == "GET") else { return Err(not_found("Project ")) };
    let (old, new) = (segment(name), segment(&hub.projects[at].path));
    Err(Reply::empty(301).with("location", format!("{}{}", hub.root, request.target.replacen(&old, &new, 1))))
}

fn is_encoded(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(3).any(|w| w[0] == b'%' && w[1].is_ascii_hexdigit() && w[2].is_ascii_hexdigit())
}

fn query(hub: &mut Hub, request: &Request, row: &Row) -> Result<Vec<(String, String)>, Reply> {
    let line = request.line();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in request.query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decoded = decode(name, true).and_then(|name| Ok((name, decode(value, true)?)));
        let (name, value) = decoded.map_err(|why| {
            hub.violate(format!("{line}: {why}"));
            not_found("")
        })?;
        if !row.query.contains(&name.as_str()) || pairs.iter().any(|(seen, _)| *seen == name) {
            hub.violate(format!("{line}: query parameter {name} is unknown or there twice"));
        }
        if table::allowed(row.call, &name).is_some_and(|values| !values.contains(&value.as_str())) {
            hub.violate(format!("{line}: {name} cannot be {value:?}"));
            return Err(Reply::json(400, &json!({"error": format!("{name} does not have a valid value")})));
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
    if request.header("content-type") != Some("application/json") {
        hub.violate(format!("{line}: Content-Type is not application/json"));
    }
    let value: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(fields) = value.as_object() else {
        hub.violate(format!("{line}: the body is not a JSON object"));
        return Err(Reply::json(400, &json!({"error": "Problem processing JSON payload"})));
    };
    for name in fields.keys().filter(|name| !row.body.iter().any(|(known, _, _)| known == name)) {
        hub.violate(format!("{line}: unknown field {name}"));
    }
    for (name, kind, required) in row.body {
        let problem = match (fields.get(*name), kind) {
            (None, _) if *required => "is missing",
            (None, _) | (Some(Value::String(_)), Type::Text) | (Some(Value::Bool(_)), Type::Flag) => continue,
            (Some(Value::Array(values)), Type::Numbers) if values.iter().all(Value::is_u64) => continue,
            _ => "is invalid",
        };
        hub.violate(format!("{line}: {name} {problem}"));
        return Err(Reply::json(400, &json!({"error": format!("{name} {problem}")})));
    }
    if row.call == Call::PutItem && fields.is_empty() {
        let message = "title, description, add_labels … are missing, at least one parameter must be provided";
        hub.violate(format!("{line}: {message}"));
        return Err(Reply::json(400, &json!({"error": message})));
    }
    Ok(value)
}

//! Who may do what with git over HTTP: decided under the lock, before the backend runs.

use super::super::fake_forge::git::{Pass, unbase64};
use super::super::fake_forge::wire::{Reply, Request};
use super::state::{DEVELOPER, Hub, Kind, Token};

/// The pass for a request to git's address, or the refusal.
pub fn admit(hub: &mut Hub, request: &Request) -> Result<Pass, Reply> {
    let text = |status: u16, body: &str| Reply::new(status, "text/plain", body);
    let Some((path, tail)) = request.path.trim_start_matches('/').split_once(".git/") else {
        hub.violate(format!("{}: neither git nor the API lives here", request.line()));
        return Err(text(404, "Not Found"));
    };
    let pushes = tail.contains("receive-pack") || request.query.contains("receive-pack");
    let held = request.header("authorization").map(|header| basic(hub, header));
    let challenge = || {
        text(401, "HTTP Basic: Access denied. The provided password or token is incorrect.\n")
            .with("www-authenticate", "Basic realm=\"GitLab\"")
    };
    let token = match held {
        Some(Some(token)) => Some(token),
        Some(None) => return Err(challenge()),
        None => None,
    };
    let missing = "The project you were looking for could not be found or you don't have permission to view it.\n";
    let moved = hub.renames.iter().find(|(old, _)| old == path).map(|(_, id)| id.to_string());
    let Some(at) = hub.project_at(moved.as_deref().unwrap_or(path)) else {
        return Err(if token.is_none() { challenge() } else { text(404, missing) });
    };
    let project = &hub.projects[at];
    let who = token.as_ref().map_or("", |token| &token.username);
    if token.is_none() && (pushes || !project.public) {
        return Err(challenge());
    }
    if !project.is_visible_to(who) {
        return Err(text(404, missing));
    }
    let is_read_only = token.as_ref().is_some_and(|token| token.read_only);
    if pushes && (is_read_only || project.archived) {
        return Err(text(403, "You are not allowed to push code to this project.\n"));
    }
    if pushes && project.role(who) < DEVELOPER && !lets_in(hub, project.id, who) {
        return Err(text(403, "You are not allowed to push code to this project.\n"));
    }
    Ok(Pass { id: project.id, tail: tail.to_owned(), who: who.to_owned() })
}

/// Whether an open merge request from this fork lets those in who may merge it.
fn lets_in(hub: &Hub, fork: u64, who: &str) -> bool {
    let targets = hub.projects.iter().filter(|project| project.role(who) >= DEVELOPER);
    let mut items = targets.flat_map(|project| &project.items);
    items.any(|item| {
        item.kind == Kind::Request && item.state == "opened" && item.lets_in && item.source_project == Some(fork)
    })
}

/// The token of a Basic header; `None` when it is not known.
fn basic(hub: &mut Hub, header: &str) -> Option<Token> {
    let plain = unbase64(header.strip_prefix("Basic ")?)?;
    let (user, secret) = plain.split_once(':')?;
    if user != "oauth2" {
        hub.violate(format!("git: the user name is {user:?}, not oauth2"));
    }
    hub.tokens.get(secret).cloned()
}

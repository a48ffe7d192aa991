//! Who may do what with git: decided under the lock, before the backend runs.

use super::git::{Pass, unbase64};
use super::state::{Hub, Permission, same};
use super::wire::{Reply, Request};

/// The pass for a request to git's address, or the refusal.
pub fn admit(hub: &mut Hub, request: &Request) -> Result<Pass, Reply> {
    let text = |status: u16, body: &str| Reply::new(status, "text/plain; charset=utf-8", body);
    let Some((full, tail)) = request.path.trim_start_matches('/').split_once(".git/") else {
        let line = request.line();
        hub.violate(format!("{line}: neither git nor the API lives here"));
        return Err(text(404, "Not Found"));
    };
    let pushes = tail.contains("receive-pack") || request.query.contains("receive-pack");
    let held = request.header("authorization").map(|header| basic(hub, header));
    let challenge = || {
        text(401, "Invalid username or token. Password authentication is not supported for Git operations.\n")
            .with("www-authenticate", "Basic realm=\"GitHub\"")
    };
    let Some(at) = hub.repo_at(full) else {
        let moved = hub.renames.iter().rev().find(|(name, _)| same(name, full)).and_then(|(_, id)| hub.repo_by_id(*id));
        return Err(match moved {
            Some(at) => {
                let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
                let url = format!("{}/{}.git/{tail}{query}", hub.web, hub.repos[at].full());
                text(301, "").with("location", url)
            }
            None if held.is_none() => challenge(),
            None => text(404, "Repository not found.\n"),
        });
    };
    let repo = &hub.repos[at];
    let token = match held {
        None if repo.private || pushes => return Err(challenge()),
        None => None,
        Some(None) => return Err(challenge()),
        Some(Some(token)) => Some(token),
    };
    let who = token.as_ref().map_or(String::new(), |token| token.login.clone());
    let permission = repo.permission(&who);
    if permission == Permission::None {
        return Err(text(404, "Repository not found.\n"));
    }
    if pushes && repo.archived {
        return Err(text(403, "This repository was archived so it is read-only.\n"));
    }
    if pushes && token.is_some_and(|token| token.read_only) {
        return Err(text(403, "Write access to repository not granted.\n"));
    }
    if pushes && permission < Permission::Write && !lets_maintainers_in(hub, repo.id, &who) {
        return Err(text(403, &format!("Permission to {}.git denied to {who}.\n", repo.full())));
    }
    Ok(Pass { id: repo.id, tail: tail.to_owned(), who })
}

/// Whether an open pull request from this fork lets those in who may write to its base (docs: "Allowing
/// changes to a pull request branch created from a fork").
fn lets_maintainers_in(hub: &Hub, fork: u64, who: &str) -> bool {
    let writable = hub.repos.iter().filter(|base| base.permission(who) >= Permission::Write);
    let mut items = writable.flat_map(|base| base.items.iter()).filter(|item| item.closed.is_none());
    items.any(|item| item.pull.as_ref().is_some_and(|pull| pull.maintainer_can_modify && pull.head_repo == Some(fork)))
}

/// The token of a Basic header, with any user name; `None` when it is not known.
fn basic(hub: &mut Hub, header: &str) -> Option<super::state::Token> {
    let Some(code) = header.strip_prefix("Basic ").or_else(|| header.strip_prefix("basic ")) else {
        hub.violate("git: Authorization is not Basic".to_owned());
        return None;
    };
    let plain = unbase64(code)?;
    let (user, secret) = plain.split_once(':')?;
    if user.is_empty() {
        hub.violate("git: Basic without a user name".to_owned());
    }
    hub.tokens.get(secret).cloned()
}

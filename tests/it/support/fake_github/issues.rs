//! Calls on users, repositories, issues, comments, labels and events.

use serde_json::{Value, json};

use super::door::{Answer, Asked, invalid, not_found, refuse};
use super::json::{merge, stamp};
use super::page;
use super::state::{Hub, Item, Lock, Permission, Repo, same};
use super::table::Call;
use super::wire::Reply;

/// GitHub's limit for bodies, in characters.
pub const LONGEST_BODY: usize = 65_536;

pub fn answer(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    match asked.row.call {
        Call::Me => Ok(Reply::json(200, &me(hub, &asked.who))),
        Call::OwnRepos | Call::OrgRepos | Call::UserRepos => repos(hub, asked),
        Call::Repo => Ok(Reply::json(200, &hub.full_repo_json(&hub.repos[asked.repo], &asked.who))),
        Call::Issues => list(hub, asked),
        Call::Issue => {
            let (repo, item) = item(hub, asked)?;
            Ok(Reply::json(200, &hub.full_issue_json(repo, item)))
        }
        Call::Comments => comments(hub, asked),
        Call::PostComment => post(hub, asked),
        Call::GetComment | Call::PatchComment => one_comment(hub, asked),
        Call::ItemLabels => {
            let (repo, item) = item(hub, asked)?;
            Ok(page::reply(asked, &hub.labels_json(repo, item), Clone::clone))
        }
        Call::AddLabels => add_labels(hub, asked),
        Call::RemoveLabel => remove_label(hub, asked),
        Call::RepoLabels => {
            let repo = &hub.repos[asked.repo];
            Ok(page::reply(asked, &repo.labels, |label| hub.label_json(repo, label)))
        }
        Call::GetLabel => {
            let repo = &hub.repos[asked.repo];
            let label = repo.label(&asked.names[0]).ok_or_else(not_found)?;
            Ok(Reply::json(200, &hub.label_json(repo, label)))
        }
        Call::CreateLabel => create_label(hub, asked),
        Call::Events => {
            let (repo, item) = item(hub, asked)?;
            Ok(page::reply(asked, &item.events, |event| hub.event_json(repo, event)))
        }
        Call::Collaborator => collaborator(hub, asked),
        Call::AddAssignees => assign(hub, asked),
        _ => Err(not_found()),
    }
}

fn me(hub: &Hub, login: &str) -> Value {
    let Value::Object(map) = hub.user_json(login) else { return Value::Null };
    let public = hub.repos.iter().filter(|repo| same(&repo.owner, login) && !repo.private).count();
    merge(
        map,
        json!({
            "name": null, "company": null, "blog": null, "location": null, "email": null, "hireable": null,
            "bio": null, "public_repos": public, "public_gists": 0, "followers": 0, "following": 0,
            "created_at": stamp(1_600_000_000), "updated_at": stamp(1_600_000_000),
        }),
    )
}

fn repos(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let owner = asked.names.first().map_or("", String::as_str);
    let known = hub.known(owner);
    let call = asked.row.call;
    if (call == Call::OrgRepos && known.is_none_or(|user| user.kind != "Organization"))
        || (call == Call::UserRepos && known.is_none())
    {
        return Err(not_found());
    }
    let mut found: Vec<&Repo> = hub
        .repos
        .iter()
        .filter(|repo| match call {
            Call::OrgRepos => same(&repo.owner, owner) && asked.held(repo) > Permission::None,
            // Public ones only, even for the user's own token.
            Call::UserRepos => same(&repo.owner, owner) && !repo.private,
            _ => {
                let given = repo.permissions.iter().any(|(who, _)| same(who, &asked.who));
                same(&repo.owner, &asked.who) || given
            }
        })
        .collect();
    let by_name = call != Call::OrgRepos;
    match asked.param("sort").unwrap_or(if by_name { "full_name" } else { "created" }) {
        "full_name" => found.sort_by_key(|repo| repo.full().to_lowercase()),
        "created" => found.sort_by_key(|repo| -repo.created),
        _ => found.sort_by_key(|repo| -repo.updated),
    }
    Ok(page::reply(asked, &found, |repo| hub.repo_json(repo, Some(&asked.who))))
}

/// The item a path names first.
pub fn item<'a>(hub: &'a Hub, asked: &Asked<'_>) -> Result<(&'a Repo, &'a Item), Reply> {
    let repo = &hub.repos[asked.repo];
    let item = repo.item(asked.number(0)?).ok_or_else(not_found)?;
    if item.deleted {
        return Err(refuse(410, "This issue was deleted"));
    }
    if item.pull.is_none() && !repo.has_issues {
        return Err(refuse(410, "Issues has been disabled in this repository."));
    }
    Ok((repo, item))
}

fn list(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let repo = &hub.repos[asked.repo];
    let labels: Vec<&str> =
        asked.param("labels").map(|text| text.split(',').map(str::trim).collect()).unwrap_or_default();
    let state = asked.param("state").unwrap_or("open");
    let since = asked.param("since").unwrap_or_default();
    let mut found: Vec<&Item> = repo
        .items
        .iter()
        .filter(|item| !item.deleted && (item.pull.is_some() || repo.has_issues))
        .filter(|item| state == "all" || state == super::json::state(item))
        .filter(|item| labels.iter().all(|label| repo.names(item).any(|name| same(name, label))))
        .filter(|item| stamp(item.updated).as_str() >= since)
        .filter(|item| asked.param("creator").is_none_or(|who| same(&item.author, who)))
        .filter(|item| match asked.param("assignee") {
            None => true,
            Some("*") => !item.assignees.is_empty(),
            Some("none") => item.assignees.is_empty(),
            Some(login) => item.assignees.iter().any(|who| same(who, login)),
        })
        .collect();
    match asked.param("sort").unwrap_or("created") {
        "created" => found.sort_by_key(|item| (item.created, item.number)),
        "updated" => found.sort_by_key(|item| (item.updated, item.number)),
        _ => found.sort_by_key(|item| item.comments.len()),
    }
    if asked.param("direction").unwrap_or("desc") == "desc" {
        found.reverse();
    }
    Ok(page::reply(asked, &found, |item| hub.issue_json(repo, item)))
}

fn comments(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let (repo, item) = item(hub, asked)?;
    let since = asked.param("since").unwrap_or_default();
    let found: Vec<_> = item.comments.iter().filter(|c| stamp(c.updated).as_str() >= since).collect();
    Ok(page::reply(asked, &found, |comment| hub.comment_json(repo, item, comment)))
}

fn check_body(hub: &Hub, body: &str) -> Result<(), Reply> {
    let problem = if body.chars().count() > LONGEST_BODY {
        format!("Body is too long (maximum is {LONGEST_BODY} characters)")
    } else if body.trim().is_empty() && !hub.blank_comments {
        "Body cannot be blank".to_owned()
    } else {
        return Ok(());
    };
    Err(invalid(json!([{"resource": "IssueComment", "code": "unprocessable", "field": "data", "message": problem}])))
}

fn post(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (repo, found) = item(hub, asked)?;
    let number = found.number;
    asked.need(repo, Permission::Read)?;
    if found.lock == Lock::Everyone || found.lock == Lock::Readers && asked.held(repo) < Permission::Write {
        return Err(refuse(403, "Unable to create comment because issue is locked."));
    }
    let body = asked.text("body").unwrap_or_default();
    check_body(hub, &body)?;
    let id = hub.say(asked.repo, number, &asked.who, &body);
    let repo = &hub.repos[asked.repo];
    let item = repo.item(number).ok_or_else(not_found)?;
    let comment = item.comments.iter().find(|comment| comment.id == id).ok_or_else(not_found)?;
    let value = hub.comment_json(repo, item, comment);
    let location = value["url"].as_str().unwrap_or_default().to_owned();
    Ok(Reply::json(201, &value).with("location", location))
}

fn one_comment(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let id = asked.number(0)?;
    let holds = |item: &&Item| !item.deleted && item.comments.iter().any(|comment| comment.id == id);
    let item = hub.repos[asked.repo].items.iter().find(holds).ok_or_else(not_found)?;
    let (number, comment) = (item.number, item.comments.iter().find(|c| c.id == id).ok_or_else(not_found)?);
    if asked.row.call == Call::PatchComment {
        let repo = &hub.repos[asked.repo];
        let own = same(&comment.author, &asked.who);
        asked.need(repo, if own { Permission::Read } else { Permission::Write })?;
        let body = asked.text("body").unwrap_or_default();
        check_body(hub, &body)?;
        let now = hub.tick();
        let item = hub.repos[asked.repo].item_mut(number).ok_or_else(not_found)?;
        item.updated = now;
        let comment = item.comments.iter_mut().find(|c| c.id == id).ok_or_else(not_found)?;
        comment.body = body;
        comment.updated = now;
    }
    let repo = &hub.repos[asked.repo];
    let item = repo.item(number).ok_or_else(not_found)?;
    let comment = item.comments.iter().find(|c| c.id == id).ok_or_else(not_found)?;
    Ok(Reply::json(200, &hub.comment_json(repo, item, comment)))
}

fn check_label(name: &str, color: &str) -> Result<(), Reply> {
    let wrong = |field: &str, code: &str| invalid(json!([{"resource": "Label", "code": code, "field": field}]));
    if name.trim().is_empty() {
        return Err(wrong("name", "missing_field"));
    }
    if name.chars().count() > 50 {
        return Err(wrong("name", "invalid"));
    }
    if color.len() != 6 || !color.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong("color", "invalid"));
    }
    Ok(())
}

fn create_label(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let repo = &hub.repos[asked.repo];
    asked.need(repo, Permission::Write)?;
    let name = asked.text("name").unwrap_or_default();
    let color = asked.text("color").unwrap_or_else(|| "ededed".to_owned());
    check_label(&name, &color)?;
    if repo.label(&name).is_some() {
        return Err(invalid(json!([{"resource": "Label", "code": "already_exists", "field": "name"}])));
    }
    let label = hub.make_label(asked.repo, &name, &color, asked.text("description"));
    let value = hub.label_json(&hub.repos[asked.repo], &label);
    let location = value["url"].as_str().unwrap_or_default().to_owned();
    Ok(Reply::json(201, &value).with("location", location))
}

fn add_labels(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (repo, found) = item(hub, asked)?;
    let number = found.number;
    asked.need(repo, Permission::Triage)?;
    let names = asked.texts("labels");
    for name in &names {
        check_label(name, "ededed")?;
        // New labels come into being by themselves, for those who may make them.
        if repo.label(name).is_none() {
            asked.need(repo, Permission::Write)?;
        }
    }
    for name in &names {
        hub.put_label(asked.repo, number, name, &asked.who);
    }
    shown_labels(hub, asked)
}

fn remove_label(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (repo, found) = item(hub, asked)?;
    let number = found.number;
    asked.need(repo, Permission::Triage)?;
    if !hub.drop_label(asked.repo, number, &asked.names[1], &asked.who) {
        return Err(refuse(404, "Label does not exist"));
    }
    shown_labels(hub, asked)
}

fn shown_labels(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let (repo, item) = item(hub, asked)?;
    Ok(Reply::json(200, &Value::Array(hub.labels_json(repo, item))))
}

fn collaborator(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let repo = &hub.repos[asked.repo];
    if asked.held(repo) < Permission::Write {
        return Err(refuse(403, "Must have push access to view collaborator permission."));
    }
    let user = hub.known(&asked.names[0]).ok_or_else(not_found)?;
    let (permission, role) = match repo.permission(&user.login) {
        Permission::None => ("none", "none"),
        Permission::Read => ("read", "read"),
        Permission::Triage => ("read", "triage"),
        Permission::Write => ("write", "write"),
        Permission::Maintain => ("write", "maintain"),
        Permission::Admin => ("admin", "admin"),
    };
    let mut shown = hub.user_json(&user.login);
    shown["role_name"] = json!(role);
    shown["permissions"] = hub.repo_json(repo, Some(&user.login))["permissions"].clone();
    let body = json!({"permission": permission, "role_name": role, "user": shown});
    Ok(Reply::json(200, &body))
}

fn assign(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (repo, found) = item(hub, asked)?;
    let number = found.number;
    asked.need(repo, Permission::Triage)?;
    for login in asked.texts("assignees") {
        let repo = &hub.repos[asked.repo];
        let item = repo.item(number).ok_or_else(not_found)?;
        // Who cannot be assigned is left out without a word.
        let can = hub.known(&login).is_some() && repo.permission(&login) > Permission::None;
        if can && item.assignees.len() < 10 && !item.assignees.iter().any(|who| same(who, &login)) {
            let item = hub.repos[asked.repo].item_mut(number).ok_or_else(not_found)?;
            item.assignees.push(login.clone());
            hub.happens(asked.repo, number, "assigned", &asked.who, None, Some(login));
        }
    }
    let (repo, item) = item(hub, asked)?;
    Ok(Reply::json(201, &hub.full_issue_json(repo, item)))
}

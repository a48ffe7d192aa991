//! Calls on users, groups, projects, members and branches.

use serde_json::{Value, json};

use super::super::fake_forge::git;
use super::super::fake_forge::wire::Reply;
use super::door::{Answer, Asked, not_found, refuse};
use super::page;
use super::state::{DEVELOPER, Hub, Project, same};
use super::table::Call;

pub fn answer(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    match asked.row.call {
        Call::Me => Ok(Reply::json(200, &hub.user_json(&asked.who))),
        Call::Users => {
            let wanted = asked.param("username").unwrap_or_default();
            let found: Vec<_> = hub.users.iter().filter(|user| same(&user.username, wanted) && !user.gone).collect();
            Ok(page::reply(hub, asked, &found, |user| hub.user_json(&user.username)))
        }
        Call::Projects => projects(hub, asked),
        Call::Group => {
            let group = &asked.names[0];
            let is_there = hub.projects.iter().any(|project| project.is_in(group) && project.is_visible_to(&asked.who));
            let value = json!({"id": 1, "full_path": group, "name": group});
            if is_there { Ok(Reply::json(200, &value)) } else { Err(not_found("Group ")) }
        }
        Call::Project => Ok(Reply::json(200, &hub.project_json(&hub.projects[asked.project], &asked.who, false))),
        Call::Member => member(hub, asked),
        Call::OwnToken => own_token(hub, asked),
        Call::Label => {
            let name = &asked.names[0];
            let known = hub.projects[asked.project].labels.iter().any(|label| label == name);
            let value = json!({"id": 1, "name": name, "color": "#ededed", "is_project_label": true});
            if known { Ok(Reply::json(200, &value)) } else { Err(not_found("Label ")) }
        }
        Call::Branches => {
            let all = git::branches(&hub.git_root, hub.projects[asked.project].id);
            Ok(page::reply(hub, asked, &all, |(name, sha)| branch_json(name, sha)))
        }
        Call::Branch => {
            let name = &asked.names[0];
            let sha = git::branch_sha(&hub.git_root, hub.projects[asked.project].id, name);
            Ok(Reply::json(200, &branch_json(name, &sha.ok_or_else(|| not_found("Branch "))?)))
        }
        Call::CreateBranch => create_branch(hub, asked),
        _ => Err(not_found("")),
    }
}

fn projects(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let least: u64 = asked.param("min_access_level").and_then(|text| text.parse().ok()).unwrap_or(0);
    let found: Vec<&Project> = hub
        .projects
        .iter()
        .filter(|project| project.is_visible_to(&asked.who) && project.role(&asked.who) >= least)
        .filter(|project| asked.param("membership") != Some("true") || project.role(&asked.who) > 0)
        .filter(|project| asked.param("archived").is_none_or(|wanted| project.archived == (wanted == "true")))
        .collect();
    let simple = asked.param("simple") == Some("true");
    Ok(page::reply(hub, asked, &found, |project| hub.project_json(project, &asked.who, simple)))
}

fn member(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let project = &hub.projects[asked.project];
    let user = hub.users.iter().find(|user| user.id.to_string() == asked.names[0] && !user.gone);
    let user = user.filter(|user| project.role(&user.username) > 0).ok_or_else(|| not_found(""))?;
    let mut value = hub.user_json(&user.username);
    value["access_level"] = project.role(&user.username).into();
    value["expires_at"] = Value::Null;
    Ok(Reply::json(200, &value))
}

fn own_token(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let token = asked.request.header("private-token").and_then(|secret| hub.tokens.get(secret));
    let token = token.ok_or_else(|| not_found(""))?;
    let scope = if token.read_only { "read_api" } else { "api" };
    Ok(Reply::json(
        200,
        &json!({
            "id": 4, "name": "agent", "revoked": false, "created_at": "2024-01-01T00:00:00.000Z", "scopes": [scope],
            "user_id": 1, "last_used_at": null, "active": true, "expires_at": token.expires,
        }),
    ))
}

fn branch_json(name: &str, sha: &str) -> Value {
    json!({"name": name, "merged": false, "protected": false, "commit": {"id": sha}})
}

fn create_branch(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let project = &hub.projects[asked.project];
    asked.need(project, DEVELOPER)?;
    let (name, from) = (asked.text("branch").unwrap_or_default(), asked.text("ref").unwrap_or_default());
    if git::branch_sha(&hub.git_root, project.id, name).is_some() {
        return Err(refuse(400, "Branch already exists"));
    }
    let known = git::has_commit(&hub.git_root, project.id, from).then(|| from.to_owned());
    let sha = git::branch_sha(&hub.git_root, project.id, from).or(known);
    let sha = sha.ok_or_else(|| refuse(400, &format!("Invalid reference name: {from}")))?;
    git::update_ref(&hub.git_root, project.id, name, &sha).map_err(|_| refuse(400, "Branch name is invalid"))?;
    Ok(Reply::json(201, &branch_json(name, &sha)))
}

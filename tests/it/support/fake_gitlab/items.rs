//! Calls on issues and merge requests: lists, one, changes of labels, new merge requests.

use serde_json::json;

use super::super::fake_forge::git;
use super::super::fake_forge::wire::Reply;
use super::door::{Answer, Asked, refuse};
use super::json::stamp;
use super::page;
use super::state::{DEVELOPER, Hub, Item, Kind, Project, same};

/// GitLab's limit for descriptions and notes, in characters.
pub const LONGEST_TEXT: usize = 1_000_000;

pub fn list(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let (group, list) = match asked.names.as_slice() {
        [group, list] => (Some(group), list),
        names => (None, &names[0]),
    };
    let kind = if list == "issues" { Kind::Issue } else { Kind::Request };
    let is_one = asked.project != usize::MAX;
    let is_meant = |at: usize, project: &Project| match group {
        _ if is_one => at == asked.project,
        Some(group) => project.is_in(group) && project.is_visible_to(&asked.who),
        None => project.is_visible_to(&asked.who),
    };
    if group.is_some_and(|group| !hub.projects.iter().any(|project| project.is_in(group))) {
        return Err(super::door::not_found("Group "));
    }
    // What nobody asked for by name is our own unless all of it is wanted.
    let scope = asked.param("scope").unwrap_or(if is_one || group.is_some() { "all" } else { "created_by_me" });
    let labels: Vec<&str> =
        asked.param("labels").map(|text| text.split(',').map(str::trim).collect()).unwrap_or_default();
    let state = asked.param("state").unwrap_or("all");
    let words = asked.param("search").unwrap_or_default().to_lowercase();
    let since = asked.param("updated_after").unwrap_or_default();
    let projects = hub.projects.iter().enumerate().filter(|(at, project)| is_meant(*at, project));
    let mut found: Vec<(&Project, &Item)> = projects
        .flat_map(|(_, project)| project.items.iter().map(move |item| (project, item)))
        .filter(|(_, item)| item.kind == kind && (state == "all" || state == item.state))
        // With case, since labels that differ by case are different ones.
        .filter(|(_, item)| labels.iter().all(|label| item.labels.iter().any(|name| name == label)))
        .filter(|(_, item)| match scope {
            "created_by_me" => item.author == asked.who,
            "assigned_to_me" => item.assignees.contains(&asked.who),
            _ => true,
        })
        .filter(|(_, item)| {
            asked.param("assignee_username").is_none_or(|who| item.assignees.iter().any(|name| same(name, who)))
        })
        .filter(|(_, item)| asked.param("source_branch").is_none_or(|branch| item.source_branch == branch))
        .filter(|(_, item)| asked.param("target_branch").is_none_or(|branch| item.target_branch == branch))
        .filter(|(_, item)| stamp(item.updated).as_str() >= since)
        .filter(|(_, item)| {
            let text = format!("{} {}", item.title, item.description.as_deref().unwrap_or_default());
            text.to_lowercase().contains(&words)
        })
        .collect();
    match asked.param("order_by").unwrap_or("created_at") {
        "updated_at" => found.sort_by_key(|(_, item)| (item.updated, item.id)),
        _ => found.sort_by_key(|(_, item)| (item.created, item.id)),
    }
    if asked.param("sort").unwrap_or("desc") == "desc" {
        found.reverse();
    }
    Ok(page::reply(hub, asked, &found, |(project, item)| hub.item_json(project, item)))
}

pub fn one(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let (project, item) = asked.item(hub)?;
    Ok(Reply::json(200, &hub.item_json(project, item)))
}

pub fn put(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (project, item) = asked.item(hub)?;
    let may_label = asked.may_label(project, item)?;
    let (kind, iid) = (item.kind, item.iid);
    // Without a word: that is how GitLab treats authors without a role.
    if may_label {
        for (field, added) in [("add_labels", true), ("remove_labels", false)] {
            for label in asked.list(field) {
                hub.change_label(asked.project, kind, iid, &label, added, &asked.who);
            }
        }
    }
    if let Some(title) = asked.text("title") {
        let now = hub.tick();
        let item = hub.projects[asked.project].item_mut(kind, iid).expect("looked up before");
        (item.title, item.updated) = (title.to_owned(), now);
    }
    if let Some(ids) = asked.numbers("reviewer_ids").filter(|_| may_label) {
        // Whoever cannot see the merge request is left out without a word.
        let project = &hub.projects[asked.project];
        let reviewers = ids.into_iter().filter_map(|id| hub.username_of(id)).filter(|who| project.is_visible_to(who));
        let reviewers: Vec<String> = reviewers.collect();
        let now = hub.tick();
        let item = hub.projects[asked.project].item_mut(kind, iid).expect("looked up before");
        (item.reviewers, item.updated) = (reviewers, now);
    }
    one(hub, asked)
}

/// Commands in a text that GitLab obeys instead of showing it (docs: "Quick actions").
pub fn commands(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let is_command = |line: &&str| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        !in_code
            && line.strip_prefix('/').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()))
    };
    text.lines().filter(is_command).collect()
}

pub fn watch_commands(hub: &mut Hub, asked: &Asked<'_>, text: &str) {
    for command in commands(text) {
        hub.violate(format!("{}: GitLab would obey {command:?}", asked.request.line()));
    }
}

pub fn create(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let text = |name: &str| asked.text(name).unwrap_or_default().to_owned();
    let (source, target, title, description) =
        (text("source_branch"), text("target_branch"), text("title"), text("description"));
    watch_commands(hub, asked, &description);
    let project = &hub.projects[asked.project];
    asked.need(project, DEVELOPER)?;
    let wrong = |errors: serde_json::Value| Err(Reply::json(400, &json!({"message": errors})));
    if title.trim().is_empty() {
        return wrong(json!({"title": ["can't be blank"]}));
    }
    if title.chars().count() > 255 {
        return wrong(json!({"title": ["is too long (maximum is 255 characters)"]}));
    }
    if description.chars().count() > LONGEST_TEXT {
        return wrong(json!({"description": ["is too long (maximum is 1000000 characters)"]}));
    }
    for branch in [&source, &target] {
        if git::branch_sha(&hub.git_root, project.id, branch).is_none() {
            return wrong(json!({"base": [format!("Branch \"{branch}\" does not exist")]}));
        }
    }
    if source == target {
        return wrong(json!(["You can't use same project/branch for source and target"]));
    }
    let twin = project.items.iter().find(|item| {
        item.kind == Kind::Request
            && item.state == "opened"
            && item.source_project == Some(project.id)
            && (&item.source_branch, &item.target_branch) == (&source, &target)
    });
    if let Some(twin) = twin {
        let message = format!("Another open merge request already exists for this source branch: !{}", twin.iid);
        return Err(Reply::json(409, &json!({"message": [message]})));
    }
    let id = project.id;
    let iid = hub.open(asked.project, Kind::Request, &title, Some(description), &asked.who);
    let item = hub.projects[asked.project].item_mut(Kind::Request, iid).expect("just made");
    (item.source_branch, item.target_branch, item.source_project) = (source, target, Some(id));
    let project = &hub.projects[asked.project];
    let item = project.item(Kind::Request, iid).ok_or_else(|| refuse(500, "gone"))?;
    Ok(Reply::json(201, &hub.item_json(project, item)))
}

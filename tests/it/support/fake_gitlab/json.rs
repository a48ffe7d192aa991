//! Shapes of GitLab's answers.

use serde_json::{Value, json};

use super::state::{Hub, Item, Kind, LabelEvent, Note, Project};

/// A time as GitLab writes it.
pub fn stamp(seconds: i64) -> String {
    let time = chrono::DateTime::from_timestamp(seconds, 0).expect("a time within bounds");
    time.format("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

impl Hub {
    pub fn user_json(&self, username: &str) -> Value {
        let Some(user) = self.known(username).filter(|user| !user.gone) else { return Value::Null };
        json!({
            "id": user.id, "username": user.username, "name": user.username, "state": "active", "locked": false,
            "avatar_url": null, "web_url": format!("{}/{}", self.root, user.username),
        })
    }

    fn users_json(&self, usernames: &[String]) -> Vec<Value> {
        usernames.iter().map(|name| self.user_json(name)).collect()
    }

    pub fn project_json(&self, project: &Project, who: &str, simple: bool) -> Value {
        let name = project.path.rsplit('/').next().unwrap_or_default();
        let mut value = json!({
            "id": project.id, "name": name, "path": name, "path_with_namespace": project.path,
            "default_branch": project.default_branch,
            "web_url": format!("{}/{}", self.root, project.path),
            "http_url_to_repo": format!("{}/{}.git", self.root, project.path),
            "ssh_url_to_repo": format!("git@127.0.0.1:{}.git", project.path),
        });
        if !simple {
            value["archived"] = project.archived.into();
            value["issues_access_level"] = if project.has_issues { "enabled" } else { "disabled" }.into();
            value["empty_repo"] = false.into();
            value["visibility"] = if project.public { "public" } else { "private" }.into();
            let role = project.role(who);
            let access =
                (role > 0 && !project.hides_roles).then(|| json!({"access_level": role, "notification_level": 3}));
            value["permissions"] = json!({"project_access": access, "group_access": null});
        }
        value
    }

    pub fn item_json(&self, project: &Project, item: &Item) -> Value {
        let (path, mark) = match item.kind {
            Kind::Issue => ("issues", '#'),
            Kind::Request => ("merge_requests", '!'),
        };
        let short = format!("{mark}{}", item.iid);
        let mut value = json!({
            "id": item.id, "iid": item.iid, "project_id": project.id, "title": item.title,
            "description": item.description, "state": item.state, "labels": item.labels,
            "author": self.user_json(&item.author), "assignees": self.users_json(&item.assignees),
            "assignee": item.assignees.first().map(|name| self.user_json(name)),
            "created_at": stamp(item.created), "updated_at": stamp(item.updated), "milestone": null,
            // Null where nobody ever locked it.
            "discussion_locked": item.locked.then_some(true),
            "user_notes_count": item.notes.iter().filter(|note| !note.system).count(),
            "web_url": format!("{}/{}/-/{path}/{}", self.root, project.path, item.iid),
            "references": {"short": short, "relative": short, "full": format!("{}{short}", project.path)},
        });
        if item.kind == Kind::Issue {
            value["type"] = "ISSUE".into();
            value["confidential"] = item.confidential.into();
        } else {
            let draft = item.title.to_lowercase().starts_with("draft:");
            for (name, part) in [
                ("source_branch", json!(item.source_branch)),
                ("target_branch", json!(item.target_branch)),
                ("source_project_id", json!(item.source_project)),
                ("target_project_id", json!(project.id)),
                ("reviewers", json!(self.users_json(&item.reviewers))),
                ("draft", json!(draft)),
                ("work_in_progress", json!(draft)),
                ("merge_status", json!("can_be_merged")),
            ] {
                value[name] = part;
            }
            // Only said of requests from forks.
            if item.source_project != Some(project.id) {
                value["allow_collaboration"] = item.lets_in.into();
                value["allow_maintainer_to_push"] = item.lets_in.into();
            }
        }
        value
    }

    pub fn note_json(&self, project: &Project, item: &Item, note: &Note) -> Value {
        let kind = if item.kind == Kind::Issue { "Issue" } else { "MergeRequest" };
        let mut value = json!({
            "id": note.id, "type": null, "body": note.body, "author": self.user_json(&note.author),
            "created_at": stamp(note.created), "updated_at": stamp(note.updated), "system": note.system,
            "noteable_id": item.id, "noteable_type": kind, "noteable_iid": item.iid, "project_id": project.id,
            "resolvable": note.position.is_some(), "confidential": note.internal, "internal": note.internal,
        });
        if let Some((path, line)) = &note.position {
            value["type"] = "DiffNote".into();
            let old_line = if line.is_some() { None } else { Some(1) };
            value["position"] = json!({
                "position_type": "text", "old_path": path, "new_path": path, "old_line": old_line, "new_line": line,
                "base_sha": "0".repeat(40), "start_sha": "0".repeat(40), "head_sha": "1".repeat(40),
            });
        }
        value
    }

    pub fn event_json(&self, item: &Item, event: &LabelEvent) -> Value {
        json!({
            "id": event.id, "user": self.user_json(&event.actor), "created_at": stamp(event.created),
            "resource_type": if item.kind == Kind::Issue { "Issue" } else { "MergeRequest" }, "resource_id": item.id,
            "label": {"id": 1, "name": event.label, "color": "#ededed", "description": null},
            "action": if event.added { "add" } else { "remove" },
        })
    }
}

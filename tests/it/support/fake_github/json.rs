//! Shapes of GitHub's answers: users, repositories, labels, issues, comments, events.

pub use super::wire::segment;
use serde_json::{Map, Value, json};

use super::state::{Comment, Event, Gone, Hub, Item, Label, Lock, Permission, Repo, same};

/// A time as GitHub writes it.
pub fn stamp(seconds: i64) -> String {
    let time = chrono::DateTime::from_timestamp(seconds, 0).expect("a time within bounds");
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn node(id: u64) -> String {
    format!("N_{id:08x}")
}

const DEFAULT_LABELS: [&str; 9] = [
    "bug",
    "documentation",
    "duplicate",
    "enhancement",
    "good first issue",
    "help wanted",
    "invalid",
    "question",
    "wontfix",
];

impl Hub {
    pub fn repo_url(&self, repo: &Repo) -> String {
        format!("{}/repos/{}", self.api, repo.full())
    }

    pub fn html_url(&self, repo: &Repo) -> String {
        format!("{}/{}", self.web, repo.full())
    }

    /// Page of an item, for people.
    pub fn item_page(&self, repo: &Repo, item: &Item) -> String {
        let kind = if item.pull.is_some() { "pull" } else { "issues" };
        format!("{}/{kind}/{}", self.html_url(repo), item.number)
    }

    pub fn user_json(&self, login: &str) -> Value {
        let Some(user) = self.users.iter().find(|user| same(&user.login, login)) else { return Value::Null };
        let (login, id, kind) = match user.gone {
            Gone::Null => return Value::Null,
            Gone::Ghost => ("ghost", 10_137, "User"),
            Gone::No => (user.login.as_str(), user.id, user.kind),
        };
        let url = format!("{}/users/{}", self.api, segment(login));
        // An App's account has no page of its own.
        let page = login.strip_suffix("[bot]").map_or_else(|| login.to_owned(), |app| format!("apps/{app}"));
        let mut map = Map::new();
        for (name, tail) in [
            ("url", ""),
            ("followers_url", "/followers"),
            ("following_url", "/following{/other_user}"),
            ("gists_url", "/gists{/gist_id}"),
            ("starred_url", "/starred{/owner}{/repo}"),
            ("subscriptions_url", "/subscriptions"),
            ("organizations_url", "/orgs"),
            ("repos_url", "/repos"),
            ("events_url", "/events{/privacy}"),
            ("received_events_url", "/received_events"),
        ] {
            map.insert(name.to_owned(), json!(format!("{url}{tail}")));
        }
        merge(
            map,
            json!({
                "login": login, "id": id, "node_id": node(id), "avatar_url": format!("{}/avatars/{id}", self.web),
                "gravatar_id": "", "html_url": format!("{}/{page}", self.web), "type": kind, "site_admin": false,
            }),
        )
    }

    /// The repository as a part of lists and pull requests shows it.
    pub fn repo_json(&self, repo: &Repo, viewer: Option<&str>) -> Value {
        let (url, html) = (self.repo_url(repo), self.html_url(repo));
        let mut map = Map::new();
        for (name, tail) in REPO_URLS {
            map.insert((*name).to_owned(), json!(format!("{url}{tail}")));
        }
        let host = self.web.split("://").nth(1).unwrap_or_default();
        let open = repo.items.iter().filter(|item| item.closed.is_none() && !item.deleted).count();
        map.insert("has_discussions".to_owned(), json!(false));
        if let Some(viewer) = viewer {
            let held = repo.permission(viewer);
            map.insert(
                "permissions".to_owned(),
                json!({
                    "admin": held >= Permission::Admin, "maintain": held >= Permission::Maintain,
                    "push": held >= Permission::Write, "triage": held >= Permission::Triage,
                    "pull": held >= Permission::Read,
                }),
            );
        }
        merge(
            map,
            json!({
                "id": repo.id, "node_id": node(repo.id), "name": repo.name, "full_name": repo.full(),
                "private": repo.private, "owner": self.user_json(&repo.owner), "html_url": html, "description": null,
                "fork": repo.fork, "created_at": stamp(repo.created), "updated_at": stamp(repo.updated),
                "pushed_at": stamp(repo.updated), "git_url": format!("git://{host}/{}.git", repo.full()),
                "ssh_url": format!("git@{host}:{}.git", repo.full()), "clone_url": format!("{html}.git"),
                "svn_url": html, "homepage": null, "size": 0, "stargazers_count": 0, "watchers_count": 0,
                "language": null, "has_issues": repo.has_issues, "has_projects": true, "has_downloads": true,
                "has_wiki": true, "has_pages": false, "forks_count": 0, "mirror_url": null,
                "archived": repo.archived, "disabled": false, "open_issues_count": open, "license": null,
                "allow_forking": true, "is_template": false, "web_commit_signoff_required": false, "topics": [],
                "visibility": if repo.private { "private" } else { "public" }, "forks": 0, "open_issues": open,
                "watchers": 0, "default_branch": repo.default_branch,
            }),
        )
    }

    /// The repository asked for by itself.
    pub fn full_repo_json(&self, repo: &Repo, viewer: &str) -> Value {
        let Value::Object(mut map) = self.repo_json(repo, Some(viewer)) else { unreachable!() };
        let owner = self.user_json(&repo.owner);
        if owner["type"] == "Organization" {
            map.insert("organization".to_owned(), owner);
        }
        merge(
            map,
            json!({
                "temp_clone_token": "", "allow_squash_merge": true, "allow_merge_commit": true,
                "allow_rebase_merge": true, "allow_auto_merge": false, "delete_branch_on_merge": false,
                "allow_update_branch": false, "use_squash_pr_title_as_default": false, "network_count": 0,
                "subscribers_count": 0,
            }),
        )
    }

    pub fn label_json(&self, repo: &Repo, label: &Label) -> Value {
        json!({
            "id": label.id, "node_id": node(label.id),
            "url": format!("{}/labels/{}", self.repo_url(repo), segment(&label.name)), "name": label.name,
            "color": label.color, "default": DEFAULT_LABELS.contains(&label.name.as_str()),
            "description": label.description,
        })
    }

    pub fn labels_json(&self, repo: &Repo, item: &Item) -> Vec<Value> {
        let labels = item.labels.iter().filter_map(|id| repo.labels.iter().find(|label| label.id == *id));
        labels.map(|label| self.label_json(repo, label)).collect()
    }

    pub fn users_json(&self, logins: &[String]) -> Vec<Value> {
        logins.iter().map(|login| self.user_json(login)).collect()
    }

    /// An item as the issues lists show it, pull requests too.
    pub fn issue_json(&self, repo: &Repo, item: &Item) -> Value {
        let url = format!("{}/issues/{}", self.repo_url(repo), item.number);
        let assignees = self.users_json(&item.assignees);
        let reason = if item.closed.is_some() && item.pull.is_none() { json!("completed") } else { Value::Null };
        let mut map = Map::new();
        if let Some(pull) = &item.pull {
            let html = self.item_page(repo, item);
            map.insert(
                "pull_request".to_owned(),
                json!({
                    "url": format!("{}/pulls/{}", self.repo_url(repo), item.number), "html_url": html,
                    "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"),
                    "merged_at": pull.merged.as_ref().map(|(at, _)| stamp(*at)),
                }),
            );
            map.insert("draft".to_owned(), json!(pull.draft));
        }
        merge(
            map,
            json!({
                "url": url, "repository_url": self.repo_url(repo), "labels_url": format!("{url}/labels{{/name}}"),
                "comments_url": format!("{url}/comments"), "events_url": format!("{url}/events"),
                "html_url": self.item_page(repo, item), "id": item.id, "node_id": node(item.id),
                "number": item.number, "title": item.title, "user": self.user_json(&item.author),
                "labels": self.labels_json(repo, item), "state": state(item), "locked": item.lock != Lock::Open,
                "assignee": assignees.first().cloned().unwrap_or_default(), "assignees": assignees,
                "milestone": null, "comments": item.comments.len(), "created_at": stamp(item.created),
                "updated_at": stamp(item.updated), "closed_at": item.closed.as_ref().map(|(at, _)| stamp(*at)),
                "author_association": self.association(repo, &item.author), "active_lock_reason": null,
                "body": item.body, "reactions": reactions(&url), "timeline_url": format!("{url}/timeline"),
                "performed_via_github_app": null, "state_reason": reason,
            }),
        )
    }

    /// An item asked for by itself.
    pub fn full_issue_json(&self, repo: &Repo, item: &Item) -> Value {
        let Value::Object(map) = self.issue_json(repo, item) else { unreachable!() };
        let closer = item.closed.as_ref().map_or(Value::Null, |(_, who)| self.user_json(who));
        merge(map, json!({"closed_by": closer}))
    }

    pub fn comment_json(&self, repo: &Repo, item: &Item, comment: &Comment) -> Value {
        let url = format!("{}/issues/comments/{}", self.repo_url(repo), comment.id);
        json!({
            "url": url, "html_url": format!("{}#issuecomment-{}", self.item_page(repo, item), comment.id),
            "issue_url": format!("{}/issues/{}", self.repo_url(repo), item.number), "id": comment.id,
            "node_id": node(comment.id), "user": self.user_json(&comment.author),
            "created_at": stamp(comment.created), "updated_at": stamp(comment.updated), "body": comment.body,
            "author_association": self.association(repo, &comment.author), "reactions": reactions(&url),
            "performed_via_github_app": null,
        })
    }

    pub fn event_json(&self, repo: &Repo, event: &Event) -> Value {
        let mut map = Map::new();
        if let Some((name, color)) = &event.label {
            map.insert("label".to_owned(), json!({"name": name, "color": color}));
        }
        if let Some(assignee) = &event.assignee {
            map.insert("assignee".to_owned(), self.user_json(assignee));
            map.insert("assigner".to_owned(), self.user_json(&event.actor));
        }
        merge(
            map,
            json!({
                "id": event.id, "node_id": node(event.id),
                "url": format!("{}/issues/events/{}", self.repo_url(repo), event.id),
                "actor": self.user_json(&event.actor), "event": event.what, "commit_id": null, "commit_url": null,
                "created_at": stamp(event.created), "performed_via_github_app": null,
            }),
        )
    }

    pub fn association(&self, repo: &Repo, login: &str) -> &'static str {
        if self.known(login).is_none() {
            return "NONE";
        }
        let organization = self.known(&repo.owner).is_some_and(|user| user.kind == "Organization");
        let given = repo.permissions.iter().any(|(who, held)| same(who, login) && *held > Permission::None);
        match (same(login, &repo.owner), given, organization) {
            (true, _, _) => "OWNER",
            (false, true, true) => "MEMBER",
            (false, true, false) => "COLLABORATOR",
            _ => "NONE",
        }
    }
}

pub fn state(item: &Item) -> &'static str {
    if item.closed.is_some() { "closed" } else { "open" }
}

pub fn reactions(url: &str) -> Value {
    json!({
        "url": format!("{url}/reactions"), "total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "hooray": 0,
        "confused": 0, "heart": 0, "rocket": 0, "eyes": 0,
    })
}

/// Both objects in one.
pub fn merge(mut map: Map<String, Value>, more: Value) -> Value {
    let Value::Object(more) = more else { unreachable!() };
    map.extend(more);
    Value::Object(map)
}

const REPO_URLS: &[(&str, &str)] = &[
    ("url", ""),
    ("forks_url", "/forks"),
    ("keys_url", "/keys{/key_id}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("teams_url", "/teams"),
    ("hooks_url", "/hooks"),
    ("issue_events_url", "/issues/events{/number}"),
    ("events_url", "/events"),
    ("assignees_url", "/assignees{/user}"),
    ("branches_url", "/branches{/branch}"),
    ("tags_url", "/tags"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("trees_url", "/git/trees{/sha}"),
    ("statuses_url", "/statuses/{sha}"),
    ("languages_url", "/languages"),
    ("stargazers_url", "/stargazers"),
    ("contributors_url", "/contributors"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("commits_url", "/commits{/sha}"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("comments_url", "/comments{/number}"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("contents_url", "/contents/{+path}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("merges_url", "/merges"),
    ("archive_url", "/{archive_format}{/ref}"),
    ("downloads_url", "/downloads"),
    ("issues_url", "/issues{/number}"),
    ("pulls_url", "/pulls{/number}"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("labels_url", "/labels{/name}"),
    ("releases_url", "/releases{/id}"),
    ("deployments_url", "/deployments"),
];

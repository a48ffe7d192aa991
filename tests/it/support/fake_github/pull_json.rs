//! Shapes of GitHub's answers: pull requests, reviews, references, branches.

use serde_json::{Map, Value, json};

use super::git;
use super::json::{merge, reactions, segment, stamp, state};
use super::state::{Hub, Item, Lock, Pull, Repo, Review, ReviewComment};

pub fn ref_json(hub: &Hub, repo: &Repo, branch: &str, sha: &str) -> Value {
    let url = hub.repo_url(repo);
    json!({
        "ref": format!("refs/heads/{branch}"), "node_id": format!("REF_{}", segment(branch)),
        "url": format!("{url}/git/refs/heads/{branch}"),
        "object": {"sha": sha, "type": "commit", "url": format!("{url}/git/commits/{sha}")},
    })
}

pub fn branch_json(hub: &Hub, repo: &Repo, name: &str, sha: &str) -> Value {
    let protected = repo.protected.iter().any(|branch| branch == name);
    let level = if protected { "non_admins" } else { "off" };
    json!({
        "name": name, "commit": {"sha": sha, "url": format!("{}/commits/{sha}", hub.repo_url(repo))},
        "protected": protected,
        "protection": {
            "enabled": protected,
            "required_status_checks": {"enforcement_level": level, "contexts": [], "checks": []},
        },
        "protection_url": format!("{}/branches/{}/protection", hub.repo_url(repo), segment(name)),
    })
}

/// The newest commit of a branch; its people are not matched with users.
pub fn commit_json(hub: &Hub, repo: &Repo, sha: &str) -> Value {
    let url = hub.repo_url(repo);
    let shown = git::run(&hub.git_root, repo.id, &["log", "-1", "--format=%T%n%P%n%an%n%ae%n%at%n%B", sha]);
    let lines: Vec<&str> = shown.lines().collect();
    let person = json!({"name": lines[2], "email": lines[3], "date": stamp(lines[4].parse().unwrap_or_default())});
    let parents = lines[1].split_whitespace().map(|parent| {
        json!({
            "sha": parent, "url": format!("{url}/commits/{parent}"),
            "html_url": format!("{}/commit/{parent}", hub.html_url(repo)),
        })
    });
    json!({
        "sha": sha, "node_id": format!("C_{sha}"), "url": format!("{url}/commits/{sha}"),
        "html_url": format!("{}/commit/{sha}", hub.html_url(repo)), "comments_url": format!("{url}/commits/{sha}/comments"),
        "commit": {
            "author": person, "committer": person, "message": lines[5..].join("\n"),
            "tree": {"sha": lines[0], "url": format!("{url}/git/trees/{}", lines[0])},
            "url": format!("{url}/git/commits/{sha}"), "comment_count": 0,
            "verification": {
                "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null,
            },
        },
        "author": null, "committer": null, "parents": parents.collect::<Vec<_>>(),
    })
}

/// A pull request as lists show it.
pub fn pull_json(hub: &Hub, repo: &Repo, item: &Item, pull: &Pull, viewer: &str) -> Value {
    let url = format!("{}/pulls/{}", hub.repo_url(repo), item.number);
    let issue = format!("{}/issues/{}", hub.repo_url(repo), item.number);
    let html = hub.item_page(repo, item);
    let statuses = format!("{}/statuses/{}", hub.repo_url(repo), pull.head_sha);
    let review_comment = format!("{}/pulls/comments{{/number}}", hub.repo_url(repo));
    let end = |owner: &str, branch: &str, sha: &str, from: Option<&Repo>| {
        let shown = from.map_or(Value::Null, |from| hub.repo_json(from, Some(viewer)));
        json!({
            "label": format!("{owner}:{branch}"), "ref": branch, "sha": sha, "user": hub.user_json(owner), "repo": shown,
        })
    };
    let from = pull.head_repo.and_then(|id| hub.repos.iter().find(|other| other.id == id));
    let assignees = hub.users_json(&item.assignees);
    let link = |href: &str| json!({"href": href});
    let mut map = Map::new();
    map.insert("head".to_owned(), end(&pull.head_owner, &pull.head_branch, &pull.head_sha, from));
    map.insert("base".to_owned(), end(&repo.owner, &pull.base_branch, &pull.base_sha, Some(repo)));
    merge(
        map,
        json!({
            "url": url, "id": pull.id, "node_id": format!("PR_{}", pull.id), "html_url": html,
            "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"), "issue_url": issue,
            "commits_url": format!("{url}/commits"), "review_comments_url": format!("{url}/comments"),
            "review_comment_url": review_comment, "comments_url": format!("{issue}/comments"),
            "statuses_url": statuses, "number": item.number, "state": state(item),
            "locked": item.lock != Lock::Open, "title": item.title, "user": hub.user_json(&item.author),
            "body": item.body, "labels": hub.labels_json(repo, item), "milestone": null,
            "active_lock_reason": null, "created_at": stamp(item.created), "updated_at": stamp(item.updated),
            "closed_at": item.closed.as_ref().map(|(at, _)| stamp(*at)),
            "merged_at": pull.merged.as_ref().map(|(at, _)| stamp(*at)), "merge_commit_sha": pull.merge_sha,
            "assignee": assignees.first().cloned().unwrap_or_default(), "assignees": assignees,
            "requested_reviewers": hub.users_json(&pull.reviewers), "requested_teams": [],
            "_links": {
                "self": link(&url), "html": link(&html), "issue": link(&issue),
                "comments": link(&format!("{issue}/comments")), "review_comments": link(&format!("{url}/comments")),
                "review_comment": link(&review_comment), "commits": link(&format!("{url}/commits")),
                "statuses": link(&statuses),
            },
            "author_association": hub.association(repo, &item.author), "auto_merge": null, "draft": pull.draft,
        }),
    )
}

/// A pull request asked for by itself.
pub fn full_json(hub: &Hub, repo: &Repo, item: &Item, pull: &Pull, viewer: &str) -> Value {
    let Value::Object(map) = pull_json(hub, repo, item, pull, viewer) else { unreachable!() };
    let ids = [Some(repo.id), pull.head_repo];
    let ids: Vec<u64> = ids.into_iter().flatten().collect();
    merge(
        map,
        json!({
            "merged": pull.merged.is_some(), "mergeable": if item.closed.is_some() { Value::Null } else { json!(true) },
            "rebaseable": null, "mergeable_state": if item.closed.is_some() { "unknown" } else { "clean" },
            "merged_by": pull.merged.as_ref().map_or(Value::Null, |(_, who)| hub.user_json(who)),
            "comments": item.comments.len(), "review_comments": pull.review_comments.len(),
            "maintainer_can_modify": pull.maintainer_can_modify,
            "commits": git::ahead(&hub.git_root, &ids, &pull.base_sha, &pull.head_sha), "additions": 0,
            "deletions": 0, "changed_files": 0,
        }),
    )
}

pub fn review_json(hub: &Hub, repo: &Repo, item: &Item, review: &Review) -> Value {
    let html = format!("{}#pullrequestreview-{}", hub.item_page(repo, item), review.id);
    let url = format!("{}/pulls/{}", hub.repo_url(repo), item.number);
    json!({
        "id": review.id, "node_id": format!("PRR_{}", review.id), "user": hub.user_json(&review.author),
        "body": review.body, "state": review.state, "html_url": html, "pull_request_url": url,
        "_links": {"html": {"href": html}, "pull_request": {"href": url}}, "submitted_at": stamp(review.submitted),
        "commit_id": review.commit, "author_association": hub.association(repo, &review.author),
    })
}

pub fn review_comment_json(hub: &Hub, repo: &Repo, item: &Item, comment: &ReviewComment) -> Value {
    let url = format!("{}/pulls/comments/{}", hub.repo_url(repo), comment.id);
    let html = format!("{}#discussion_r{}", hub.item_page(repo, item), comment.id);
    let pull = format!("{}/pulls/{}", hub.repo_url(repo), item.number);
    let mut map = Map::new();
    if let Some(id) = comment.in_reply_to {
        map.insert("in_reply_to_id".to_owned(), json!(id));
    }
    merge(
        map,
        json!({
            "url": url, "pull_request_review_id": comment.review, "id": comment.id,
            "node_id": format!("PRRC_{}", comment.id), "diff_hunk": comment.hunk, "path": comment.path,
            "position": comment.line.map(|_| 1), "original_position": 1, "commit_id": comment.commit,
            "original_commit_id": comment.commit, "user": hub.user_json(&comment.author), "body": comment.body,
            "created_at": stamp(comment.created), "updated_at": stamp(comment.updated), "html_url": html,
            "pull_request_url": pull, "author_association": hub.association(repo, &comment.author),
            "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": pull}},
            "start_line": null, "original_start_line": null, "start_side": null, "line": comment.line,
            "original_line": comment.line.unwrap_or(1), "side": "RIGHT", "subject_type": "line",
            "reactions": reactions(&url),
        }),
    )
}

//! Calls on pull requests, reviews, references and branches.

use serde_json::{Value, json};

use super::door::{Answer, Asked, invalid, not_found, refuse};
use super::git;
use super::issues::LONGEST_BODY;
use super::json::{merge, segment, state};
use super::page;
use super::pull_json::{branch_json, commit_json, full_json, pull_json, ref_json, review_comment_json, review_json};
use super::state::{Hub, Item, Permission, Pull, Repo, same};
use super::table::Call;
use super::wire::Reply;

pub fn answer(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    refresh(hub);
    match asked.row.call {
        Call::Pulls => list(hub, asked),
        Call::Pull => {
            let (repo, item, pull) = found(hub, asked)?;
            Ok(Reply::json(200, &full_json(hub, repo, item, pull, &asked.who)))
        }
        Call::CreatePull => create(hub, asked),
        Call::PatchPull => change(hub, asked),
        Call::Reviews => {
            let (repo, item, pull) = found(hub, asked)?;
            Ok(page::reply(asked, &pull.reviews, |review| review_json(hub, repo, item, review)))
        }
        Call::ReviewComments => {
            let (repo, item, pull) = found(hub, asked)?;
            let mut all: Vec<_> = pull.review_comments.iter().collect();
            if asked.param("direction") == Some("desc") && asked.param("sort").is_some() {
                all.reverse();
            }
            Ok(page::reply(asked, &all, |comment| review_comment_json(hub, repo, item, comment)))
        }
        Call::RequestReviewers => request(hub, asked),
        Call::GetRef => {
            let repo = &hub.repos[asked.repo];
            let branch = asked.names[0].strip_prefix("heads/").ok_or_else(not_found)?;
            let sha = git::branch_sha(&hub.git_root, repo.id, branch).ok_or_else(not_found)?;
            Ok(Reply::json(200, &ref_json(hub, repo, branch, &sha)))
        }
        Call::CreateRef => create_ref(hub, asked),
        Call::Branches => {
            let repo = &hub.repos[asked.repo];
            let mut all = git::branches(&hub.git_root, repo.id);
            if let Some(wanted) = asked.param("protected") {
                all.retain(|(name, _)| repo.protected.contains(name) == (wanted == "true"));
            }
            Ok(page::reply(asked, &all, |(name, sha)| branch_json(hub, repo, name, sha)))
        }
        Call::Branch => branch(hub, asked),
        _ => Err(not_found()),
    }
}

/// Heads and bases of open pull requests follow their branches.
pub fn refresh(hub: &mut Hub) {
    let root = hub.git_root.clone();
    for repo in &mut hub.repos {
        let id = repo.id;
        for item in repo.items.iter_mut().filter(|item| item.closed.is_none()) {
            let Some(pull) = &mut item.pull else { continue };
            if let Some(sha) = pull.head_repo.and_then(|head| git::branch_sha(&root, head, &pull.head_branch)) {
                pull.head_sha = sha;
            }
            if let Some(sha) = git::branch_sha(&root, id, &pull.base_branch) {
                pull.base_sha = sha;
            }
        }
    }
}

fn found<'a>(hub: &'a Hub, asked: &Asked<'_>) -> Result<(&'a Repo, &'a Item, &'a Pull), Reply> {
    let repo = &hub.repos[asked.repo];
    let item = repo.item(asked.number(0)?).filter(|item| !item.deleted).ok_or_else(not_found)?;
    Ok((repo, item, item.pull.as_ref().ok_or_else(not_found)?))
}

fn list(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let head = asked.param("head").map(str::to_owned);
    if head.as_ref().is_some_and(|head| !head.contains(':')) {
        // GitHub ignores the filter and lists every pull request.
        hub.violate(format!("{}: head without an owner filters nothing", asked.request.line()));
    }
    let repo = &hub.repos[asked.repo];
    let wanted = asked.param("state").unwrap_or("open");
    let mut all: Vec<(&Item, &Pull)> = repo
        .items
        .iter()
        .filter_map(|item| Some((item, item.pull.as_ref()?)))
        .filter(|(item, _)| !item.deleted && (wanted == "all" || wanted == state(item)))
        .filter(|(_, pull)| asked.param("base").is_none_or(|base| pull.base_branch == base))
        .filter(|(_, pull)| match head.as_ref().and_then(|head| head.split_once(':')) {
            Some((owner, branch)) => same(&pull.head_owner, owner) && pull.head_branch == branch,
            None => true,
        })
        .collect();
    match asked.param("sort").unwrap_or("created") {
        "updated" => all.sort_by_key(|(item, _)| (item.updated, item.number)),
        _ => all.sort_by_key(|(item, _)| item.number),
    }
    // Newest first, unless a sort was asked for without a direction.
    let fallback = if asked.param("sort").is_none_or(|sort| sort == "created") { "desc" } else { "asc" };
    if asked.param("direction").unwrap_or(fallback) == "desc" {
        all.reverse();
    }
    Ok(page::reply(asked, &all, |(item, pull)| pull_json(hub, repo, item, pull, &asked.who)))
}

fn create(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (head, base) = (asked.text("head").unwrap_or_default(), asked.text("base").unwrap_or_default());
    let title = asked.text("title").unwrap_or_default();
    let repo = &hub.repos[asked.repo];
    asked.need(repo, Permission::Read)?;
    let wrong = |errors: Value| Err(invalid(errors));
    let field = |name: &str, code: &str| json!([{"resource": "PullRequest", "field": name, "code": code}]);
    let custom = |message: String| json!([{"resource": "PullRequest", "code": "custom", "message": message}]);
    let (owner, branch) = match head.split_once(':') {
        Some((owner, branch)) => (owner.to_owned(), branch.to_owned()),
        None => (repo.owner.clone(), head.clone()),
    };
    let from = hub.repos.iter().find(|other| same(&other.owner, &owner) && (other.id == repo.id || other.fork));
    let from = from.map(|other| (other.id, asked.held(other)));
    if let Some((_, held)) = from
        && held < Permission::Write
    {
        return Err(refuse(403, "Resource not accessible by personal access token"));
    }
    let Some(base_sha) = git::branch_sha(&hub.git_root, repo.id, &base) else {
        return wrong(field("base", "invalid"));
    };
    let Some((from, head_sha)) = from.and_then(|(id, _)| Some((id, git::branch_sha(&hub.git_root, id, &branch)?)))
    else {
        return wrong(field("head", "invalid"));
    };
    if title.trim().is_empty() {
        return wrong(field("title", "missing_field"));
    }
    let body = asked.text("body");
    if body.as_ref().is_some_and(|body| body.chars().count() > LONGEST_BODY) {
        let message = format!("body is too long (maximum is {LONGEST_BODY} characters)");
        return wrong(json!([{"resource": "Issue", "code": "custom", "field": "body", "message": message}]));
    }
    if git::ahead(&hub.git_root, &[repo.id, from], &base_sha, &head_sha) == 0 {
        let names = if from == repo.id {
            (base, branch)
        } else {
            (format!("{}:{base}", repo.owner), format!("{owner}:{branch}"))
        };
        return wrong(custom(format!("No commits between {} and {}", names.0, names.1)));
    }
    let twin = repo
        .items
        .iter()
        .filter(|item| item.closed.is_none())
        .filter_map(|item| item.pull.as_ref())
        .any(|pull| pull.head_branch == branch && same(&pull.head_owner, &owner) && pull.base_branch == base);
    if twin {
        return wrong(custom(format!("A pull request already exists for {owner}:{branch}.")));
    }
    let draft = asked.body["draft"].as_bool().unwrap_or(false);
    if draft && !repo.drafts {
        return Err(refuse(422, "Draft pull requests are not supported in this repository."));
    }
    let pull = Pull {
        id: hub.id(),
        head_owner: owner,
        head_branch: branch,
        head_repo: Some(from),
        head_sha,
        base_branch: base,
        base_sha,
        draft,
        merged: None,
        merge_sha: None,
        reviewers: Vec::new(),
        reviews: Vec::new(),
        review_comments: Vec::new(),
        maintainer_can_modify: asked.body["maintainer_can_modify"].as_bool().unwrap_or(false),
    };
    let number = hub.open(asked.repo, &title, body, &asked.who, Some(pull));
    let repo = &hub.repos[asked.repo];
    let item = repo.item(number).ok_or_else(not_found)?;
    let value = full_json(hub, repo, item, item.pull.as_ref().ok_or_else(not_found)?, &asked.who);
    let location = value["url"].as_str().unwrap_or_default().to_owned();
    Ok(Reply::json(201, &value).with("location", location))
}

fn change(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (repo, item, pull) = found(hub, asked)?;
    let number = item.number;
    let own = same(&item.author, &asked.who);
    asked.need(repo, if own { Permission::Read } else { Permission::Write })?;
    let merged = pull.merged.is_some();
    let wanted = asked.text("state");
    if wanted.as_deref().is_some_and(|state| !["open", "closed"].contains(&state) || (merged && state == "open")) {
        return Err(invalid(json!([{"resource": "PullRequest", "field": "state", "code": "invalid"}])));
    }
    match wanted.as_deref() {
        Some("closed") if item.closed.is_none() => hub.shut(asked.repo, number, &asked.who),
        Some("open") if item.closed.is_some() => hub.reopen(asked.repo, number, &asked.who),
        _ => {}
    }
    let now = hub.tick();
    let item = hub.repos[asked.repo].item_mut(number).ok_or_else(not_found)?;
    item.updated = now;
    if let Some(title) = asked.text("title") {
        item.title = title;
    }
    if let Some(body) = asked.text("body") {
        item.body = Some(body);
    }
    if let (Some(base), Some(pull)) = (asked.text("base"), &mut item.pull) {
        pull.base_branch = base;
    }
    let (repo, item, pull) = found(hub, asked)?;
    Ok(Reply::json(200, &full_json(hub, repo, item, pull, &asked.who)))
}

fn request(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (repo, item, _) = found(hub, asked)?;
    let number = item.number;
    asked.need(repo, Permission::Write)?;
    let wanted = asked.texts("reviewers");
    if wanted.iter().any(|login| same(login, &item.author)) {
        return Err(refuse(422, "Review cannot be requested from pull request author."));
    }
    let stranger = |login: &String| hub.known(login).is_none() || hub.association(repo, login) == "NONE";
    if wanted.iter().any(stranger) || !asked.texts("team_reviewers").is_empty() {
        let text = format!(
            "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not \
             a collaborator of the {} repository.",
            repo.full()
        );
        return Err(refuse(422, &text));
    }
    for login in wanted {
        let item = hub.repos[asked.repo].item_mut(number).ok_or_else(not_found)?;
        let pull = item.pull.as_mut().ok_or_else(not_found)?;
        if !pull.reviewers.iter().any(|who| same(who, &login)) {
            pull.reviewers.push(login);
            hub.happens(asked.repo, number, "review_requested", &asked.who, None, None);
        }
    }
    let (repo, item, pull) = found(hub, asked)?;
    Ok(Reply::json(201, &pull_json(hub, repo, item, pull, &asked.who)))
}

fn create_ref(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (name, sha) = (asked.text("ref").unwrap_or_default(), asked.text("sha").unwrap_or_default());
    let repo = &hub.repos[asked.repo];
    asked.need(repo, Permission::Write)?;
    let Some(branch) = name.strip_prefix("refs/heads/") else {
        return Err(refuse(422, "Reference name must start with 'refs/' and have at least two slashes."));
    };
    if git::branches(&hub.git_root, repo.id).is_empty() {
        return Err(refuse(409, "Git Repository is empty."));
    }
    if git::branch_sha(&hub.git_root, repo.id, branch).is_some() {
        return Err(refuse(422, "Reference already exists"));
    }
    if !git::has_commit(&hub.git_root, repo.id, &sha) {
        return Err(refuse(422, "Object does not exist"));
    }
    if git::update_ref(&hub.git_root, repo.id, branch, &sha).is_err() {
        return Err(refuse(422, "Reference update failed"));
    }
    hub.tick();
    let value = ref_json(hub, &hub.repos[asked.repo], branch, &sha);
    let location = value["url"].as_str().unwrap_or_default().to_owned();
    Ok(Reply::json(201, &value).with("location", location))
}

fn branch(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let repo = &hub.repos[asked.repo];
    let name = &asked.names[0];
    let sha = git::branch_sha(&hub.git_root, repo.id, name).ok_or_else(|| refuse(404, "Branch not found"))?;
    let Value::Object(map) = branch_json(hub, repo, name, &sha) else { unreachable!() };
    let links = json!({
        "self": format!("{}/branches/{}", hub.repo_url(repo), segment(name)),
        "html": format!("{}/tree/{name}", hub.html_url(repo)),
    });
    let commit = commit_json(hub, repo, &sha);
    Ok(Reply::json(200, &merge(map, json!({"_links": links, "commit": commit}))))
}

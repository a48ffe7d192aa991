//! `GET /search/issues`: the query language as far as clients of ours may use it, with its traps
//! (unquoted spaces part words, the index lags, nothing behind the thousandth result).

use serde_json::json;

use super::door::{Answer, Asked, invalid, refuse};
use super::page;
use super::state::{Hub, Item, Permission, Repo, same};
use super::wire::Reply;

/// One word of a query.
#[derive(Debug, PartialEq, Eq)]
pub struct Term {
    pub negated: bool,
    pub key: Option<String>,
    /// More than one where commas part them outside of quotes: any of them will do.
    pub values: Vec<String>,
}

/// Parts a query into terms. Quotes keep spaces and commas; a backslash inside them keeps the next character.
pub fn terms(query: &str) -> Result<Vec<Term>, String> {
    let mut terms = Vec::new();
    let mut rest = query.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            return Ok(terms);
        }
        let negated = rest.next_if_eq(&'-').is_some();
        let (mut key, mut values, mut word) = (None, Vec::new(), String::new());
        let mut quoted = false;
        while let Some(c) = rest.next() {
            match c {
                '"' => quoted = !quoted,
                '\\' if quoted => word.extend(rest.next()),
                c if quoted => word.push(c),
                c if c.is_whitespace() => break,
                ':' if key.is_none() => key = Some(std::mem::take(&mut word)),
                ',' if key.is_some() => values.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        if quoted {
            return Err(format!("quotes left open in {query:?}"));
        }
        values.push(word);
        terms.push(Term { negated, key, values });
    }
}

const LISTED: &str = "The listed users and repositories cannot be searched either because the resources do not \
                      exist or you do not have permission to view them.";

fn refusal(message: &str) -> Reply {
    invalid(json!([{"message": message, "resource": "Search", "field": "q", "code": "invalid"}]))
}

pub fn answer(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let query = asked.param("q").unwrap_or_default().to_owned();
    if query.trim().is_empty() {
        return Err(invalid(json!([{"resource": "Search", "field": "q", "code": "missing"}])));
    }
    let terms = match terms(&query) {
        Ok(terms) => terms,
        Err(why) => {
            hub.violate(format!("search: {why}"));
            return Err(refusal("The search contains unbalanced quotes."));
        }
    };
    check(hub, asked, &terms)?;
    let view = hub.stale_index.as_ref().unwrap_or(&hub.repos);
    let mut found: Vec<(&Repo, &Item)> = Vec::new();
    for repo in view.iter().filter(|repo| asked.held(repo) > Permission::None) {
        let items = repo.items.iter().filter(|item| !item.deleted && (item.pull.is_some() || repo.has_issues));
        found.extend(items.filter(|item| matches(repo, item, &terms, &asked.who)).map(|item| (repo, item)));
    }
    match asked.param("sort") {
        Some("updated") => found.sort_by_key(|(_, item)| (-item.updated, item.id)),
        Some("comments") => found.sort_by_key(|(_, item)| std::cmp::Reverse(item.comments.len())),
        _ => found.sort_by_key(|(_, item)| (-item.created, item.id)),
    }
    if asked.param("order") == Some("asc") {
        found.reverse();
    }
    let (range, link) = page::cut(asked, found.len().min(1000));
    let page: usize = asked.param("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let size: usize = asked.param("per_page").and_then(|size| size.parse().ok()).unwrap_or(30);
    if (page.max(1) - 1) * size.min(100) >= 1000 {
        return Err(refuse(422, "Only the first 1000 search results are available"));
    }
    let items: Vec<_> = found[range]
        .iter()
        .map(|(repo, item)| {
            let mut value = hub.issue_json(repo, item);
            value["score"] = json!(1.0);
            value
        })
        .collect();
    let body = json!({
        "total_count": found.len(), "incomplete_results": hub.incomplete_search, "search_type": "lexical",
        "items": items,
    });
    let reply = Reply::json(200, &body);
    Ok(match link {
        Some(link) => reply.with("link", link),
        None => reply,
    })
}

fn check(hub: &mut Hub, asked: &Asked<'_>, terms: &[Term]) -> Result<(), Reply> {
    let mut typed = false;
    let words: usize = terms.iter().filter(|t| t.key.is_none()).map(|t| t.values[0].chars().count() + 1).sum();
    if words > 257 {
        return Err(refusal("The search is longer than 256 characters."));
    }
    let (mut scopes, mut seen) = (0, 0);
    for term in terms {
        let Some(key) = &term.key else { continue };
        for value in &term.values {
            let known = match key.as_str() {
                "is" | "type" | "state" => {
                    typed |= matches!(value.as_str(), "issue" | "pr" | "pull-request");
                    ["issue", "pr", "pull-request", "open", "closed", "merged", "unmerged", "public", "private"]
                        .contains(&value.as_str())
                }
                "repo" => {
                    scopes += 1;
                    seen +=
                        usize::from(hub.repo_at(value).is_some_and(|at| asked.held(&hub.repos[at]) > Permission::None));
                    value.contains('/')
                }
                "user" | "org" => {
                    scopes += 1;
                    seen += usize::from(value == "@me" || hub.known(value).is_some());
                    true
                }
                "label" | "assignee" | "author" | "no" | "archived" | "in" => true,
                _ => false,
            };
            if !known {
                hub.violate(format!("search: {key}:{value} is not modelled or not GitHub's"));
            }
        }
    }
    if scopes > 0 && seen == 0 {
        return Err(refusal(LISTED));
    }
    if !typed {
        return Err(refusal("Query must include 'is:issue' or 'is:pull-request'"));
    }
    Ok(())
}

fn matches(repo: &Repo, item: &Item, terms: &[Term], me: &str) -> bool {
    let who = |login: &str, value: &str| same(login, if value == "@me" { me } else { value });
    // Several scopes widen the search, everything else narrows it.
    let scopes: Vec<bool> = terms
        .iter()
        .filter(|term| !term.negated)
        .filter_map(|term| {
            let any = |test: &dyn Fn(&str) -> bool| term.values.iter().any(|value| test(value));
            match term.key.as_deref()? {
                "repo" => Some(any(&|value| same(&repo.full(), value))),
                "user" | "org" => Some(any(&|value| who(&repo.owner, value))),
                _ => None,
            }
        })
        .collect();
    if !scopes.is_empty() && !scopes.contains(&true) {
        return false;
    }
    terms.iter().all(|term| {
        let scope = matches!(term.key.as_deref(), Some("repo" | "user" | "org"));
        if scope && !term.negated {
            return true;
        }
        let found = term.values.iter().any(|value| match term.key.as_deref() {
            None => {
                let text = format!("{} {}", item.title, item.body.as_deref().unwrap_or_default()).to_lowercase();
                text.contains(&value.to_lowercase())
            }
            Some("repo") => same(&repo.full(), value),
            Some("user" | "org") => who(&repo.owner, value),
            Some("label") => repo.names(item).any(|name| same(name, value)),
            Some("assignee") => item.assignees.iter().any(|login| who(login, value)),
            Some("author") => who(&item.author, value),
            Some("no") => match value.as_str() {
                "label" => item.labels.is_empty(),
                _ => item.assignees.is_empty(),
            },
            Some("archived") => repo.archived == (value == "true"),
            Some("is" | "type" | "state") => match value.as_str() {
                "issue" => item.pull.is_none(),
                "pr" | "pull-request" => item.pull.is_some(),
                "open" => item.closed.is_none(),
                "closed" => item.closed.is_some(),
                "merged" => item.pull.as_ref().is_some_and(|pull| pull.merged.is_some()),
                "unmerged" => item.pull.as_ref().is_some_and(|pull| pull.merged.is_none()),
                "public" => !repo.private,
                _ => repo.private,
            },
            _ => true,
        });
        found != term.negated
    })
}

//! Paging by numbers, as GitLab does it.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::super::fake_forge::wire::{Reply, Request, segment};
use super::door::Asked;
use super::state::Hub;

/// One page of a list with its headers.
pub fn reply<T>(hub: &Hub, asked: &Asked<'_>, all: &[T], show: impl Fn(&T) -> Value) -> Reply {
    let number = |name: &str, default: usize| asked.param(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (size, page) = (number("per_page", 20).clamp(1, 100), number("page", 1).max(1));
    let last = all.len().div_ceil(size).max(1);
    let start = ((page - 1) * size).min(all.len());
    let shown = all[start..(start + size).min(all.len())].iter().map(show).collect();
    let or_nothing = |page: usize, is_there: bool| if is_there { page.to_string() } else { String::new() };
    let mut reply = Reply::json(200, &Value::Array(shown))
        .with("x-page", page.to_string())
        .with("x-per-page", size.to_string())
        .with("x-prev-page", or_nothing(page - 1, page > 1))
        .with("x-next-page", or_nothing(page + 1, page < last));
    let others: String = asked
        .query
        .iter()
        .filter(|(name, _)| name != "page")
        .map(|(name, value)| format!("&{name}={}", segment(value)))
        .collect();
    let root = hub.link_root.as_ref().unwrap_or(&hub.root);
    let url = |page: usize, rel: &str| format!("<{root}{}?page={page}{others}>; rel=\"{rel}\"", asked.request.path);
    let mut links = Vec::new();
    if page < last {
        links.push(url(page + 1, "next"));
    }
    links.push(url(1, "first"));
    if !hub.hides_totals && all.len() <= 10_000 {
        reply = reply.with("x-total", all.len().to_string()).with("x-total-pages", last.to_string());
        links.push(url(last, "last"));
    }
    reply.with("link", links.join(", "))
}

/// Adds a weak entity tag of the body alone; a client that has it already gets a 304.
pub fn tag(request: &Request, mut reply: Reply) -> Reply {
    if request.method != "GET" || reply.status != 200 {
        return reply;
    }
    let mut hasher = DefaultHasher::new();
    reply.body.hash(&mut hasher);
    let tag = format!("W/\"{:032x}\"", hasher.finish());
    if request.header("if-none-match") == Some(tag.as_str()) {
        (reply.status, reply.body) = (304, Vec::new());
    }
    reply.with("etag", tag)
}

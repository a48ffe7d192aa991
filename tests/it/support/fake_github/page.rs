//! Paging as GitHub does it, and entity tags.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use serde_json::Value;

use super::door::Asked;
use super::json::segment;
use super::wire::{Reply, Request};

/// The part of a list that was asked for, and the Link header that leads to the others.
pub fn cut(asked: &Asked<'_>, total: usize) -> (Range<usize>, Option<String>) {
    let number = |name: &str, default: usize| {
        asked.param(name).and_then(|text| text.parse().ok()).filter(|number| *number > 0).unwrap_or(default)
    };
    let (size, page) = (number("per_page", 30).min(100), number("page", 1));
    let last = total.div_ceil(size).max(1);
    let start = ((page - 1) * size).min(total);
    let end = (start + size).min(total);
    let others: Vec<String> = asked
        .query
        .iter()
        .filter(|(name, _)| name != "page")
        .map(|(name, value)| format!("{name}={}", segment(value)))
        .collect();
    let url = |page: usize| {
        let query: Vec<String> = others.iter().cloned().chain([format!("page={page}")]).collect();
        format!("<{}?{}>", asked.link, query.join("&"))
    };
    let mut links = Vec::new();
    if page > 1 {
        links.push(format!("{}; rel=\"prev\"", url((page - 1).min(last))));
    }
    if page < last {
        links.push(format!("{}; rel=\"next\"", url(page + 1)));
        links.push(format!("{}; rel=\"last\"", url(last)));
    }
    if page > 1 {
        links.push(format!("{}; rel=\"first\"", url(1)));
    }
    (start..end, (!links.is_empty()).then(|| links.join(", ")))
}

/// One page of a list.
pub fn reply<T>(asked: &Asked<'_>, all: &[T], show: impl Fn(&T) -> Value) -> Reply {
    let (range, link) = cut(asked, all.len());
    let reply = Reply::json(200, &Value::Array(all[range].iter().map(show).collect()));
    match link {
        Some(link) => reply.with("link", link),
        None => reply,
    }
}

/// Adds a weak entity tag to an answer; a client that has it already gets a 304.
pub fn tag(request: &Request, reply: Reply) -> Reply {
    if request.method != "GET" || reply.status != 200 {
        return reply;
    }
    if request.path.contains("/search/") {
        return reply.with("cache-control", "no-cache");
    }
    let mut hasher = DefaultHasher::new();
    reply.body.hash(&mut hasher);
    reply.headers.hash(&mut hasher);
    let first = hasher.finish();
    request.header("authorization").hash(&mut hasher);
    let tag = format!("{first:016x}{:016x}", hasher.finish());
    let had = request.header("if-none-match").is_some_and(|tags| tags.contains(&format!("\"{tag}\"")));
    let reply = if had {
        Reply { status: 304, body: Vec::new(), headers: Vec::new() }
    } else {
        reply.with("cache-control", "private, max-age=60, s-maxage=60")
    };
    reply.with("etag", format!("W/\"{tag}\""))
}

//! Requests to GitLab: the token, pages, rate limits, retries, and what an error means. Knows no task.
//! A read may be repeated; a write is never repeated here, since nobody knows whether it took effect.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::rest::{MOST_BODY_BYTES, MOST_PAGES, TRIES, elsewhere, next_link, path_of, patiently};
use super::wire::ErrorBody;
use crate::config::Secret;
use crate::error::{Context, Error, Kind, Result};
use crate::sys::clock;
use crate::sys::http::{HttpClient, HttpRequest, HttpResponse, same_origin};

/// The wait after a 429 that names none; GitLab counts requests per minute (docs: "User and IP rate limits").
const LIMIT_WAIT_MS: u64 = 60_000;

/// The REST API with our token.
pub struct Api {
    client: HttpClient,
    base: String,
    token: Secret,
}

/// An answer that was not an error of transport, limit or token.
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// What the server says, where the status is an error.
    pub error: ErrorBody,
    response: HttpResponse,
}

impl Answer {
    /// Whether the status is 2xx.
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.header(name)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// `Kind::Later` when it is none: a proxy in between answered, or the body broke off.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.response.body)
            .context(Kind::Later, || format!("cannot understand the answer of `{}`", self.response.url))
    }

    /// The error that a bad status means for this item.
    pub fn refusal(&self, what: &str) -> Error {
        let said = self.error.sentence();
        let said = if said.is_empty() { format!("status {}", self.status) } else { said };
        let error = Error::task(format!("{what}: GitLab says: {said}"));
        match self.status {
            403 => error.hint("the account lacks a right for this; see the README for the rights it needs"),
            404 => error.hint("it does not exist, or the account may not see it"),
            _ => error,
        }
    }

    /// The body as JSON, where the status is good.
    ///
    /// # Errors
    /// As [`Answer::refusal`] and [`Answer::json`].
    pub fn good_json<T: DeserializeOwned>(&self, what: impl FnOnce() -> String) -> Result<T> {
        if self.is_good() { self.json() } else { Err(self.refusal(&what())) }
    }
}

impl Api {
    /// The API at `base` (no slash at the end).
    pub fn new(client: HttpClient, base: String, token: Secret) -> Self {
        Self { client, base, token }
    }

    /// A read, repeated after passing faults.
    ///
    /// # Errors
    /// `Kind::Later` for passing faults and limits, `Kind::Host` when the token is refused.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.get_url(&format!("{}{path}", self.base))
    }

    /// All items of a list. `query` has no `page`: pages are followed by number where GitLab names the
    /// next one, since its links carry the address it believes to have; else by link (keyset).
    ///
    /// # Errors
    /// As [`Api::get`]; `Kind::Task` when a page is refused.
    pub fn get_all<T: DeserializeOwned>(&self, what: &str, path: &str, query: &str) -> Result<Vec<T>> {
        let and = if query.is_empty() { "" } else { "&" };
        let first = format!("{}{path}?{query}{and}per_page=100", self.base);
        let (mut all, mut pages) = (Vec::new(), 0);
        let mut next = Some(first.clone());
        while let Some(url) = next {
            let answer = self.get_url(&url)?;
            all.extend(answer.good_json::<Vec<T>>(|| what.to_owned())?);
            pages += 1;
            let number = answer.response.header("x-next-page").map(str::trim).filter(|page| !page.is_empty());
            next = match number {
                Some(page) if page.bytes().all(|byte| byte.is_ascii_digit()) => Some(format!("{first}&page={page}")),
                _ => answer.response.header("link").and_then(next_link).map(str::to_owned),
            };
            if let Some(url) = next.as_deref().filter(|url| !same_origin(url, &self.base)) {
                return Err(elsewhere(what, url));
            }
            if pages == MOST_PAGES {
                log::warn!("{what}: the list has more than {MOST_PAGES} pages; the rest is left out");
                break;
            }
        }
        Ok(all)
    }

    /// A write: one try, but for limits, at which nothing was done.
    ///
    /// # Errors
    /// As [`Api::get`]; after `Kind::Later` without a known end nobody knows whether it took effect.
    pub fn write(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.send(1, method, path, body)
    }

    /// A write that may be repeated, because doing it twice is doing it once.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub fn write_idempotent(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.send(TRIES, method, path, body)
    }

    fn send(&self, tries: u32, method: &str, path: &str, body: &Value) -> Result<Answer> {
        let url = format!("{}{path}", self.base);
        let body = body.to_string().into_bytes();
        patiently(tries, || self.once(method, &url, Some(&body)))
    }

    fn get_url(&self, url: &str) -> Result<Answer> {
        patiently(TRIES, || self.once("GET", url, None))
    }

    fn once(&self, method: &str, url: &str, body: Option<&[u8]>) -> Result<Answer> {
        let mut headers = vec![("private-token", self.token.expose()), ("accept", "application/json")];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let request = HttpRequest { method, url, headers: &headers, body, most_body_bytes: MOST_BODY_BYTES };
        let response = self.client.send(&request)?;
        log::debug!("{method} {url} -> {}", response.status);
        let error = if response.status >= 400 {
            serde_json::from_slice(&response.body).unwrap_or_default()
        } else {
            ErrorBody::default()
        };
        judge(method, url, Answer { status: response.status, error, response })
    }
}

fn judge(method: &str, url: &str, answer: Answer) -> Result<Answer> {
    match answer.status {
        401 => Err(Error::host("GitLab refuses the token: it is wrong, expired or revoked")
            .hint("put a valid one into GITLAB_PERSONAL_ACCESS_TOKEN")),
        // The token's scopes hold for every item; the account's roles do not.
        403 if answer.error.says("insufficient_scope") => {
            Err(Error::host("GitLab says that the scopes of the token are not enough")
                .hint("the token in GITLAB_PERSONAL_ACCESS_TOKEN needs the scope `api`"))
        }
        429 => {
            let until_ms = limited_until(&answer);
            let sentence = format!("GitLab's rate limit is used up until {}", clock::rfc3339(until_ms));
            Err(Error::later(sentence).until(until_ms))
        }
        408 | 500.. => {
            Err(Error::later(format!("GitLab answers {method} {} with status {}", path_of(url), answer.status)))
        }
        _ => Ok(answer),
    }
}

/// Until when a limit holds, in milliseconds since the epoch (docs: "Rate limits", response headers).
fn limited_until(answer: &Answer) -> u64 {
    let header = |name: &str| answer.response.header(name).and_then(|value| value.trim().parse::<u64>().ok());
    let now_ms = clock::now_ms();
    let wait = header("retry-after").map(|seconds| now_ms + seconds.saturating_mul(1000));
    let reset = || header("ratelimit-reset").map(|seconds| seconds.saturating_mul(1000).max(now_ms + 1000));
    wait.or_else(reset).unwrap_or(now_ms + LIMIT_WAIT_MS)
}

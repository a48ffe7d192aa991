//! Requests to GitLab: the token, pages, rate limits, retries, and what an error means. Knows no task.
//! A read may be repeated; a write is never repeated here, since nobody knows whether it took effect.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::lists::{self, PAGE_ITEMS, Page, Reduced};
use super::super::rest::{
    MOST_BODY_BYTES, TRIES, by_our_clock, limit_end_ms, limit_left, may_be_json, next_link, not_the_api, path_of,
    patiently,
};
use super::wire::ErrorBody;
use crate::budget::{Account, RateLimit};
use crate::config::Secret;
use crate::error::{Context, Error, Kind, Result};
use crate::sys::clock;
use crate::sys::http::{HttpClient, HttpRequest, HttpResponse};

/// The wait after a 429 that names none, or one that is over; GitLab counts requests per minute (docs: "User and IP rate limits").
const LIMIT_WAIT_MS: u64 = 60_000;

/// The REST API with our token.
pub struct Api {
    client: HttpClient,
    base: String,
    token: Secret,
    account: Account,
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
    /// The API at `base` (no slash at the end); what it says of limits goes to `account`.
    pub fn new(client: HttpClient, base: String, token: Secret, account: Account) -> Self {
        Self { client, base, token, account }
    }

    /// What is known of limits and lists.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// A read, repeated after passing faults.
    ///
    /// # Errors
    /// `Kind::Later` for passing faults and limits, `Kind::Host` when the token is refused.
    pub fn get(&self, path: &str) -> Result<Answer> {
        let url = format!("{}{path}", self.base);
        patiently(TRIES, || self.once("GET", &url, None, None))
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// As [`Api::get`]; `Kind::Host` when it is refused, or when what answers is not this API.
    pub fn user<T: DeserializeOwned>(&self) -> Result<T> {
        let answer = self.get("/user")?;
        if answer.status == 404 || !may_be_json(&answer.response.body) {
            return Err(not_the_api(&self.base, "GitLab", "gitlab.api_url", "https://HOST/api/v4"));
        }
        if !answer.is_good() {
            return Err(Error::host(answer.refusal("cannot ask whose token this is").sentence())
                .hint("check gitlab.api_url, which ends in /api/v4, and the scope `api` of the token"));
        }
        answer.json()
    }

    /// All items of a list. `query` has no `page`: pages are followed by number where GitLab names the
    /// next one, since its links carry the address it believes to have; else by link (keyset).
    ///
    /// # Errors
    /// As [`Api::get`]; `Kind::Task` when a page is refused.
    pub fn get_all<T: DeserializeOwned>(&self, what: &str, path: &str, query: &str) -> Result<Vec<T>> {
        let first = self.first_page(path, query);
        let mut all: Vec<T> = Vec::new();
        let fetch = |url: &str| self.page(what, &first, url, None);
        lists::walk(what, &first, None, fetch, |_, page: Page<Vec<T>>| all.extend(page.content))?;
        Ok(all)
    }

    /// As [`Api::get_all`] for lists that are read again and again: what `reduce` leaves of their items, from
    /// memory while GitLab says that nothing has changed. Such an answer counts like any other (docs: "Rate
    /// limits"), but is short.
    ///
    /// # Errors
    /// As [`Api::get_all`].
    pub fn list<P: DeserializeOwned, T: Serialize + DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        query: &str,
        reduce: impl Fn(&P) -> Option<T>,
    ) -> Result<Vec<T>> {
        let first = self.first_page(path, query);
        let reduce = |page: Vec<P>| Reduced {
            items: page.iter().filter_map(&reduce).collect(),
            count: page.len(),
            is_complete: true,
        };
        lists::read(&self.account, what, &first, |url, etag| self.page(what, &first, url, etag), reduce)
    }

    fn first_page(&self, path: &str, query: &str) -> String {
        let and = if query.is_empty() { "" } else { "&" };
        format!("{}{path}?{query}{and}per_page={PAGE_ITEMS}", self.base)
    }

    /// A page of the list that begins at `first`; `None` when it still has that entity tag.
    fn page<T: DeserializeOwned>(
        &self,
        what: &str,
        first: &str,
        url: &str,
        etag: Option<&str>,
    ) -> Result<Option<Page<Vec<T>>>> {
        let answer = patiently(TRIES, || self.once("GET", url, None, etag))?;
        if answer.status == 304 && etag.is_some() {
            return Ok(None);
        }
        let content = answer.good_json(|| what.to_owned())?;
        let number = answer.response.header("x-next-page").map(str::trim).filter(|page| !page.is_empty());
        let next = match number {
            Some(page) if page.bytes().all(|byte| byte.is_ascii_digit()) => Some(format!("{first}&page={page}")),
            _ => answer.response.header("link").and_then(next_link).map(str::to_owned),
        };
        Ok(Some(Page { content, etag: answer.response.header("etag").map(str::to_owned), next }))
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
        patiently(tries, || self.once(method, &url, Some(&body), None))
    }

    fn once(&self, method: &str, url: &str, body: Option<&[u8]>, etag: Option<&str>) -> Result<Answer> {
        let mut headers = vec![("private-token", self.token.expose()), ("accept", "application/json")];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        headers.extend(etag.map(|etag| ("if-none-match", etag)));
        let request = HttpRequest { method, url, headers: &headers, body, most_body_bytes: MOST_BODY_BYTES };
        let response = self.client.send(&request)?;
        log::debug!("{method} {url} -> {}", response.status);
        let error = if response.status >= 400 {
            serde_json::from_slice(&response.body).unwrap_or_default()
        } else {
            ErrorBody::default()
        };
        let answer = Answer { status: response.status, error, response };
        if let Some(limit) = rate_limit(&answer) {
            let until_ms = by_our_clock(limit.reset_ms, |name| answer.header(name), clock::now_ms());
            self.account.note_limit("requests", limit, until_ms);
        }
        if answer.status == 429 {
            let until_ms = limited_until(&answer);
            let sentence = format!("GitLab's rate limit is used up until {}", clock::rfc3339(until_ms));
            self.account.must_wait(until_ms, &sentence);
            return Err(Error::later(sentence).until(until_ms));
        }
        self.account.may_go_on();
        if answer.status == 401 {
            self.account.forget_facts();
        }
        judge(method, url, answer)
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
        408 | 500.. => {
            Err(Error::later(format!("GitLab answers {method} {} with status {}", path_of(url), answer.status)))
        }
        _ => Ok(answer),
    }
}

/// What is left of a limit (docs: "Rate limits", response headers).
fn rate_limit(answer: &Answer) -> Option<RateLimit> {
    limit_left(|what| answer.header(&format!("ratelimit-{what}")))
}

/// Until when a limit holds, in milliseconds since the epoch by our clock (docs: "Rate limits", response headers).
fn limited_until(answer: &Answer) -> u64 {
    let reset_seconds = answer.header("ratelimit-reset").and_then(|seconds| seconds.trim().parse().ok());
    limit_end_ms(|name| answer.header(name), reset_seconds, LIMIT_WAIT_MS)
}

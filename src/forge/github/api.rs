//! Requests to GitHub: headers, pages, rate limits, retries, and what an error means. Knows no task.
//! A read may be repeated; a write is never repeated here, since nobody knows whether it took effect.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::lists::{self, Page, Reduced};
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

/// The wait GitHub asks for at a secondary limit that names none, or one that is over ("Best practices for using the REST API").
const SECONDARY_WAIT_MS: u64 = 60_000;

/// The REST API with our token.
pub struct Api {
    client: HttpClient,
    base: String,
    authorization: Secret,
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
        let error = Error::task(format!("{what}: GitHub says: {said}"));
        match self.status {
            403 => error.hint("the token lacks a right for this; see the README for the rights it needs"),
            404 => error.hint("it does not exist, or the token may not see it"),
            _ => error,
        }
    }
}

impl Api {
    /// The API at `base` (no slash at the end); what it says of limits goes to `account`.
    pub fn new(client: HttpClient, base: String, token: &Secret, account: Account) -> Self {
        let authorization = Secret::new(format!("Bearer {}", token.expose()));
        Self { client, base, authorization, account }
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

    /// Who we are, as far as a token may ask.
    ///
    /// # Errors
    /// As [`Api::get`]; `Kind::Host` when what answers is not this API, where everybody has that address.
    pub fn user(&self) -> Result<Answer> {
        let answer = self.get("/user")?;
        if answer.status == 404 || !may_be_json(&answer.response.body) {
            return Err(not_the_api(&self.base, "GitHub", "github.api_url", "https://HOST/api/v3"));
        }
        Ok(answer)
    }

    /// All items of a list, following `rel="next"` on the same host.
    ///
    /// # Errors
    /// As [`Api::get`]; `Kind::Task` when a page is refused.
    pub fn get_all<P: DeserializeOwned>(&self, what: &str, path: &str) -> Result<Vec<P>> {
        let mut pages = Vec::new();
        let first = format!("{}{path}", self.base);
        lists::walk(what, &first, None, |url| self.page(what, url, None), |_, page| pages.push(page.content))?;
        Ok(pages)
    }

    /// As [`Api::get_all`] for lists that are read again and again: of each page what `reduce` leaves, from
    /// memory while GitHub says that nothing has changed. Such an answer does not count against the limit
    /// (docs: "Best practices for using the REST API", conditional requests).
    ///
    /// # Errors
    /// As [`Api::get_all`].
    pub fn list<P: DeserializeOwned, T: Serialize + DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        reduce: impl Fn(P) -> Reduced<T>,
    ) -> Result<Vec<T>> {
        let first = format!("{}{path}", self.base);
        lists::read(&self.account, what, &first, |url, etag| self.page(what, url, etag), reduce)
    }

    /// A page of a list; `None` when it still has that entity tag.
    fn page<P: DeserializeOwned>(&self, what: &str, url: &str, etag: Option<&str>) -> Result<Option<Page<P>>> {
        let answer = patiently(TRIES, || self.once("GET", url, None, etag))?;
        if answer.status == 304 && etag.is_some() {
            return Ok(None);
        }
        if !answer.is_good() {
            return Err(answer.refusal(what));
        }
        let next = answer.response.header("link").and_then(next_link).map(str::to_owned);
        let etag = answer.response.header("etag").map(str::to_owned);
        Ok(Some(Page { content: answer.json()?, etag, next }))
    }

    /// A write: one try, but for limits, at which nothing was done.
    ///
    /// # Errors
    /// As [`Api::get`]; after `Kind::Later` without a known end nobody knows whether it took effect.
    pub fn write(&self, method: &str, path: &str, body: Option<&serde_json::Value>) -> Result<Answer> {
        let url = format!("{}{path}", self.base);
        let body = body.map(|body| body.to_string().into_bytes());
        patiently(1, || self.once(method, &url, body.as_deref(), None))
    }

    /// A write that may be repeated, because doing it twice is doing it once.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub fn write_idempotent(&self, method: &str, path: &str, body: Option<&serde_json::Value>) -> Result<Answer> {
        let url = format!("{}{path}", self.base);
        let body = body.map(|body| body.to_string().into_bytes());
        patiently(TRIES, || self.once(method, &url, body.as_deref(), None))
    }

    fn once(&self, method: &str, url: &str, body: Option<&[u8]>, etag: Option<&str>) -> Result<Answer> {
        let mut headers = vec![
            ("authorization", self.authorization.expose()),
            ("accept", "application/vnd.github+json"),
            ("x-github-api-version", "2022-11-28"),
        ];
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
        self.judge(method, url, answer)
    }

    fn judge(&self, method: &str, url: &str, answer: Answer) -> Result<Answer> {
        let resource = answer.response.header("x-ratelimit-resource").unwrap_or("core");
        if let Some(limit) = rate_limit(&answer) {
            let until_ms = by_our_clock(limit.reset_ms, |name| answer.header(name), clock::now_ms());
            self.account.note_limit(resource, limit, until_ms);
        }
        if let Some(until_ms) = limited_until(&answer) {
            let sentence = format!("GitHub's rate limit is used up until {}", clock::rfc3339(until_ms));
            // Searches are counted by the minute; everything else may go on.
            if resource != "search" {
                self.account.must_wait(until_ms, &sentence);
            }
            return Err(Error::later(sentence).until(until_ms));
        }
        self.account.may_go_on();
        match answer.status {
            401 => {
                self.account.forget_facts();
                Err(Error::host("GitHub refuses the token: it is wrong, expired or revoked")
                    .hint("put a valid one into GITHUB_PERSONAL_ACCESS_TOKEN"))
            }
            408 | 500.. => {
                Err(Error::later(format!("GitHub answers {method} {} with status {}", path_of(url), answer.status)))
            }
            _ => Ok(answer),
        }
    }
}

fn number(answer: &Answer, header: &str) -> Option<u64> {
    answer.response.header(header)?.trim().parse().ok()
}

/// What is left of a limit (docs: "Rate limits for the REST API").
fn rate_limit(answer: &Answer) -> Option<RateLimit> {
    limit_left(|what| answer.header(&format!("x-ratelimit-{what}")))
}

/// Until when a limit holds, in milliseconds since the epoch by our clock (docs: "Rate limits for the REST API").
fn limited_until(answer: &Answer) -> Option<u64> {
    let header = |name: &str| answer.header(name);
    let is_used_up = number(answer, "x-ratelimit-remaining") == Some(0);
    let is_limited = match answer.status {
        429 => true,
        403 => {
            is_used_up
                || header("retry-after").is_some()
                || answer.error.says("secondary rate limit")
                || answer.error.says("abuse detection")
        }
        _ => false,
    };
    if !is_limited {
        return None;
    }
    let reset_seconds = number(answer, "x-ratelimit-reset").filter(|_| is_used_up);
    Some(limit_end_ms(header, reset_seconds, SECONDARY_WAIT_MS))
}

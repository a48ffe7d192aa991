//! Lists read page by page: always to the end, and where the server says that nothing has changed, from
//! memory. Knows no forge.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rest::{MOST_PAGES, elsewhere};
use crate::budget::{Account, KeptList, MOST_ITEMS};
use crate::error::{Error, Result};
use crate::sys::clock;
use crate::sys::http::same_origin;

/// Items of a full page; all our lists ask for as many.
pub const PAGE_ITEMS: usize = 100;

/// One page of a list.
pub struct Page<P> {
    /// Its content.
    pub content: P,
    /// Its entity tag, where the server gives one.
    pub etag: Option<String>,
    /// Address of the next page.
    pub next: Option<String>,
}

/// What is kept of a page.
pub struct Reduced<T> {
    /// What is needed of its items.
    pub items: Vec<T>,
    /// How many items the page had.
    pub count: usize,
    /// Whether the server left nothing out.
    pub is_complete: bool,
}

/// Reads the list that begins at `first`, the origin of which nobody leaves. `fetch` gets the address of a
/// page and the entity tag we have of it; `None` means that the page is still the same.
///
/// The items come from memory only if *every* page is unchanged, so nothing is missed when items move from
/// one page to another. A list whose last page is full is not kept at all: what comes next on a page that
/// is not there yet would change no tag.
///
/// # Errors
/// As `fetch`.
pub fn read<P, T: Serialize + DeserializeOwned>(
    account: &Account,
    what: &str,
    first: &str,
    fetch: impl Fn(&str, Option<&str>) -> Result<Option<Page<P>>>,
    reduce: impl Fn(P) -> Reduced<T>,
) -> Result<Vec<T>> {
    let mut begun = None;
    if let Some(kept) = account.list(first)
        && let Some(items) = items_of(&kept)
    {
        match first_change(&kept, &fetch)? {
            None => return Ok(items),
            Some((0, page)) => begun = Some(page),
            Some(_) => {}
        }
    }
    let read_ms = clock::now_ms();
    let mut items = Vec::new();
    let mut pages = Some(Vec::new());
    let is_whole = walk(
        what,
        first,
        begun,
        |url| fetch(url, None),
        |url, page| {
            let reduced = reduce(page.content);
            let can_be_kept = reduced.is_complete && (page.next.is_some() || reduced.count < PAGE_ITEMS);
            items.extend(reduced.items);
            pages = pages.take().zip(page.etag.filter(|_| can_be_kept)).map(|(mut pages, etag)| {
                pages.push((url, etag));
                pages
            });
        },
    )?;
    let values: serde_json::Result<Vec<_>> = items.iter().map(serde_json::to_value).collect();
    match (pages, values) {
        (Some(pages), Ok(values)) if is_whole && items.len() <= MOST_ITEMS => {
            account.keep_list(first, KeptList { read_ms, pages, items: values });
        }
        _ => account.forget_list(first),
    }
    Ok(items)
}

/// Gives each page of the list that begins at `first` to `take`, with its address; `begun` is its first page
/// where that was fetched already. `false` when there are more pages than anybody has.
///
/// # Errors
/// As `fetch`; `Kind::Task` when the list goes on at another host.
pub fn walk<P>(
    what: &str,
    first: &str,
    mut begun: Option<Page<P>>,
    fetch: impl Fn(&str) -> Result<Option<Page<P>>>,
    mut take: impl FnMut(String, Page<P>),
) -> Result<bool> {
    let mut next = Some(first.to_owned());
    for _ in 0..MOST_PAGES {
        let Some(url) = next else { return Ok(true) };
        let page = match begun.take() {
            Some(page) => page,
            None => fetch(&url)?
                .ok_or_else(|| Error::later(format!("{what}: the server says `not modified` and was not asked")))?,
        };
        next = page.next.clone();
        take(url, page);
        if let Some(url) = next.as_deref().filter(|url| !same_origin(url, first)) {
            return Err(elsewhere(what, url));
        }
    }
    if next.is_some() {
        log::warn!("{what}: the list has more than {MOST_PAGES} pages; the rest is left out");
    }
    Ok(next.is_none())
}

fn items_of<T: DeserializeOwned>(kept: &KeptList) -> Option<Vec<T>> {
    kept.items.iter().map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

/// The first page that is no longer the same, with its number.
fn first_change<P>(
    kept: &KeptList,
    fetch: impl Fn(&str, Option<&str>) -> Result<Option<Page<P>>>,
) -> Result<Option<(usize, Page<P>)>> {
    for (number, (url, etag)) in kept.pages.iter().enumerate() {
        if let Some(page) = fetch(url, Some(etag))? {
            return Ok(Some((number, page)));
        }
    }
    Ok(None)
}

//! The forge: whether it can be reached, what it says of our account, and the items on it.

use std::collections::HashSet;

use crate::commands::models::http_client;
use crate::commands::setup::Setup;
use crate::config::{Config, TaskSource};
use crate::error::Result;
use crate::ports::{Candidates, Finding, FindingState, Forge};
use crate::queue::{EntryName, State};
use crate::sys::http::{HttpRequest, origin};
use crate::sys::{clock, file};
use crate::task::TaskKey;
use crate::text::counted;

/// A clock that is off by more makes limits and times wrong.
const MOST_SKEW_MS: u64 = 60_000;
/// Items named in one line.
const MOST_NAMED: usize = 10;
const ITEMS: &str = "items that wait";
const IN_WORK: &str = "items in work";

/// Looks at it; the login we have there.
pub fn look(setup: &Setup, tell: &mut dyn FnMut(Finding)) -> Option<String> {
    let name = setup.config.task_source.name();
    let is_local = setup.config.task_source == TaskSource::Local;
    if let Some(api_url) = api_url(&setup.config) {
        match reach(&setup.config, name, api_url) {
            Ok(findings) => findings.into_iter().for_each(&mut *tell),
            Err(error) => {
                tell(error);
                // Without one it fails before anything is sent.
                if !has_token(&setup.config)
                    && let Err(error) = setup.forge()
                {
                    tell(Finding::of(format!("account at {name}"), FindingState::Bad, &error, Finding::LATER));
                }
                skip(tell, &format!("{name} cannot be reached"));
                return None;
            }
        }
    }
    let forge = match setup.forge() {
        Ok(forge) => forge,
        Err(error) => {
            let what = if is_local { "issue files".to_owned() } else { format!("account at {name}") };
            tell(Finding::of(what, FindingState::Bad, &error, Finding::LATER));
            skip(tell, "tasks cannot be asked for");
            return None;
        }
    };
    forge.examine().into_iter().for_each(&mut *tell);
    tell(waiting(forge, setup));
    tell(in_work(forge, setup));
    Some(forge.bot_login().to_owned())
}

fn skip(tell: &mut dyn FnMut(Finding), why: &str) {
    for name in ["repositories", ITEMS, IN_WORK] {
        tell(Finding::skipped(name, why));
    }
}

fn api_url(config: &Config) -> Option<&str> {
    match config.task_source {
        TaskSource::Local => None,
        TaskSource::Github => Some(&config.github.api_url),
        TaskSource::Gitlab => Some(&config.gitlab.api_url),
    }
}

fn has_token(config: &Config) -> bool {
    match config.task_source {
        TaskSource::Local => true,
        TaskSource::Github => config.github.personal_access_token.is_some(),
        TaskSource::Gitlab => config.gitlab.personal_access_token.is_some(),
    }
}

/// One request without a token: any answer shows that somebody is there, and what time it is there.
fn reach(config: &Config, name: &str, api_url: &str) -> Result<Vec<Finding>, Finding> {
    let (url, host) = (format!("{api_url}/"), origin(api_url));
    let request = HttpRequest { method: "GET", url: &url, headers: &[], body: None, most_body_bytes: 4 << 20 };
    let answer = http_client(config, &url, super::SERVER_SECONDS).and_then(|client| client.send(&request));
    let answer = answer.map_err(|error| {
        let remedy = format!("check {name}.api_url, the network, and HTTPS_PROXY where there is a proxy");
        Finding::of(name, FindingState::Bad, &error, &remedy)
    })?;
    let mut found = vec![if answer.body.trim_ascii_start().starts_with(b"<") {
        let finding = format!("`{host}` answers with a page for people, not like an API");
        Finding::warning(name, finding, format!("check {name}.api_url, and whether a proxy answers in its place"))
    } else {
        Finding::good(name, format!("`{host}` answers"))
    }];
    let there_ms = answer.header("date").and_then(clock::parse_http_date);
    found.extend(there_ms.map(|there_ms| {
        let off_ms = clock::now_ms().abs_diff(there_ms);
        if off_ms > MOST_SKEW_MS {
            let finding = format!("it differs by {} s from that of `{host}`", off_ms / 1000);
            return Finding::warning("clock", finding, "let a time service (systemd-timesyncd, chrony) set it");
        }
        Finding::good("clock", format!("as that of `{host}`"))
    }));
    Ok(found)
}

fn waiting(forge: &dyn Forge, setup: &Setup) -> Finding {
    let bot = &setup.labels().bot;
    match forge.candidates() {
        Err(error) => Finding::of(ITEMS, FindingState::Bad, &error, Finding::LATER),
        Ok(Candidates { keys, faults }) => match faults.first() {
            Some(fault) => Finding::of(ITEMS, FindingState::Bad, fault, Finding::LATER),
            None => {
                let ask = if keys.len() == 1 { "asks" } else { "ask" };
                Finding::good(
                    ITEMS,
                    format!("{} {ask} for work with the label `{bot}`", counted(keys.len() as u64, "open item")),
                )
            }
        },
    }
}

/// Items that seem to be worked on, and nobody here does: another installation may have them, so they
/// are never taken without being asked for.
fn in_work(forge: &dyn Forge, setup: &Setup) -> Finding {
    let label = &setup.labels().processing;
    let looked = forge.in_work().and_then(|Candidates { keys, faults }| match faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(keys),
    });
    let Ok(known) = known(setup) else {
        return Finding::skipped(IN_WORK, "the tasks that are here cannot be read");
    };
    let keys = match looked {
        Ok(keys) => keys,
        Err(error) => return Finding::of(IN_WORK, FindingState::Warning, &error, Finding::LATER),
    };
    let count = keys.len() as u64;
    let lost: Vec<String> = keys.iter().filter(|key| !known.contains(&key.hash16())).map(TaskKey::canonical).collect();
    if lost.is_empty() {
        return Finding::good(IN_WORK, {
            let carry = if count == 1 { "carries" } else { "carry" };
            format!("{} {carry} the label `{label}`, each with a task here", counted(count, "open item"))
        });
    }
    let more = lost.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<&str> = lost.iter().take(MOST_NAMED).map(String::as_str).collect();
    let finding = format!("without a task here, but with the label `{label}`: {}{more}", named.join(", "));
    let remedy =
        format!("if no other installation works on them, take `{label}` off and set `{}` again", setup.labels().bot);
    Finding::warning(IN_WORK, finding, remedy)
}

/// Hashes of the keys that have a task here: an entry, by its name alone, or a directory of work.
fn known(setup: &Setup) -> Result<HashSet<String>> {
    let mut known = HashSet::new();
    for state in [State::Queue, State::Running, State::Deferred] {
        let names = file::names(&setup.config.queue.dir.join(state.directory()))?;
        known.extend(names.iter().filter_map(|name| Some(EntryName::parse(name)?.key_hash)));
    }
    let contexts = [setup.contexts.unfinished_tasks()?, setup.contexts.paused_tasks()?];
    known.extend(contexts.iter().flatten().map(|message| message.key.hash16()));
    Ok(known)
}

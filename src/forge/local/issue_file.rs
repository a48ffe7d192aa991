//! An issue file: splits it into front matter and body, reads both, and changes its labels with the
//! proof that nothing else changed. Touches no disk; the textual surgery is in `label_lines`.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::label_lines;
use crate::error::{Error, Result};
use crate::ports::ItemState;

/// Who wrote what nobody signed, as on GitHub (case C28).
pub(super) const GHOST: &str = "ghost";

/// What an issue file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IssueFile {
    pub(super) title: Option<String>,
    pub(super) labels: Vec<String>,
    pub(super) author: String,
    pub(super) assignees: Vec<String>,
    pub(super) state: ItemState,
    pub(super) repository: Option<String>,
    /// Line breaks are LF here, and blank lines at both ends are left out.
    pub(super) body: String,
}

/// The front matter as YAML has it. `L` and `A` are a list or one text: an untagged enum would
/// take the detour over untyped values, on which `1.10` becomes `1.1` (case C59).
#[derive(Deserialize)]
struct FrontMatter<L, A> {
    title: Option<String>,
    labels: Option<L>,
    author: Option<String>,
    assignees: Option<A>,
    state: Option<String>,
    repository: Option<String>,
}

type Names = Vec<Option<String>>;

struct One(Names);

impl<'de> Deserialize<'de> for One {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self(vec![Some(name)]))
    }
}

impl From<One> for Names {
    fn from(one: One) -> Self {
        one.0
    }
}

/// Reads an issue file.
///
/// # Errors
/// `Kind::Task` with the reason when it is none.
pub(super) fn parse(path: &Path, text: &str) -> Result<IssueFile> {
    let no_good =
        |why: &str| Error::task(format!("cannot read the issue file `{}`: {why}", path.display())).hint(SHAPE);
    let parts = split(text).map_err(no_good)?;
    let front = front_matter(parts.yaml)
        .map_err(|source| no_good("its front matter is not the YAML we expect").caused_by(source))?;
    let state = match front.state.as_deref().unwrap_or("open").trim().to_lowercase().as_str() {
        "open" => ItemState::Open,
        "closed" => ItemState::Closed,
        _ => return Err(no_good("its `state:` is neither open nor closed")),
    };
    let filled = |text: Option<String>| text.map(|text| one_line(&text)).filter(|text| !text.is_empty());
    Ok(IssueFile {
        title: filled(front.title),
        labels: front.labels.unwrap_or_default().into_iter().flatten().collect(),
        author: filled(front.author).unwrap_or_else(|| GHOST.to_owned()),
        assignees: front.assignees.unwrap_or_default().into_iter().flatten().collect(),
        state,
        repository: filled(front.repository),
        body: without_blank_ends(&lines_of(parts.body)).join("\n"),
    })
}

const SHAPE: &str = "an issue file begins with a line `---`, then `title:`, `labels:` and so on, \
                     then another line `---` and the text";

/// `text` with `label`; `None` when it has it already.
///
/// # Errors
/// `Kind::Task` when the file is unreadable, or its labels are written in a way we cannot edit.
pub(super) fn with_label(path: &Path, text: &str, label: &str) -> Result<Option<String>> {
    let mut wanted = parse(path, text)?;
    if wanted.labels.iter().any(|name| same_label(name, label)) {
        return Ok(None);
    }
    wanted.labels.push(label.to_owned());
    let changed = split(text).ok().and_then(|parts| label_lines::add(text, parts.front, label));
    proven(path, changed, &wanted).map(Some)
}

/// `text` without `label`; `None` when it does not have it.
///
/// # Errors
/// As [`with_label`].
pub(super) fn without_label(path: &Path, text: &str, label: &str) -> Result<Option<String>> {
    let mut wanted = parse(path, text)?;
    let before = wanted.labels.len();
    wanted.labels.retain(|name| !same_label(name, label));
    let times = before - wanted.labels.len();
    if times == 0 {
        return Ok(None);
    }
    // A person may have written it twice.
    let changed = (0..times).try_fold(text.to_owned(), |text, _| {
        let front = split(&text).ok()?.front;
        label_lines::remove(&text, front, |name| same_label(name, label))
    });
    proven(path, changed, &wanted).map(Some)
}

/// Whether two names mean one label; `Item::has_label` compares the same way.
fn same_label(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// The changed text, once reading it again gave exactly what was wanted.
fn proven(path: &Path, changed: Option<String>, wanted: &IssueFile) -> Result<String> {
    changed.filter(|text| parse(path, text).is_ok_and(|read| read == *wanted)).ok_or_else(|| {
        Error::task(format!(
            "cannot change the labels of `{}`: they are written in a way only a person can edit",
            path.display()
        ))
        .hint("write them as `labels: [one, two]`")
    })
}

/// An issue file cut into its parts.
struct Parts<'a> {
    /// The front matter with its opening line, so that YAML counts lines as the file does.
    yaml: &'a str,
    /// Where the lines between the two delimiters stand.
    front: Range<usize>,
    body: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, &'static str> {
    const BYTE_ORDER_MARK: char = '\u{feff}';
    let start = text.len() - text.trim_start_matches(BYTE_ORDER_MARK).len();
    let mut at = start;
    let mut front_start = None;
    for line in text.get(start..).unwrap_or_default().split_inclusive('\n') {
        let is_delimiter = line.trim_end() == "---";
        match front_start {
            None if !is_delimiter => break,
            None => front_start = Some(at + line.len()),
            Some(front_start) if is_delimiter => {
                return Ok(Parts {
                    yaml: text.get(start..at).unwrap_or_default(),
                    front: front_start..at,
                    body: text.get(at + line.len()..).unwrap_or_default(),
                });
            }
            Some(_) => {}
        }
        at += line.len();
    }
    Err(match front_start {
        _ if text.trim().is_empty() => "it is empty",
        None => "it does not begin with a line `---`",
        Some(_) => "its front matter has no closing line `---`",
    })
}

fn front_matter(yaml: &str) -> Result<FrontMatter<Names, Names>, serde_yaml::Error> {
    fn read<L: DeserializeOwned + Into<Names>, A: DeserializeOwned + Into<Names>>(
        yaml: &str,
    ) -> Result<FrontMatter<Names, Names>, serde_yaml::Error> {
        let FrontMatter { title, labels, author, assignees, state, repository } =
            serde_yaml::from_str::<Option<FrontMatter<L, A>>>(yaml)?.unwrap_or(FrontMatter {
                title: None,
                labels: None,
                author: None,
                assignees: None,
                state: None,
                repository: None,
            });
        let (labels, assignees) = (labels.map(Into::into), assignees.map(Into::into));
        Ok(FrontMatter { title, labels, author, assignees, state, repository })
    }
    read::<Names, Names>(yaml).or_else(|error| {
        read::<One, Names>(yaml)
            .or_else(|_| read::<Names, One>(yaml))
            .or_else(|_| read::<One, One>(yaml))
            .map_err(|_| error)
    })
}

/// `text` with line breaks and what surrounds them as one space.
pub(super) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Lines without their breaks; carriage returns at the end of a line belong to the break.
pub(super) fn lines_of(text: &str) -> Vec<&str> {
    text.split('\n').map(|line| line.trim_end_matches('\r')).collect()
}

/// `lines` from the first to the last that is not blank.
pub(super) fn without_blank_ends<'a, 'b>(lines: &'b [&'a str]) -> &'b [&'a str] {
    let is_text = |line: &&str| !line.trim_ascii().is_empty();
    let Some(first) = lines.iter().position(is_text) else { return &[] };
    let last = lines.iter().rposition(is_text).unwrap_or(first);
    lines.get(first..=last).unwrap_or_default()
}

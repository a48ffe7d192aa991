//! The text of one configuration file: reads it, gives lines to keys and turns what YAML or a type
//! has against it into one sentence. Shows found values only where no secret can stand.

use std::io::ErrorKind;
use std::path::Path;

use super::Config;
use super::nearest::nearest;
use crate::error::{Context as _, Error, Kind, Result};

/// A file with its name as people know it.
pub(super) struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Reads `path`; `None` when there is no such file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let name = path.display().to_string();
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other
                .context(Kind::Host, || format!("cannot read config `{name}`"))
                .map_err(|error| error.hint("let the user of the agent read that file"))?,
        };
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(Self { name, text: text.to_owned() })),
            Err(error) => {
                let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
                Err(Error::host(format!("config `{name}` line {line}: not UTF-8 text")))
            }
        }
    }

    /// The configuration the text stands for.
    pub(super) fn parse(&self) -> Result<Config> {
        // A tab may also be read as part of a longer text, which nobody means here.
        let tab = self.text.lines().position(|line| {
            let indent = &line[..line.len() - line.trim_start().len()];
            indent.contains('\t') && !line.trim().is_empty() && !line.trim_start().starts_with('#')
        });
        if let Some(index) = tab {
            return Err(self.error(Some(index + 1), "indented with a tab; allowed: spaces"));
        }
        let config = serde_yaml::from_str::<Option<Config>>(&self.text).map_err(|error| self.explain(&error))?;
        Ok(config.unwrap_or_default())
    }

    /// A sentence about `key`, with its line, or that of the innermost section around it.
    pub(super) fn error_at(&self, key: &str, problem: &str) -> Error {
        let around = std::iter::successors(Some(key), |key| key.rfind(['.', '[']).map(|end| &key[..end]));
        let line = around.filter_map(|key| self.lines_of(key).first().copied()).next();
        self.error(line, &format!("`{key}` {problem}"))
    }

    fn error(&self, line: Option<usize>, problem: &str) -> Error {
        let line = line.map(|line| format!(" line {line}")).unwrap_or_default();
        Error::host(format!("config `{}`{line}: {problem}", self.name))
    }

    fn explain(&self, error: &serde_yaml::Error) -> Error {
        let message = error.to_string();
        // The end of the text counts as a line of its own, which no editor shows.
        let last = self.text.lines().count().max(1);
        let here = error.location().map(|place| place.line().min(last));
        let Some((path, complaint)) = parted(&message) else {
            return self.error(here, &syntax(&message));
        };
        let full = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let quoted: Vec<&str> = complaint.split('`').skip(1).step_by(2).collect();
        let first = quoted.first().copied().unwrap_or_default();

        if complaint.starts_with("unknown field") {
            let known = quoted.get(1..).unwrap_or_default();
            let advice = match nearest(first, known) {
                Some(key) => format!("did you mean `{}`", full(key)),
                None => format!("allowed: {}", known.join(", ")),
            };
            let key = full(first);
            let line = self.lines_of(&key).first().copied().or(here);
            return self.error(line, &format!("unknown key `{key}`; {advice}"));
        }
        if complaint.starts_with("duplicate field") {
            let key = full(first);
            let line = self.lines_of(&key).last().copied().or(here);
            let alias = if key == "context_storage" { " (`context` is the same section)" } else { "" };
            return self.error(line, &format!("key `{key}` is given twice{alias}"));
        }
        let line = self.lines_of(path).first().copied().or(here);
        let subject = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
        if complaint.starts_with("unknown variant") {
            let names = quoted.get(1..).unwrap_or_default().join(", ");
            return self.error(line, &format!("{subject} is `{first}`; allowed: {names}"));
        }
        let (found, expected) = complaint.rsplit_once(", expected ").unwrap_or((complaint, ""));
        let expected = expected.split(" at line ").next().unwrap_or_default();
        let (allowed, harmless) = match expected {
            "a boolean" => ("true, false", true),
            "u16" => ("a whole number from 1 to 65535", true),
            "u32" => ("a whole number from 0 to 4294967295", true),
            "u64" => ("a whole number, 0 or more", true),
            "f64" => ("a number", true),
            "a string" => ("text", false),
            "a sequence" => ("a list", false),
            "a map" => ("names with values", false),
            _ => (expected.strip_prefix("one of ").unwrap_or("a section with keys"), false),
        };
        self.error(line, &format!("{subject} is {}; allowed: {allowed}", found_as(found, harmless)))
    }

    /// The lines, from 1, on which a dotted key or a list's item begins in block notation.
    fn lines_of(&self, key: &str) -> Vec<usize> {
        let key = match key.strip_prefix("context.") {
            Some(rest) => format!("context_storage.{rest}"),
            None => key.to_owned(),
        };
        let begins = self.begins();
        begins.into_iter().filter(|(_, begun)| *begun == key).map(|(line, _)| line).collect()
    }

    /// Every key and item of the file in block notation, with its line.
    fn begins(&self) -> Vec<(usize, String)> {
        let mut open: Vec<Open> = Vec::new();
        let mut begins = Vec::new();
        for (index, line) in self.text.lines().enumerate() {
            let mut content = line.trim_start();
            let mut indent = line.len() - content.len();
            while let Some(rest) = content.strip_prefix("- ") {
                let earlier = open.iter().rfind(|open| open.indent == indent).and_then(|open| open.item);
                let item = earlier.map_or(0, |earlier| earlier + 1);
                // An item may stand right under its list's key, without more indent.
                open.retain(|open| open.indent < indent || open.indent == indent && open.item.is_none());
                let path = format!("{}[{item}]", open.last().map_or("", |list| list.path.as_str()));
                begins.push((index + 1, path.clone()));
                open.push(Open { indent, item: Some(item), path });
                content = rest.trim_start();
                indent = line.len() - content.len();
            }
            let Some((name, rest)) = content.split_once(':') else { continue };
            if content.starts_with('#') || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
                continue;
            }
            open.retain(|open| open.indent < indent);
            let path = match (open.last(), name.trim_end().trim_matches(['"', '\''])) {
                (None, "context") => "context_storage".to_owned(),
                (None, name) => name.to_owned(),
                (Some(section), name) => format!("{}.{name}", section.path),
            };
            begins.push((index + 1, path.clone()));
            open.push(Open { indent, item: None, path });
        }
        begins
    }
}

/// A key or item whose lines we are in.
struct Open {
    indent: usize,
    item: Option<usize>,
    path: String,
}

/// serde's complaint and the dotted path before it; `None` when YAML itself is broken.
fn parted(message: &str) -> Option<(&str, &str)> {
    const COMPLAINTS: [&str; 5] =
        ["unknown field `", "duplicate field `", "unknown variant `", "invalid type: ", "invalid value: "];
    let start = COMPLAINTS.iter().filter_map(|complaint| message.find(complaint)).min()?;
    Some((message[..start].trim_end_matches(": "), &message[start..]))
}

fn found_as(found: &str, harmless: bool) -> String {
    let found = found.split_once(": ").map_or(found, |(_, found)| found);
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a section".to_owned(),
        "unit value" => "empty".to_owned(),
        _ => match (found.strip_prefix("string "), found.split('`').nth(1)) {
            (Some(text), _) if harmless => format!("the text {text}"),
            (None, Some(value)) if harmless => format!("`{value}`"),
            (Some(_), _) => "text".to_owned(),
            _ => "a single value".to_owned(),
        },
    }
}

fn syntax(message: &str) -> String {
    let what = message.split(" at line ").next().unwrap_or_default();
    let advice = if what.contains("mapping values are not allowed") {
        "; text that holds a colon and a blank must stand in quotes"
    } else {
        ""
    };
    format!("not valid YAML: {what}{advice}")
}

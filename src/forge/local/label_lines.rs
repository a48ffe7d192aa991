//! Textual surgery on the `labels:` lines of a front matter: finds how a person wrote them and adds
//! or removes one label in that style. Pure. It understands the common ways of writing and says
//! `None` to the others; its caller proves every result by reading it again.

use std::ops::Range;

/// How the labels are written; all positions are byte offsets in the whole text.
enum Place {
    /// No `labels:` line.
    Missing,
    /// `labels:` with nothing behind the colon, which ends at this offset.
    Empty(usize),
    /// `labels: todo`; `None` is a written-out null.
    Scalar(Range<usize>, Option<String>),
    /// `labels: [a, b]`, on one line or several: the offset behind `[`, and the items.
    Flow(usize, Vec<Range<usize>>),
    /// One `- a` per line: what stands before the dash, and the lines of each item.
    Block(String, Vec<Range<usize>>),
}

/// `text` with `label` added to the labels in `front`.
pub(super) fn add(text: &str, front: Range<usize>, label: &str) -> Option<String> {
    let new = written(label);
    match find(text, &front)? {
        Place::Missing => {
            let line = format!("{}labels: [{new}]{}", indent_of_keys(text, &front), ending(text, front.end)?);
            splice(text, front.end..front.end, &line)
        }
        Place::Empty(at) => splice(text, at..at, &format!(" [{new}]")),
        Place::Scalar(range, None) => splice(text, range, &format!("[{new}]")),
        Place::Scalar(range, Some(value)) => {
            let raw = text.get(range.clone())?;
            // A plain text may hold what ends an item inside brackets.
            let stays = serde_yaml::from_str::<Vec<Option<String>>>(&format!("[{raw}]"))
                .is_ok_and(|items| items == [Some(value.clone())]);
            let old = if stays { raw.to_owned() } else { written(&value) };
            splice(text, range, &format!("[{old}, {new}]"))
        }
        Place::Flow(_, items) if !items.is_empty() => {
            let end = items.last()?.end;
            splice(text, end..end, &format!(", {new}"))
        }
        Place::Flow(open, _) => {
            let end = skip(text, open, " \t");
            let closes_here = text.as_bytes().get(end) == Some(&b']');
            splice(text, open..if closes_here { end } else { open }, &new)
        }
        Place::Block(indent, items) => {
            let end = items.last()?.end;
            splice(text, end..end, &format!("{indent}- {new}{}", ending(text, end)?))
        }
    }
}

/// `text` without the first label in `front` that `is_it`.
pub(super) fn remove(text: &str, front: Range<usize>, is_it: impl Fn(&str) -> bool) -> Option<String> {
    match find(text, &front)? {
        Place::Missing | Place::Empty(_) | Place::Scalar(_, None) => None,
        Place::Scalar(range, Some(_)) => splice(text, range, "[]"),
        Place::Flow(_, items) => {
            let named = |item: &&Range<usize>| {
                text.get((*item).clone()).and_then(value_of).flatten().is_some_and(|name| is_it(&name))
            };
            splice(text, around(text, items.iter().find(named)?)?, "")
        }
        Place::Block(_, items) => {
            let named = |item: &Range<usize>| {
                let list = text.get(item.clone()).and_then(|raw| serde_yaml::from_str::<Vec<Option<String>>>(raw).ok());
                list.is_some_and(|list| list.iter().flatten().any(|name| is_it(name)))
            };
            splice(text, items.into_iter().find(named)?, "")
        }
    }
}

fn splice(text: &str, range: Range<usize>, new: &str) -> Option<String> {
    Some(format!("{}{new}{}", text.get(..range.start)?, text.get(range.end..)?))
}

fn find(text: &str, front: &Range<usize>) -> Option<Place> {
    let indent = indent_of_keys(text, front);
    let mut lines = lines(text, front.clone()).skip_while(|line| behind_key(text, line, indent).is_none());
    let Some(line) = lines.next() else { return Some(Place::Missing) };
    let colon_end = behind_key(text, &line, indent)?;
    let end = lines.find(|line| ends_value(text, line, indent)).map_or(front.end, |line| line.start);
    let start = skip_to_token(text, colon_end);
    if start >= end {
        return Some(Place::Empty(colon_end));
    }
    let rest = text.get(start..end)?;
    match rest.chars().next()? {
        // Its bracket closes it, however far left that stands.
        '[' => flow(text, start + 1, front.end),
        '-' if start >= line.end && (rest.starts_with("- ") || rest.starts_with("-\n") || rest.starts_with("-\r")) => {
            block(text, line.end..end)
        }
        '|' | '>' | '&' | '*' | '!' | '{' | '%' | '@' | '`' => None,
        _ => {
            let token = token(text, start, "")?;
            let alone = skip_to_token(text, token.end) >= end;
            let value = text.get(token.clone()).and_then(value_of)?;
            alone.then_some(Place::Scalar(token, value))
        }
    }
}

fn flow(text: &str, open: usize, end: usize) -> Option<Place> {
    let mut items = Vec::new();
    let mut at = skip_to_token(text, open);
    while at < end {
        if text.as_bytes().get(at) == Some(&b']') {
            return Some(Place::Flow(open, items));
        }
        let item = token(text, at, ",]")?;
        value_of(text.get(item.clone())?)?;
        at = skip_to_token(text, item.end);
        items.push(item);
        match text.as_bytes().get(at)? {
            b',' => at = skip_to_token(text, at + 1),
            b']' => {}
            _ => return None,
        }
    }
    None
}

fn block(text: &str, region: Range<usize>) -> Option<Place> {
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut indent = None;
    for line in lines(text, region).filter(|line| is_content(text, line)) {
        let depth = indent_of(text, &line);
        let behind = text.get(line.start..line.end)?.trim_start_matches(' ');
        if *indent.get_or_insert(depth) == depth && behind.starts_with('-') {
            items.push(line);
        } else {
            items.last_mut()?.end = line.end;
        }
    }
    Some(Place::Block(indent?.to_owned(), items))
}

/// What goes when `item` of a flow list goes: one comma with it, its line where it has one of its
/// own, and never a comment that stands on another line.
fn around(text: &str, item: &Range<usize>) -> Option<Range<usize>> {
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let before = text.get(..item.start)?.trim_end_matches([' ', '\t']);
    let mut after = skip(text, item.end, " \t");
    let has_comma = byte(after) == Some(b',');
    after = if has_comma { after + 1 } else { item.end };
    let next = skip(text, after, " \t");
    let rest = text.get(next..)?;
    let line_ends = rest.starts_with(['#', '\n', '\r']);
    Some(match () {
        () if before.ends_with('\n') && line_ends => before.len()..next + rest.find('\n')? + 1,
        () if has_comma && !line_ends => item.start..next,
        () if has_comma => before.len()..after,
        () if before.ends_with(',') => before.len() - 1..item.end,
        () if before.ends_with('[') && byte(next) == Some(b']') => before.len()..next,
        () => item.clone(),
    })
}

/// A quoted or plain text that starts at `start`; a plain one ends before any of `stops`.
fn token(text: &str, start: usize, stops: &str) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let quote = rest.chars().next()?;
    if quote == '"' || quote == '\'' {
        let mut chars = rest.char_indices().skip(1).peekable();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' if quote == '"' => drop(chars.next()),
                '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => drop(chars.next()),
                _ if char == quote => return Some(start..start + at + 1),
                _ => {}
            }
        }
        return None;
    }
    let line = rest.split(['\n', '\r']).next()?;
    let line = line.split(" #").next()?.split("\t#").next()?;
    let plain = line.split(|char| stops.contains(char)).next()?.trim_end();
    let odd = plain.is_empty() || plain.starts_with(['[', '{', '&', '*', '!']);
    (!odd).then_some(start..start + plain.len())
}

/// The text of one scalar; the inner `None` is a null.
fn value_of(raw: &str) -> Option<Option<String>> {
    serde_yaml::from_str(raw).ok()
}

fn lines(text: &str, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut end = range.start;
    text.get(range).unwrap_or_default().split_inclusive('\n').map(move |line| {
        let start = end;
        end += line.len();
        start..end
    })
}

fn is_content(text: &str, line: &Range<usize>) -> bool {
    text.get(line.clone()).is_some_and(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

fn indent_of<'a>(text: &'a str, line: &Range<usize>) -> &'a str {
    let line = text.get(line.clone()).unwrap_or_default();
    line.get(..line.len() - line.trim_start_matches(' ').len()).unwrap_or_default()
}

fn indent_of_keys<'a>(text: &'a str, front: &Range<usize>) -> &'a str {
    lines(text, front.clone()).find(|line| is_content(text, line)).map_or("", |line| indent_of(text, &line))
}

/// The offset behind `labels:` when `line` begins with it.
fn behind_key(text: &str, line: &Range<usize>, indent: &str) -> Option<usize> {
    let content = text.get(line.clone())?.strip_prefix(indent)?;
    let rest = ["labels", "\"labels\"", "'labels'"].iter().find_map(|key| content.strip_prefix(key))?;
    let value = rest.trim_start_matches([' ', '\t']).strip_prefix(':')?;
    (value.is_empty() || value.starts_with([' ', '\t', '\r', '\n'])).then_some(line.end - value.len())
}

/// Whether the value of a key at `indent` is over at `line`. Items of a list may stand as far left as their key.
fn ends_value(text: &str, line: &Range<usize>, indent: &str) -> bool {
    let depth = indent_of(text, line).len();
    let is_item = text.get(line.start + depth..line.end).is_some_and(|rest| rest.starts_with('-'));
    is_content(text, line) && (depth < indent.len() || (depth == indent.len() && !is_item))
}

fn skip(text: &str, at: usize, what: &str) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.len() - rest.trim_start_matches(|char| what.contains(char)).len()
}

/// Over white space, line breaks and comments.
fn skip_to_token(text: &str, mut at: usize) -> usize {
    loop {
        at = skip(text, at, " \t\r\n");
        let rest = text.get(at..).unwrap_or_default();
        if !rest.starts_with('#') {
            return at;
        }
        at += rest.find('\n').unwrap_or(rest.len());
    }
}

/// The line break before `at`.
fn ending(text: &str, at: usize) -> Option<&'static str> {
    Some(if text.get(..at)?.ends_with("\r\n") { "\r\n" } else { "\n" })
}

/// `label` as YAML, quoted only where it must be: where it would not come back as this very text,
/// or where another reader of YAML would take it for something else (`no`, `1.10`, a date).
fn written(label: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let looks_like_number = label.contains(|char: char| char.is_ascii_digit())
        && label.chars().all(|char| "0123456789abcdefABCDEFxXoO+-._:TZ ".contains(char));
    let plain = label.starts_with(|char: char| char.is_alphanumeric() || !char.is_ascii())
        && !label.contains(|char: char| char.is_control() || ",[]{}\u{feff}\u{2028}\u{2029}".contains(char))
        && !WORDS.contains(&label.to_lowercase().as_str())
        && !looks_like_number
        && serde_yaml::from_str::<Vec<serde_yaml::Value>>(&format!("[{label}]"))
            .is_ok_and(|items| items == [serde_yaml::Value::String(label.to_owned())]);
    if plain {
        return label.to_owned();
    }
    let mut quoted = String::from('"');
    for char in label.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\u{feff}' | '\u{2028}' | '\u{2029}' => quoted.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ if char.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

//! Markdown of a model or a stranger, made fit to stand in our comments: it loads nothing, hides
//! nothing and calls nobody. What would is shown as text. A picture's address is a way to send
//! secrets out, and HTML can hide words from the reader or close what surrounds them.
//!
//! We cannot know for sure what a forge takes for code. So what is harmless in code stays as it is
//! only where it looks like code, and what does harm is broken everywhere.

use super::fence::Fences;
use super::visible::without_invisible;
use super::{without_controls, without_references};

/// Elements that load something, hide something, take input or end our quotation.
const ACTIVE_ELEMENTS: &str = "audio base blockquote body button details embed form frame iframe image img input \
    link math meta noembed noframes noscript object picture plaintext script source style summary svg template textarea \
    title track video xmp";

/// Character references that become part of a reference to a person, an issue or an address.
const ACTIVE_ENTITIES: &[&str] = &["colon", "commat", "dash", "excl", "hyphen", "lowbar", "num", "period", "sol"];

/// `text`, inert. Applied twice it changes nothing more.
pub fn inert(text: &str) -> String {
    let text = without_controls(&without_invisible(text)).into_owned();
    let mut out = String::with_capacity(text.len() + 16);
    // `[label]: address` somewhere: then a picture can do without an address of its own.
    let has_definitions = text.contains("]:");
    let mut fences = Fences::default();
    for line in text.split_inclusive('\n') {
        let (content, line_break) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
        if fences.read(content) {
            push_code(&mut out, content, has_definitions);
        } else {
            push_prose(&mut out, content, has_definitions);
        }
        out.push_str(line_break);
    }
    without_references(&out)
}

/// `text` as inline code in one line, whatever backquotes it has: a longer run of them stands around it.
pub fn inline_code(text: &str) -> String {
    let line = without_controls(&without_invisible(text)).replace(['\n', '\t'], " ");
    let longest = line.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let is_bare = !line.trim().is_empty() && !line.starts_with(['`', ' ']) && !line.ends_with(['`', ' ']);
    let pad = if is_bare { "" } else { " " };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// A line outside of fences: prose, and code between runs of backquotes of one length.
fn push_prose(out: &mut String, line: &str, has_definitions: bool) {
    let mut rest = line;
    while let Some(at) = rest.find(['`', '\\']) {
        let (prose, behind) = rest.split_at(at);
        push_text(out, prose);
        if let Some(escaped) = behind.strip_prefix('\\') {
            // Together: an escaped backquote begins no code.
            if begins_tag(escaped) {
                // Text already if this is no code; so is our own escape, whatever it is.
                rest = escaped;
                continue;
            }
            let length = 1 + escaped.chars().next().filter(char::is_ascii_punctuation).map_or(0, char::len_utf8);
            let (pair, behind) = behind.split_at(length);
            out.push_str(pair);
            rest = behind;
            continue;
        }
        let run = behind.len() - behind.trim_start_matches('`').len();
        let (fence, behind) = behind.split_at(run);
        out.push_str(fence);
        rest = behind;
        if let Some(end) = end_of_code(behind, run) {
            let (code, behind) = behind.split_at(end);
            push_code(out, code, has_definitions);
            out.push_str(fence);
            rest = &behind[run..];
        }
    }
    push_text(out, rest);
}

/// Where the next run of exactly `length` backquotes begins.
fn end_of_code(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('`')?;
        let run = text[at..].len() - text[at..].trim_start_matches('`').len();
        if run == length {
            return Some(at);
        }
        at += run;
    }
}

/// Prose. A backquote or backslash behind it makes no tag, picture or entity of its end.
fn push_text(out: &mut String, prose: &str) {
    for (at, character) in prose.char_indices() {
        let rest = &prose[at + character.len_utf8()..];
        match character {
            '<' if begins_tag(&prose[at..]) => out.push_str("&lt;"),
            '&' if is_active_entity(rest) => out.push_str("&amp;"),
            '[' if out.ends_with('!') => out.push_str("\\["),
            _ => out.push(character),
        }
    }
}

/// A tag, a comment, or one of the other things that HTML begins so.
fn begins_tag(text: &str) -> bool {
    let after = text.strip_prefix('<');
    after.is_some_and(|after| after.starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next)))
}

fn push_code(out: &mut String, code: &str, has_definitions: bool) {
    // A picture needs one of these behind it, or a definition.
    let last_address = if has_definitions { Some(code.len()) } else { code.rfind("](").max(code.rfind("][")) };
    for (at, character) in code.char_indices() {
        let rest = &code[at + character.len_utf8()..];
        let acts = match character {
            '<' => rest.starts_with('!') || is_active_element(rest),
            '&' => is_active_entity(rest),
            '!' => rest.starts_with('[') && last_address.is_some_and(|last| at < last),
            _ => false,
        };
        out.push(character);
        if acts {
            out.push(' ');
        }
    }
}

fn is_active_element(after: &str) -> bool {
    let name = after.strip_prefix('/').unwrap_or(after);
    let name = &name[..name.bytes().take_while(u8::is_ascii_alphanumeric).count()];
    ACTIVE_ELEMENTS.split(' ').any(|element| name.eq_ignore_ascii_case(element))
}

fn is_active_entity(after: &str) -> bool {
    let is_named = |name: &&str| after.strip_prefix(*name).is_some_and(|rest| rest.starts_with(';'));
    after.starts_with('#') || ACTIVE_ENTITIES.iter().any(is_named)
}

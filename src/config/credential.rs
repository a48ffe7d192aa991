//! What in the entry of an MCP server is a secret, though no key of ours says so: told by its name, by its looks,
//! and by its place in an address. What is taken for one is masked everywhere and kept out of commits, so plain
//! words are not.

/// A value is a secret whose name, in capitals, has one of these in it.
const TELLTALES: [&str; 11] = [
    "TOKEN",
    "KEY",
    "SECRET",
    "PASSWORD",
    "PASSPHRASE",
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "SESSION",
    "WEBHOOK",
    "DSN",
];
/// Or ends in one of these.
const ENDINGS: [&str; 4] = ["_PASS", "_PWD", "_PAT", "AUTH"];
/// So many letters and digits, mixed, are a random value and no word, version or name of a model.
const SHORTEST_RANDOM_CHARS: usize = 8;

/// Adds the secrets of one variable, header or parameter.
pub(super) fn add_of<'a>(name: &str, value: &'a str, found: &mut Vec<&'a str>) {
    let name = name.to_uppercase();
    let is_told =
        TELLTALES.iter().any(|part| name.contains(part)) || ENDINGS.iter().any(|ending| name.ends_with(ending));
    if is_told || looks_random(value) {
        // `Bearer <token>`: the token alone must not show up either.
        found.push(value);
        found.extend(value.split_whitespace().skip(1).last());
    }
    add_in(value, found);
}

/// Adds the secrets of the addresses in `text`: who logs in, and what is given as a parameter.
pub(super) fn add_in<'a>(text: &'a str, found: &mut Vec<&'a str>) {
    for (at, scheme_end) in text.match_indices("://") {
        let rest = &text[at + scheme_end.len()..];
        let rest = rest.split(|char: char| char.is_whitespace() || "\"'<>".contains(char)).next().unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if let Some((login, _)) = authority.rsplit_once('@') {
            found.push(login);
            found.extend(login.split_once(':').map(|(_, password)| password));
        }
        let query = rest.split('#').next().and_then(|rest| rest.split_once('?'));
        for parameter in query.map_or("", |(_, query)| query).split('&') {
            if let Some((name, value)) = parameter.split_once('=') {
                add_of(name, value, found);
            }
        }
    }
}

/// Whether there is a random value in it. A path is none, whatever its parts look like.
fn looks_random(value: &str) -> bool {
    let is_path = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    let mut parts = value.split(|char: char| !char.is_ascii_alphanumeric());
    let is_random = |part: &str| {
        let has = |is: fn(&u8) -> bool| part.as_bytes().iter().any(is);
        part.len() >= SHORTEST_RANDOM_CHARS && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    };
    !is_path && parts.any(is_random)
}

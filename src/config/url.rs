//! Addresses as people write them, brought to the one form the rest relies on. Opens nothing.

/// Without blanks around it and slashes at its end.
pub(super) fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}

/// As `trimmed`; a bare `host:port` is taken for `http://host:port`.
pub(super) fn with_scheme(url: &str) -> String {
    let url = trimmed(url);
    let authority = url.split('/').next().unwrap_or_default();
    let is_bare =
        authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if is_bare { format!("http://{url}") } else { url }
}

/// As `with_scheme`, ending in `/v1`.
pub(super) fn with_v1(url: &str) -> String {
    let url = with_scheme(url);
    // Empty stays empty, so that it is reported as that.
    if url.is_empty() || url.ends_with("/v1") { url } else { format!("{url}/v1") }
}

/// Whether `url` is an HTTP address without a user in it: a password there would be in no list of
/// secrets.
pub(super) fn is_http(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let unfit = |char: char| char.is_whitespace() || char.is_control() || "\"\\<>".contains(char);
    !authority.is_empty() && !authority.starts_with(':') && !authority.contains('@') && !url.contains(unfit)
}

/// Whether `url` is an address to which a path can be appended.
pub(super) fn is_root(url: &str) -> bool {
    is_http(url) && !url.contains(['?', '#'])
}

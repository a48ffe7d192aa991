//! Percent-encoding.

/// Percent-encodes one path segment or query value: everything but the unreserved characters of
/// RFC 3986, so a space is `%20` and a slash stays inside the segment.
pub fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

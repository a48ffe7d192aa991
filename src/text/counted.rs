//! Numbers of things in a sentence.

/// `1 tool`, `2 tools`: `one` is the thing in the singular; its plural ends in `s`.
pub fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("{count} {one}") } else { format!("{count} {one}s") }
}

//! References that a forge acts on when it shows a text: `#12` and `!12` (closed by a keyword before
//! them), `@name` (called), and addresses of issues. Broken by a space, so they stay readable.

/// What stands before the number in addresses of items and in GitHub's `GH-12`.
const ADDRESSES: [&str; 6] = ["/issues/", "/pull/", "/merge_requests/", "/discussions/", "/work_items/", "GH-"];

/// `text` with every such reference broken.
pub fn without_references(text: &str) -> String {
    let mut broken = String::with_capacity(text.len() + 8);
    let mut before: Option<char> = None;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        broken.push(character);
        let next = rest.peek().copied();
        let starts_word = before.is_none_or(|before| !before.is_alphanumeric());
        let acts = match character {
            '#' | '!' => next.is_some_and(|next| next.is_ascii_digit()),
            '@' => starts_word && next.is_some_and(char::is_alphanumeric),
            '/' | '-' => {
                next.is_some_and(|next| next.is_ascii_digit()) && ADDRESSES.iter().any(|end| ends_with(&broken, end))
            }
            _ => false,
        };
        if acts {
            broken.push(' ');
        }
        before = Some(character);
    }
    broken
}

/// In any case; `end` is ASCII.
fn ends_with(text: &str, end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start.and_then(|start| text.get(start..)).is_some_and(|found| found.eq_ignore_ascii_case(end))
}

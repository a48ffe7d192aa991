//! References that a forge acts on when it shows a text: `#12` and `!12` (closed by a keyword before
//! them), `@name` (called), and addresses of issues. Broken by a space, so they stay readable.

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
            // `/issues/12`, `/pull/12`, `GH-12`.
            '/' | '-' => {
                let path = ["/issues/", "/pull/", "/merge_requests/", "GH-", "gh-"];
                path.iter().any(|path| broken.ends_with(path)) && next.is_some_and(|next| next.is_ascii_digit())
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

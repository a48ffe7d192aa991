//! Quoting text of others so that a model can tell it from what we say.

/// `text` between a begin and an end that carry `mark`, which is random per task, so that nobody can
/// end the quotation.
pub fn fenced(text: &str, mark: &str) -> String {
    // The mark cannot be in there but by chance; then it is no end either.
    format!("<<data {mark}>>\n{}\n<<end {mark}>>", text.replace(mark, ""))
}

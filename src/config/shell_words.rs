//! Splits one command line into words as a shell would, by blanks, quotes and backslashes. Expands
//! nothing: no variables, no patterns.

/// The words of `line`, or what is wrong with it.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(char) => word.push(char),
                        None => return Err("has a `'` that is never closed"),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        // Inside double quotes a backslash is special before these four only.
                        Some('\\') => match chars.next() {
                            Some(char @ ('"' | '\\' | '$' | '`')) => word.push(char),
                            Some(char) => word.extend(['\\', char]),
                            None => return Err("has a `\"` that is never closed"),
                        },
                        Some(char) => word.push(char),
                        None => return Err("has a `\"` that is never closed"),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(char) => word.get_or_insert_default().push(char),
                None => return Err("ends in a backslash"),
            },
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Ok(words)
}

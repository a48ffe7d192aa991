//! The history on disk, read and judged without the program's own code.

use std::path::Path;

use serde_json::Value;

/// The lines of a `messages.jsonl` or `current.jsonl`.
pub struct History(pub Vec<Value>);

impl History {
    /// Reads a file in which every line must be whole.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.is_empty() || text.ends_with('\n'), "{} ends in a torn line", path.display());
        Self(text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect())
    }

    /// Results of tools, in order.
    pub fn results(&self) -> Vec<&str> {
        self.0.iter().filter(|line| line["role"] == "tool").map(|line| line["content"].as_str().unwrap()).collect()
    }

    /// Number of replies.
    pub fn replies(&self) -> usize {
        self.0.iter().filter(|line| line["role"] == "assistant").count()
    }
}

/// What a strict server demands: every call answered once, in order, right behind it; ids unique;
/// arguments the text of an object; sequence numbers without a gap.
pub fn check_strictly(history: &History) {
    let mut seen = std::collections::HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for (index, line) in history.0.iter().enumerate() {
        assert_eq!(line["seq"], index as u64 + 1, "sequence numbers");
        let role = line["role"].as_str().unwrap();
        if role == "tool" {
            let id = line["tool_call_id"].as_str().expect("a result names its call");
            assert!(!open.is_empty(), "line {index}: a result without a call: {line}");
            assert_eq!(open.remove(0), id, "line {index}: results in the order of the calls");
            continue;
        }
        assert!(open.is_empty(), "line {index}: call {open:?} has no result");
        for call in line["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap().to_owned();
            assert!(!id.is_empty() && seen.insert(id.clone()), "line {index}: id {id} is empty or used twice");
            let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            assert!(arguments.is_object());
            open.push(id);
        }
        if role == "assistant" {
            assert!(!line["content"].as_str().unwrap().is_empty() || !open.is_empty(), "line {index} is empty");
        }
    }
    assert!(open.is_empty(), "calls at the end have no result: {open:?}");
}

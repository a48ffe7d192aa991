//! Pure work on text that came from somewhere else: cutting it, masking secrets in it, mending its
//! JSON, leaving out a model's thinking.
//! Does no I/O and knows nothing of tasks.

mod cut;
mod json;
mod redaction;
mod thinking;

pub use cut::{head, head_and_tail, tail};
pub use json::parse_json;
pub use redaction::Redactor;
pub use thinking::without_thinking;

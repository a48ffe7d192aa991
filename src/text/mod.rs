//! Pure work on text that came from somewhere else: cutting it, quoting it, masking secrets in it, mending its
//! JSON, leaving out a model's thinking.
//! Does no I/O and knows nothing of tasks.

mod cut;
mod fence;
mod json;
mod percent;
mod redaction;
mod references;
mod thinking;
mod visible;

pub use cut::{head, head_and_tail, tail};
pub use fence::fenced;
pub use json::parse_json;
pub use percent::percent_encoded;
pub use redaction::Redactor;
pub use references::without_references;
pub use thinking::without_thinking;
pub use visible::visible;

//! Pure work on text that came from somewhere else: cutting it, masking secrets in it, mending its
//! JSON, leaving out a model's thinking, making it fit for a terminal.
//! Does no I/O and knows nothing of tasks.

mod cut;
mod json;
mod paint;
mod percent;
mod printable;
mod redaction;
mod references;
mod thinking;
mod visible;

pub use cut::{head, head_and_tail, tail};
pub use json::parse_json;
pub use paint::{Paint, Style};
pub use percent::percent_encoded;
pub use printable::{printable, printable_line};
pub use redaction::Redactor;
pub use references::without_references;
pub use thinking::without_thinking;
pub use visible::visible;

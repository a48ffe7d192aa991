//! Pure work on text that came from somewhere else: cutting it and masking secrets in it.
//! Does no I/O and knows nothing of tasks.

mod cut;
mod redaction;

pub use cut::{head, head_and_tail, tail};
pub use redaction::Redactor;

//! Pure work on text that came from somewhere else: cutting it and masking secrets in it.
//! Does no I/O and knows nothing of tasks.

mod cut;
mod percent;
mod redaction;
mod visible;

pub use cut::{head, head_and_tail, tail};
pub use percent::percent_encoded;
pub use redaction::Redactor;
pub use visible::visible;

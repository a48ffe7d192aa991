//! Pure work on text that came from somewhere else: cutting and folding it, masking secrets in it,
//! mending its JSON, leaving out a model's thinking, and making it harmless where it is shown: to a
//! model, on a terminal, in a comment.
//! Does no I/O and knows nothing of tasks.

mod binary;
mod controls;
mod counted;
mod cut;
mod data_marks;
mod fence;
mod folding;
mod inert;
mod json;
mod objects;
mod output;
mod paint;
mod percent;
mod printable;
mod quotation;
mod redaction;
mod references;
mod server_words;
mod terminal;
mod thinking;
mod title;
mod visible;

pub use binary::binary_format;
pub use controls::{escaped, without_controls};
pub use counted::counted;
pub use cut::{bytes_left_out, head, head_and_tail, head_chars, tail};
pub use data_marks::fenced;
pub use fence::Fences;
pub use folding::{fold_data_uris, fold_line, fold_lines};
pub use inert::{inert, inline_code};
pub use json::{json_without_nul, parse_json};
pub use objects::json_objects;
pub use output::ProgramOutput;
pub use paint::{Paint, Style};
pub use percent::percent_encoded;
pub use printable::{printable, printable_json, printable_line};
pub use quotation::quoted;
pub use redaction::Redactor;
pub use references::without_references;
pub use server_words::{server_sentence, server_words};
pub use terminal::as_displayed;
pub use thinking::{split_thinking, without_thinking};
pub use title::{first_line, subject};
pub use visible::visible;

//! The operating system: files, locks, processes, signals, the clock, and deliberate faults for
//! tests. Nothing of our domain. Only this module touches `std::process`, signals, clocks and
//! renames or removes files.

pub mod beneath;
pub mod bubblewrap;
pub mod clock;
pub mod companion;
pub mod fault;
pub mod file;
pub mod file_system;
pub mod http;
pub mod launcher;
mod lines;
pub mod lock;
pub mod process;
pub mod process_table;
mod proxy;
pub mod signal;
pub mod tree;

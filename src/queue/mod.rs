//! Where tasks wait between producer and consumer: the spool directory, or memory for one run.

mod entry_name;
mod memory;
mod spool;

pub use entry_name::EntryName;
pub use memory::MemoryQueue;
pub use spool::{Entry, Spool, State};

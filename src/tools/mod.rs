//! What the model can do: the toolbox of a task, and the built-in tools.

pub mod command_executor;
pub mod finish;
pub mod mcp;
pub mod text_editor;
mod toolbox;

pub use toolbox::Toolbox;

//! MCP servers: tools of other programs, over stdio or HTTP. `server` is one of them in one task, `session`
//! the conversation with it, `transport` what carries the words.

mod chatter;
mod http;
mod http_refusal;
mod offer;
mod result;
mod schema;
mod server;
mod session;
pub mod sse;
mod stdio;
mod transport;

pub use http::Http;
pub use offer::{budget_warning, specs, tokens};
pub use result::read as read_result;
pub use schema::repaired as repaired_schema;
pub use server::{McpServer, Open, ServerSettings};
pub use session::{Failure, Session};
pub use stdio::Stdio;
pub use transport::{End, Lost, Transport};

//! MCP servers: tools of other programs, reached over stdio or HTTP.

pub mod http;
mod http_refusal;
pub mod sse;
pub mod transport;

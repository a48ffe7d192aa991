//! MCP servers: tools of other programs, reached over stdio or HTTP.

pub mod transport;

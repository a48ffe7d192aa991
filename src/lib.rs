#![doc = "placeholder"]

pub mod chat;
pub mod error;
pub mod ports;
pub mod task;
pub mod text;

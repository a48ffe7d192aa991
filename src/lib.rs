#![doc = "placeholder"]

pub mod chat;
pub mod config;
pub mod context;
pub mod control;
pub mod error;
pub mod handler;
pub mod llm;
pub mod ports;
pub mod prompts;
pub mod queue;
pub mod sys;
pub mod task;
pub mod text;
pub mod tools;
pub mod workspace;

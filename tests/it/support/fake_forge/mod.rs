//! What the fakes of forges share: HTTP as servers speak it, failures on order, git behind it.

#![allow(dead_code, reason = "a toolbox: no single fake uses all of it")]

pub mod faults;
pub mod git;
pub mod journal;
pub mod server;
pub mod wire;

//! x
pub const WORK_TREE_MADE_AGAIN: &str = "";

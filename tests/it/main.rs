//! The one integration binary.

mod text_editor;

//! `portcullis tap`: decisions of sidecars as they are made.
//!
//! ```text
//! admin ports ─▶ streams of lines ─merge─▶ lines ─line─▶ rows, JSON
//! ```

pub(crate) mod line;
pub(crate) mod merge;

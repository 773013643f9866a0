//! Answers that are kept with what they were made from, and made again when that changes.

mod graph;
mod interned;
pub(crate) mod memo;

pub(crate) use interned::content_hash;
pub(crate) use memo::{Context, Memo, Query, QueryKey, query};

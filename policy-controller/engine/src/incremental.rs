//! Incremental computation: answers are memoized with their reads, and recomputed when these
//! change.

mod graph;
mod interned;
pub(crate) mod memo;
mod query;

pub(crate) use interned::content_hash;
pub(crate) use memo::{Context, Memo, Query, QueryKey};
pub(crate) use query::query;

//! The admin ports of sidecars: which sidecars there are, connections to them, and their answers.
//!
//! ```text
//! workload, selector ─pods─▶ admin ports ─ask (query)─▶ JSON or a stream
//! ```

mod ask;
mod pods;
mod query;
mod source;

pub(crate) use ask::{AdminError, MAX_LINE, ask, open, refusal};
pub(crate) use pods::running;
pub(crate) use query::AdminQuery;
pub(crate) use source::SidecarAdmin;

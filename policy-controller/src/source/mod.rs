//! Where objects come from: a directory, or a cluster.

pub mod directory;

// Old path: removed when the callers name the crate.
pub use policy_kube::source as kubernetes;

// Old path: removed when the callers name the crate.
pub use policy_engine::source::{
    Batch, Change, Health, Source, SourceContext, SourceError, WatchHealth, WatchKey, WatchState,
};

//! A directory of manifests as a source: any layout, YAML of several documents and JSON, followed
//! while it changes.

mod follow;

pub use follow::DirectorySource;
// Old path: removed when the callers name the crate.
pub use policy_engine::source::directory::{Loaded, Place, load};
pub use policy_engine::source::{Diagnostic, Excerpt, Severity};

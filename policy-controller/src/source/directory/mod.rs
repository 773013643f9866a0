//! A directory of manifests as a source: any layout, YAML of several documents and JSON, followed
//! while it changes.

mod follow;

pub use follow::DirectorySource;

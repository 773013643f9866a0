//! A directory of manifests as a source of objects.

pub mod directory;

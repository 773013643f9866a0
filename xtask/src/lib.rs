//! What the workspace's tasks and its tests share: how the sources depend on each other.

pub mod structure;

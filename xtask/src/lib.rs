//! Library of the workspace's tasks and its tests: the dependencies among the sources.

pub mod structure;

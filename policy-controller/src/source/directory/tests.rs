//! A directory that changes.

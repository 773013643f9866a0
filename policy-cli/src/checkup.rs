//! What `preflight` and `health` have in common: findings, how they are told, and reading a cluster so
//! that what may not be seen is told as not known.

pub(crate) mod answer;
pub(crate) mod check;
pub(crate) mod clock;
pub(crate) mod definitions;
pub(crate) mod finding;
pub(crate) mod metadata;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod rights;
pub(crate) mod security;
pub(crate) mod server;

//! What `preflight` and `health` have in common: findings, how they are told, and reading a cluster so
//! that what may not be seen is told as not known.

pub(crate) mod access_review;
pub(crate) mod check;
pub(crate) mod clock;
pub(crate) mod definitions;
pub(crate) mod exit;
pub(crate) mod fetch;
pub(crate) mod metadata;
pub(crate) mod report;
pub(crate) mod result;
pub(crate) mod security;
pub(crate) mod server;

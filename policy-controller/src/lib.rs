//! The policy controller: its settings, and the assembly of its parts.
//!
//! ```text
//! source ──Batch──▶ policy-engine ──one policy per workload port──▶ serve
//! a directory or                                                    gRPC
//! a cluster
//! ```

#[cfg(test)]
mod metrics_tests;

pub mod admin;
pub mod args;
pub mod directory;
pub mod endpoints;
pub mod run;
pub mod self_policy;
#[cfg(test)]
mod testing;

//! The clients of issuers and agents against fake servers: accepted and rejected responses, errors,
//! and the identity that stays in force.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod certify;
mod clock;
mod hostile;
mod support;
mod workload_api;

//! The clients of issuers and agents against servers played by hand: what is accepted, what is refused
//! and said, and what stays in force meanwhile.
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

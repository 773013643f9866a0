//! The documented API from other languages: docs/examples against the binary, and against a server that
//! says what it likes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what it expects by failing"
)]

#[path = "../process/mod.rs"]
mod process;

mod clients;
mod fake;
mod follow;
mod policies;
mod refusals;

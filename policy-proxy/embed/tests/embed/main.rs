//! A service that embeds the check, called by real clients.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs,
    reason = "a test says what it expects by failing"
)]

#[path = "../../examples/protected_axum.rs"]
#[allow(dead_code, reason = "the example's own entry")]
mod protected_axum;
#[path = "../../examples/protected_tonic.rs"]
#[allow(dead_code, reason = "the example's own entry")]
mod protected_tonic;

#[cfg(feature = "controller")]
#[path = "../../src/directory/source.rs"]
#[allow(dead_code, missing_docs, reason = "a part of the crate, as the source of a controller")]
mod source;

#[cfg(feature = "controller")]
mod connected;
mod directory;
mod examples;
mod routers;
mod services;
mod support;
mod tunnels;

//! The client of the controller against fake servers: Portcullis's own and Linkerd's.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod destinations;
mod linkerd;
mod native;
mod support;
mod tls;

//! Stand-ins for tests: a scripted index, a server over it, and clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::missing_panics_doc,
    reason = "a test ends where it cannot go on"
)]

pub mod client;
mod destinations;
mod index;
pub mod mesh;

pub use destinations::DestinationIndex;
pub use index::{
    Harness, Index, PATIENCE, QUIET, policy, port, revision, routed, soon, with_host_table,
};

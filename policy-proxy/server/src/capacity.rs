//! Capacity that is divided fairly among clients: connections, or bytes.
//!
//! No client waits for capacity. If it is short, a share of those who hold the most is revoked: of
//! the group with the most ([`crate::ClientGroup`]) the client with the most. So a client gets
//! capacity while it holds less than others, however early these came and however many they are.
//! Where some clients are known (their requests were answered, or they are the node), half of the
//! capacity is for them and half for strangers; either half may use all of it until the other needs
//! its own.

mod ledger;
mod share;

pub use ledger::{CapacityBounds, CapacityExceeded, RevocationOrder};
pub use share::{Share, SharedCapacity, UseGuard, WorkGuard};

//! The other replicas of this controller: their addresses, and what their clients have in force.
//!
//! Replicas are the endpoints of a headless Service, ready or not: one that is not ready still has
//! clients. Each is queried over the policy port, with the controller's own certificate, and only
//! about its own clients; without a certificate in plaintext, over loopback only.

mod connect;
mod definition;
mod exchange;

pub use definition::{Replica, Replicas};

pub(crate) use connect::Connector;
pub(crate) use exchange::{PeerEvent, watch_peer};

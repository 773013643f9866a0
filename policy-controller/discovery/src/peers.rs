//! The other replicas of this controller: who they are, and what their clients have in force.
//!
//! Replicas are the endpoints of a headless Service, ready or not: one that is not ready still has
//! clients. Each is asked over the policy port, with the controller's own certificate and of nobody
//! but itself; without a certificate in plaintext, over loopback only.

mod connect;
mod definition;
mod exchange;

pub use definition::{Replica, Replicas};

pub(crate) use connect::Connector;
pub(crate) use exchange::{PeerEvent, watch_peer};

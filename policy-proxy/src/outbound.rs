//! The outbound half: what the application's connections lead to, and how they are carried there.
//!
//! ```text
//! application ──► connection ──► table ──► entry ──► plan ──► balancer ──► carrier ──► endpoint
//!                                  ▲
//!                      discover ───┘  answers
//! ```
//!
//! [`crate::sidecar`] accepts the connections and copies their bytes.
//!
//! **Invariants.** An endpoint that is known to be in the mesh is never reached in plaintext. A
//! connection that cannot be made is reset before its first byte.

pub mod balancer;
pub mod carrier;
pub mod clients;
pub mod connect;
pub mod plan;
pub mod refusal_log;
pub mod server_io;
pub mod settings;
pub mod table;

/// The table of destinations, with the choice among the endpoints of each.
pub type Destinations = table::DestinationTable<balancer::Balancer>;

/// The use of a destination.
pub type DestinationRef = table::EntryRef<balancer::Balancer>;

//! Leader election among the replicas, by a Lease of the API server.
//!
//! `decision` decides, [`LeaderElector`] reads and writes. Every write is guarded by the version that
//! was read. Leadership ends by the replica's own clock before another replica may acquire the Lease,
//! whether or not the API server responds. The Lease is released when the replica shuts down.

mod decision;
mod leader_elector;
mod metrics;
mod record;
mod settings;
#[cfg(test)]
mod tests;

pub use decision::{Action, ElectionState, LeaderElectionRecord, MonotonicTime, Timing};
pub use leader_elector::{LeaderElector, Leadership, identity};
pub use metrics::LeaseMetrics;
pub use record::KINDS_IN_USE;
pub(crate) use record::kinds_of;
pub use settings::{LEASE_NAME, LeaseSettings};

//! One leader among the replicas, by a Lease of the API server.
//!
//! `decision` decides, [`LeaderElector`] asks and writes. Every write is guarded by the version that was read.
//! Leadership ends by the replica's own clock before another replica may take it, whether or not the
//! API server answers; it is given back when the replica shuts down.

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
pub use settings::{LEASE_NAME, LeaseSettings};

//! `Programmed`, n of m: the number of running workloads with a sidecar of ours on which an object
//! is in force, of those that depend on it.
//!
//! ```text
//! index ──what should be in force (demand)──▶ acks ──▶ n of m ──▶ status, viewers, metrics
//! own clients' acknowledgements ─────────────────▶  ▲
//! other replicas' clients' (peers) ─────────────────┘
//! ```
//! m comes from the index alone, so that a workload that is not connected is in m. n comes from
//! acknowledgements, compared by the hash of what was acknowledged.
//!
//! Parts of an object that clients are not sent go the same way, without a count.
//!
//! **Invariants.** Nothing is counted, queried from other replicas or kept while there is no demand
//! for it. While a replica does not answer, no count is published, because its clients might lack
//! an object.

mod acks;
mod metrics;
mod overview;
mod peer_set;
#[cfg(test)]
mod tests;
mod timing;
mod tracker;
mod unsent;

pub use metrics::RolloutMetrics;
pub use overview::ClusterOverview;
pub use peer_set::INCOMPLETE_REASONS;
pub use tracker::{RolloutConfig, RolloutTracker, TrackingGuard, start};

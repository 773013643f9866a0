//! `Programmed`, n of m: on how many of the running workloads that carry a sidecar of ours and depend
//! on an object it is in force.
//!
//! ```text
//! index ──what ought to be in force──▶ demand ──▶ acks ──▶ n of m ──▶ status, viewers, metrics
//! own clients' acknowledgements ─────────────────▶  ▲
//! other replicas' clients' (replicas) ──────────────┘
//! ```
//! m comes from the index alone, so that a workload that is not connected is in m. n comes from
//! acknowledgements, compared by the hash of what was acknowledged.
//!
//! What clients are not sent of an object goes the same way, without a count.
//!
//! **Invariants.** Nothing is counted, asked of other replicas or kept while nobody wants to know.
//! While a replica does not answer nothing is said of any object: its clients might lack it.

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
pub use tracker::{RolloutConfig, RolloutTracker, TrackingGuard, start};

//! A cluster's API server as a source: every watched kind is listed and followed, in the whole cluster
//! or in some namespaces.
//!
//! ```text
//! watch (one per kind and namespace) ──WatchUpdate──▶ batcher ──Batch──▶ sink
//!    list, follow, bookmarks, 410                │ Synced when all are listed
//!    │ how it does                               └ refresh: all list again
//!    ▼
//! watch_status ──Health──▶ readiness, metrics
//!
//! numbering (the Lease) ──epoch──▶ batcher: all list again, then one batch
//! ```
//!
//! The loop is our own, as what it is for needs what ready-made ones hide: bookmarks, which tell
//! that nothing happened, and the versions of lists, which revisions are compared by and which show
//! that a backup was restored.
//!
//! **Invariants.** No failure takes away what is held: only an event, a complete list, or a kind that
//! was found absent twice does. A list arrives as one batch, with the deletions that were missed.
//! An object that cannot be read is an invalid object. Pods that have ended are objects like any
//! other: whether one runs is a fact that it carries, and the policy of one that does not concerns
//! nobody.

mod api;
mod backoff;
mod batcher;
mod config;
mod decode;
mod definition;
mod discover;
mod epoch;
mod epoch_tracker;
mod freshness;
mod latest_versions;
mod metrics;
mod namespaces;
mod pending_batch;
mod projection;
#[cfg(test)]
mod tests;
mod throttle;
mod watch;
mod watch_status;

pub use config::{KubernetesConfig, Scope};
pub use definition::{KubernetesSource, PendingSource, object_of};
pub use freshness::Freshness;
pub use metrics::WatchMetrics;

//! The API server of a cluster as a source: every watched kind is listed and watched, in the whole
//! cluster or in some namespaces.
//!
//! ```text
//! watch (one per kind and namespace) ──WatchUpdate──▶ batcher ──Batch──▶ sink
//!    list, watch, bookmarks, 410                         │ Synced when all are listed
//!    │ its health                                        └ refresh: all relist
//!    ▼
//! watch_status ──Health──▶ readiness, metrics
//!
//! epoch_tracker (the Lease) ──epoch──▶ batcher: all relist, then one batch
//! ```
//!
//! The reflector is our own because ready-made ones hide two things: bookmarks, which show that
//! nothing happened, and the resource versions of lists, by which revisions are compared and a
//! restored backup is noticed.
//!
//! **Invariants.** No failure removes an object: only a delete event or a complete list does. An object
//! that is gone because the definition of its kind is stays in force
//! ([`policy_engine::source::Change::Keep`]). A list arrives as one batch, together with the deletions that were
//! missed. An object that cannot be parsed is an invalid object. Pods that have ended are objects
//! like any other: their phase is a fact of the object, and the policy of a pod that does not run
//! affects no traffic.

mod api;
mod backoff;
mod batcher;
mod config;
mod custom_definition;
mod decode;
mod definition;
mod discover;
mod epoch;
mod epoch_tracker;
mod freshness;
mod latest_versions;
mod metrics;
mod namespaces;
mod pages;
mod pending_batch;
mod projection;
#[cfg(test)]
mod tests;
mod throttle;
mod unreadable;
mod watch;
mod watch_status;

pub use config::{KubernetesConfig, Scope};
pub use definition::{KubernetesSource, PendingSource, object_of};
pub use freshness::Freshness;
pub use metrics::WatchMetrics;

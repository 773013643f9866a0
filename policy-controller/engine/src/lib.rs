//! From policy resources to one policy per workload port, kept up to date.
//!
//! ```text
//! source ──Batch──▶ index ──Topics──▶ resolve ──answers──▶ compile ──ServerPolicy──▶ publish
//! a directory       tables per        pure functions       joins the pieces for      one watch
//! or a cluster      kind and          of a key, each       one workload shape        channel per
//!                   namespace         with what it read    and port                  subscription
//! ```
//!
//! One task (see [`start`]) owns the index. A batch of changes is one transaction: it names the
//! topics it touched; answers that read one of them are computed again, and whoever read an answer
//! only if it came out different. What is left at the end of the chain is published to the
//! subscribers concerned, once.
//!
//! **Invariants.** Resources stop at `compile`: what is published names no Kubernetes type. An
//! invalid object grants nothing and keeps what it claims. A policy depends on the objects and the
//! configuration alone, never on the order of events. Pods of one shape share one policy. Nothing here
//! speaks to a network.

mod annotations;
mod compile;
mod compiled;
pub mod config;
pub mod controller;
pub mod desired;
mod engine;
pub mod epoch;
mod history;
pub mod hold;
mod incremental;
mod index;
mod index_metrics;
pub mod kinds;
pub mod latest;
pub mod metric_names;
pub mod programmed;
pub mod publish;
mod question;
pub mod report;
mod resolve;
pub mod review;
pub mod source;
pub mod stated;
mod subscriptions;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod unsent;
pub mod view;

pub use annotations::annotation_errors;
pub use compiled::{Compiled, CompiledWorkload, compile_directory, compile_objects};
pub use config::ControllerConfig;
pub use controller::{ConditionsHandle, Controller, ObjectsHandle, start};
pub use history::History;
pub use index_metrics::IndexMetrics;
pub use latest::Latest;
pub use publish::{LookupError, Policies, PortPolicy, PublishedWorkload, WorkloadState};
pub use question::condition as conditions;
pub use resolve::workload::ports_meant;
pub use review::ReviewHandle;

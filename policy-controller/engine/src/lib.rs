//! From policy resources to one policy per workload port, kept up to date.
//!
//! ```text
//! source ──Batch──▶ index ◀──reads── answers ──what came out different──▶ publish
//! a directory       tables per       pure functions of a key, remembered  one watch
//! or a cluster      kind and         with what each read: `compile` makes  channel per
//!                   namespace        policies and asks `resolve`           subscription
//! ```
//!
//! One task (see [`start`]) owns the index. A batch of changes is one transaction: it names the
//! topics it touched, and answers that read one of them are dirty. These are computed again, and
//! whoever read an answer only if it came out different. What is left at the end of the chain is
//! published to the subscribers concerned, once.
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
pub mod desired_conditions;
pub mod enforcement;
mod engine;
pub mod epoch;
pub mod findings;
pub mod handles;
#[cfg(any(test, feature = "testing"))]
mod history;
pub mod hold;
mod incremental;
mod index;
mod index_metrics;
pub mod latest;
pub mod metric_names;
pub mod programmed;
pub mod publish;
mod query;
pub mod reach;
pub mod report;
pub mod request;
mod resolve;
pub mod review;
pub mod source;
mod subscriptions;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod unsent;
pub mod view;

pub use annotations::annotation_errors;
pub use compiled::{Compiled, CompiledWorkload, compile_directory, compile_objects};
pub use config::ControllerConfig;
pub use controller::{Controller, start};
pub use handles::{ConditionsHandle, DesiredHandle, ObjectsHandle, Policies, ReviewHandle};
#[cfg(any(test, feature = "testing"))]
pub use history::History;
pub use index_metrics::IndexMetrics;
pub use latest::Latest;
pub use publish::{LookupError, PortPolicy, PublishedWorkload, WorkloadState};
pub use query::condition as conditions;

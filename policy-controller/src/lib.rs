//! From policy resources to one policy per workload port, streamed to whoever watches it.
//!
//! ```text
//! source ──Batch──▶ index ──Topics──▶ resolve ──answers──▶ compile ──ServerPolicy──▶ publish ──▶ serve
//! a directory       tables per        pure functions       joins the pieces for      one watch    gRPC
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
//! configuration alone, never on the order of events. Pods of one shape share one policy.

pub mod kinds;

pub mod source;

mod index;
mod index_metrics;

mod resolve;

mod compile;

mod engine;
mod epoch;

mod review;

mod annotations;
mod certificate;
mod compiled;
mod controller;
mod der;
mod history;
mod latest;
mod metric_names;
mod subscriptions;

pub mod programmed;
pub mod publish;
pub mod replicas;
pub mod report;

pub mod lease;
pub mod status;

pub mod serve;
pub mod view;

pub mod access;
pub mod admin;
pub mod admission;
pub mod args;
pub mod beside;
pub mod cluster;
pub mod config;
pub mod guard;
pub mod injector;
pub mod issuer;
pub mod rbac;
pub mod run;
#[cfg(test)]
mod testing;

pub use annotations::annotation_errors;
pub use compiled::{Compiled, CompiledWorkload, compile_directory, compile_objects};
pub use config::ControllerConfig;
pub use controller::{ConditionsHandle, Controller, ObjectsHandle, start};
pub use history::History;
pub use index_metrics::IndexMetrics;
pub use latest::Latest;
pub use policy_proxy::telemetry::ProcessMetrics;
pub use publish::{
    LookupError, Policies, PortPolicy, UndeclaredPorts, WorkloadKey, WorkloadKind, WorkloadState,
};
pub use resolve::condition as conditions;
pub use resolve::workload::ports_meant;
pub use review::ReviewHandle;

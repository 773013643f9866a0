//! The policy controller: what it is told, and how its parts are put together.
//!
//! ```text
//! source ──Batch──▶ policy-engine ──one policy per workload port──▶ serve
//! a directory or                                                    gRPC
//! a cluster
//! ```

pub mod source;

mod certificate;
mod der;
mod metric_names;

pub mod programmed;
pub mod replicas;

pub mod lease;
pub mod status;

pub mod serve;

pub mod access;
pub mod admin;
pub mod admission;
pub mod args;
pub mod beside;
pub mod cluster;
pub mod guard;
pub mod injector;
pub mod issuer;
pub mod rbac;
pub mod run;
#[cfg(test)]
mod testing;

// Old path: removed when the callers name the crate.
pub use policy_engine::{
    Compiled, CompiledWorkload, ConditionsHandle, Controller, ControllerConfig, History,
    IndexMetrics, Latest, LookupError, ObjectsHandle, Policies, PortPolicy, ReviewHandle,
    UndeclaredPorts, WorkloadKey, WorkloadKind, WorkloadState, annotation_errors,
    compile_directory, compile_objects, conditions, config, controller, kinds, ports_meant,
    publish, report, review, start, view,
};
pub use policy_proxy::telemetry::ProcessMetrics;

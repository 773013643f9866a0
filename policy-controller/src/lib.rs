//! The policy controller: what it is told, and how its parts are put together.
//!
//! ```text
//! source ──Batch──▶ policy-engine ──one policy per workload port──▶ serve
//! a directory or                                                    gRPC
//! a cluster
//! ```

pub mod source;

mod metric_names;

pub mod admin;
pub mod args;
mod endpoints;
pub mod guard;
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
pub use policy_kube::{lease, rbac};
pub use policy_server::ProcessMetrics;
pub use policy_webhooks::{admission, beside, injector};

/// Old path: removed when the callers name the crate.
pub mod programmed {
    pub use policy_discovery::programmed::*;
    pub use policy_engine::desired::DemandHandle;
}

/// Old path: removed when the callers name the crate.
pub mod replicas {
    pub use crate::args::{ReplicaArgs, ReplicaArgsError, ReplicaSettings, Whom};
    pub use crate::endpoints::{OwnName, follow_endpoints};
    pub use policy_discovery::replicas::{Replica, Replicas};
}

/// Old path: removed when the callers name the crate.
pub mod serve {
    pub use policy_discovery::serve::*;
    pub use policy_server::review::{Authenticated, ReviewError, Reviewer, Subject};
    pub use policy_server::{Allowance, Held, Peer, TlsError, TlsFiles, TlsHandle};
}

/// Old path: removed when the callers name the crate.
pub mod cluster {
    pub use crate::args::ClusterArgs;
    pub use policy_kube::cluster::ClusterError;
}

/// Old path: removed when the callers name the crate.
pub mod status {
    pub use policy_engine::programmed::{Programmed, ProgrammedAt, VersionedTable};
    pub use policy_engine::stated::{Stated, StatedTable};
    pub use policy_kube::status::*;
}

/// Old path: removed when the callers name the crate.
pub mod issuer {
    pub use crate::args::IssuerSettings;
    pub use policy_issuer::*;
}

/// Old path: removed when the callers name the crate.
pub mod access {
    pub use crate::args::AUDIENCE;
    pub use policy_discovery::{KeyError, KeyReviewer};
    pub use policy_kube::{ClusterReviewer, GROUP, RESOURCE, VERB};
    pub use policy_server::review::Bounded;
}

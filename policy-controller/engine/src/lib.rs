//! Compiles policy resources into one policy per workload port, and keeps it up to date.
//!
//! ```text
//! source ──Batch──▶ index ◀──reads── queries ──changed answers──▶ publish
//! a directory       tables per       pure functions of a key,     one watch
//! or a cluster      kind and         memoized with their reads:   channel per
//!                   namespace        `resolve` and `compile`      subscription
//! ```
//!
//! One task (see [`start`]) owns the index. A batch of changes is one transaction: applying it
//! returns the inputs it touched, and the queries that read one of them are dirty. These are executed again, and
//! their readers only if an answer has changed. Answers at the end of the chain are published to the
//! subscribers concerned, once.
//!
//! **Invariants.** Resources stop at `compile`: published values name no Kubernetes type. An invalid
//! object grants nothing and keeps its claims. A policy depends on the objects and the configuration
//! alone, never on the order of events. Pods of one shape share one policy. This crate has no network
//! I/O.

mod annotations;
pub mod behaviour;
mod client_witness;
pub mod compatibility;
mod compile;
mod compiled;
pub mod config;
pub mod contributions;
pub mod controller;
mod delegations;
pub mod desired;
pub mod desired_conditions;
mod destination_channels;
mod destination_shares;
mod destinations;
pub mod enforcement;
mod engine;
pub mod epoch;
pub mod findings;
mod group_sizes;
pub mod handles;
#[cfg(any(test, feature = "testing"))]
mod history;
pub mod hold;
mod incremental;
mod index;
mod index_metrics;
mod inventory;
pub mod latest;
pub mod least_change;
pub mod metric_names;
pub mod newly_allowed;
pub mod outbound;
mod outside_networks;
mod policy_edit;
pub mod probes;
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
mod widened;
mod witness;

pub use annotations::annotation_errors;
pub use compiled::{Compiled, CompiledWorkload, compile_directory, compile_objects};
pub use config::{CONTROLLER_NAME, ControllerConfig};
pub use controller::{Controller, start};
pub use destination_shares::DestinationClient;
pub use destinations::Destinations;
pub use handles::{ConditionsHandle, DesiredHandle, ObjectsHandle, Policies, ReviewHandle};
#[cfg(any(test, feature = "testing"))]
pub use history::History;
pub use index_metrics::IndexMetrics;
pub use inventory::Inventory;
pub use latest::Latest;
pub use publish::destination::{
    ClientPlace, DestinationKey, DestinationQuestion, DestinationScope, PublishedDestination,
    ScopeKind, ServicePortKey,
};
pub use publish::{LookupError, PortPolicy, PublishedWorkload, WorkloadState};
pub use query::claims;
pub use query::condition as conditions;
pub use query::reference as references;
pub use query::{delegation as trees, delegation_state as delegation};

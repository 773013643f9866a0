//! Status of every object, written by the leader alone, and only where it differs.
//!
//! ```text
//! conditions ─┐                          ┌─▶ status.conditions   server-side apply, with the fields
//!             │                          │                       of an InboundRoute
//! counts ─────┴─▶ desired ─▶ plan ─▶ job ┼─▶ status.parents      our entries, by version
//! the cluster ─── api_discovery ─▶       └─▶ an Event            for kinds without a status, and
//!                                                                for degradations
//! ```
//!
//! Status is an output: it is read only to find out whether it has to be written. Each object is in
//! the queue at most once; a slow API server delays status and costs no memory. The condition types
//! are Accepted, ResolvedRefs, Programmed and ProxyUnsupported; everything else that is known about
//! an object becomes the reason or the message of one of them. Of a route with hostnames HostnamesAttached
//! keeps the times since which it has them.

mod api;
mod api_discovery;
mod attached;
mod debounce;
mod degradations;
mod desired;
mod events;
mod fields;
mod item;
mod merge;
mod message;
mod metrics;
mod plan;
mod queue;
mod settings;
mod writer;

pub use desired::{REASONS as STATUS_REASONS, TYPES as CONDITION_TYPES};
pub use events::{EventRecorder, EventWriter};
pub use metrics::{EventMetrics, StatusMetrics};
pub use settings::{CONTROLLER_NAME, StatusSettings};
pub use writer::{StatusInputs, StatusWriter};

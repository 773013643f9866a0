//! Serves policies over gRPC: Linkerd's `InboundServerPolicies` and our `PolicyDiscovery`; the
//! destinations of connections: Linkerd's `Destination` and `OutboundPolicies`, and our
//! `DestinationDiscovery`; `grpc.health.v1`; and reflection. The contract for clients is `docs/watch-api.md`.
//!
//! ```text
//! listener ──▶ one task per connection (age, keep-alive, drain)
//!                ├─ compat: one stream per port, whole messages
//!                ├─ native: one stream per workload, changes by key, ACK and NACK ──▶ applied
//!                ├─ linkerd_discovery: one stream per name or address
//!                ├─ destination: one stream per workload, for all that it connects to
//!                └─ health, reflection
//! ```
//! Streams read the newest value from watch channels when their client can take it, so a slow
//! client skips states and delays no other. Encodings are shared (see `cache`).
//!
//! **Invariants.** Sees [`Policies`](policy_engine::Policies) and
//! [`Destinations`](policy_engine::Destinations), and nothing behind them. Never answers by a
//! guess: a policy that is not known yet is `UNAVAILABLE`. Every stream ends with OK when its
//! connection is to end.

mod answers;
mod applied;
mod authn;
mod authz;
mod authz_metrics;
mod cache;
mod caller;
mod channel_pool;
mod codec;
mod compat;
mod config;
mod core;
mod counted_stream;
mod denied;
mod destination;
mod encodings;
mod forward;
mod health;
mod linkerd_discovery;
mod listener;
mod message_room;
mod metrics;
mod native;
mod reflection;
mod refusal;
mod report;
mod server;
mod session;
mod slot;
mod stale;
mod status_reason;
#[cfg(test)]
mod tests;

pub(crate) use applied::cut;
pub use applied::{AckRegistry, AppliedPort, Counts, Feed, InForce, Rejection, WorkloadPort};
pub use authz::AuthzConfig;
pub use authz_metrics::AuthzMetrics;
pub use caller::{Caller, Viewer};
pub use config::ServeConfig;
pub use listener::{BoundListener, Transport};
pub use metrics::ServeMetrics;
pub use report::ReportConfig;
pub use server::Server;
pub use stale::StaleNotice;

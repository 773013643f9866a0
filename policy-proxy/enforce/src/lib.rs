//! Enforces policy on connections and requests, in the sidecar and embedded in other servers.
//!
//! ```text
//! updates ──► store ──► Live, ActivePolicy ──► middleware: Authorizer, PolicyLayer ──► respond
//!                                                   │
//!                                                   └──► record, telemetry
//! ```
//!
//! **Invariants.** Nothing is forwarded without a [`policy_core::Permit`]. The request that was
//! authorized is the one that is forwarded. A connection is registered before it is decided on, so
//! that no policy change is missed between the decision and the watch. This crate knows neither the
//! wire format nor Kubernetes.

pub mod client_headers;
pub mod error;
mod forwarded;
pub mod headers;
pub mod limiter;
pub mod middleware;
pub mod node;
pub mod record;
pub mod request_snapshot;
pub mod respond;
pub mod store;
pub mod telemetry;

pub use limiter::Limiter;
pub use middleware::PolicyLayer;
pub use node::NodeAddresses;
pub use record::{Record, Recorder};
pub use store::{ActivePolicy, Live, PolicyStore, PortHandle, StoreConfig};
pub use telemetry::{Counters, Telemetry};

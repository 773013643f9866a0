//! The sidecar proxy, and the layer that enforces the same policy inside somebody else's server.
//!
//! ```text
//! controller ──discover──► store ──► sidecar: accept ► tls ► detect ► http | opaque ──► application
//!                             │                               │
//!                             └──────── PolicyLayer ◄── decide (policy-core) ──► respond, record
//! ```
//!
//! Each worker is one thread with a runtime of its own and listeners of its own. A request takes one
//! snapshot of the policy through an atomic pointer; everything it needs otherwise belongs to its
//! connection. Upstream connections are never shared between clients.
//!
//! **Invariants.** Nothing is forwarded without a [`policy_core::Permit`]. What was decided is what is
//! forwarded. A connection is registered before it is decided on, so that no policy change falls
//! between the check and the watch. Only `discover`, the two clients of
//! `identity` and the transport header name `policy_proto`.

pub mod admin;
pub mod args;
mod civil;
pub mod config;
pub mod control;
pub mod discover;
pub mod http1;
pub mod identity;
pub mod limiter;
pub mod log;
pub mod middleware;
pub mod peer;
pub mod record;
pub mod redirect;
pub mod respond;
pub mod review;
pub mod run;
pub mod server;
pub mod sidecar;
pub mod store;
pub mod telemetry;
pub mod termination;

pub use identity::{Credentials, IdentityHandle, TlsIdentity};
pub use limiter::Limiter;
pub use middleware::PolicyLayer;
pub use peer::{Peer, PeerTls};
pub use record::{Record, Recorder};
pub use sidecar::{Sidecar, SidecarConfig};
pub use store::{InForce, Live, PolicyStore, PortHandle, StoreConfig};
pub use telemetry::{Counters, Telemetry};

//! The sidecar proxy: listeners, connections, redirection, the client of discovery, configuration. What it
//! enforces policy with is `policy-enforce`, which others embed too.
//!
//! ```text
//! controller ──discover──► policy-enforce: store ──► sidecar: accept ► tls ► detect ► http | opaque ──► application
//!                                            │                                    │
//!                                            └────────── gate ◄── decide ─────────┘
//! ```
//!
//! Each worker is one thread with a runtime of its own and listeners of its own. A request takes one
//! snapshot of the policy through an atomic pointer; everything it needs otherwise belongs to its
//! connection. Upstream connections are never shared between clients.
//!
//! **Invariants.** Nothing is forwarded without a [`policy_core::Permit`]. What was decided is what is
//! forwarded. A connection is registered before it is decided on, so that no policy change falls
//! between the check and the watch. Only `discover` and the transport header name
//! `policy_proto`.

pub mod admin;
pub mod args;
pub mod config;
mod descriptors;
pub mod discover;
pub mod live_logs;
pub mod log;
pub mod redirect;
pub mod run;
pub mod sidecar;

pub use sidecar::{Sidecar, SidecarConfig};

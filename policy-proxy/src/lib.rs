//! The sidecar proxy: listeners, connections in both directions, redirection, the client of
//! discovery, configuration. It enforces policy with `policy-enforce`, which other services can embed
//! too.
//!
//! ```text
//! controller ──discover──► policy-enforce: store ──► sidecar: accept ► tls ► detect ► http | opaque ──► application
//!                                            │                                    │
//!                                            └──────── authorize ◄── decide ──────┘
//!
//! application ──► sidecar: accept ► outbound: table ► plan ► balancer ► carrier ──► endpoint
//!                                                ▲
//! controller ──discover──────────────────────────┘
//! ```
//!
//! Each worker is one thread with a runtime and listeners of its own. A request takes one snapshot
//! of the policy through an atomic pointer; all its other state belongs to its connection. Upstream
//! connections are never shared between clients.
//!
//! **Invariants.** Nothing is forwarded to the workload without a [`policy_core::Permit`]. The request that was
//! decided on is the one that is forwarded. A connection is registered before it is decided on, so
//! that no policy change falls between the decision and the review. Only `discover` and the
//! transport header name `policy_proto`.

pub mod admin;
pub mod args;
pub mod capture;
pub mod config;
mod descriptors;
mod diagnosis;
pub mod discover;
pub mod live_logs;
pub mod log;
pub mod outbound;
pub mod redirect;
pub mod run;
pub mod sidecar;
mod source_ports;
pub mod tap;

pub use sidecar::{Sidecar, SidecarConfig};

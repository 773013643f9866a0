//! The controller's side of a cluster: what is watched, who leads, what is written back.
//!
//! ```text
//! API server ──watches──▶ source ──Batch──▶ policy-engine
//!     ▲                                          │ conditions, counts
//!     └── status, Events ◀── the leader ◀────────┘
//! ```
//!
//! `cluster` makes clients, `lease` elects the leader, `rbac` states the rights that all of this takes,
//! `reviewer` asks whom a token stands for, and `rotation` replaces certificates that a Secret holds.

pub mod certificate;
pub mod cluster;
pub mod lease;
pub mod names;
pub mod rbac;
mod reviewer;
pub mod rotation;
pub mod source;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use reviewer::{ClusterReviewer, GROUP, RESOURCE, VERB};

//! The controller's side of a cluster: watches, leader election, status and Events.
//!
//! ```text
//! API server ──watches──▶ source ──Batch──▶ policy-engine
//!     ▲                                          │ conditions, counts
//!     └── status, Events ◀── the leader ◀────────┘
//! ```
//!
//! `cluster` makes clients, `lease` elects the leader, `rbac` has the rules that all of this
//! requires, `reviewer` reviews tokens, and `rotation` rotates certificates in Secrets.

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

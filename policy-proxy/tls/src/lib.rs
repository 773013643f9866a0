//! Mesh TLS of every process of the project: certificates and identities, trusted roots and their
//! sources, and connections to the control plane.
//!
//! Policy is decided elsewhere. Only the clients of the issuer (Linkerd's Certify) and of SPIFFE's
//! Workload API depend on wire formats; with connections to the control plane they are the feature
//! `control-plane`, which needs gRPC.

#![cfg_attr(
    not(feature = "control-plane"),
    allow(dead_code, reason = "parts of it serve the clients of the control plane alone")
)]

#[cfg(feature = "control-plane")]
pub mod control;
pub mod datetime;
pub mod der;
pub mod identity;
pub mod metric;
pub mod names;
pub mod oid;
pub mod peer;
pub mod termination;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod x509;

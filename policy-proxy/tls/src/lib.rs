//! Mesh TLS of every process of the project: certificates and identities, trusted roots and their
//! sources, and connections to the control plane.
//!
//! Policy is decided elsewhere. Only the clients of the issuer (Linkerd's Certify) and of SPIFFE's
//! Workload API depend on wire formats.

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

//! Mesh TLS as every process of the project uses it: certificates and identities, the roots that are
//! trusted, where they come from, and how a process reaches the control plane.
//!
//! Policy is decided elsewhere. Only the clients of the issuer (Linkerd's Certify) and of SPIFFE's
//! Workload API name the wire.

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

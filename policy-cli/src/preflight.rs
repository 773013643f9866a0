//! Readiness of a cluster for an installation: conditions that would make it fail, at once or
//! later.
//!
//! ```text
//! cluster ─read─▶ linkerd, network, outbound_policy, leftovers, install_permissions, diagnostics::* ─▶ results
//! ```

mod install_permissions;
mod leftovers;
mod linkerd;
mod network;
mod outbound_policy;
pub(crate) mod read;

//! Readiness of a cluster for an installation: conditions that would make it fail, at once or
//! later.
//!
//! ```text
//! cluster ─read─▶ linkerd, leftovers, install_permissions, diagnostics::* ─▶ results
//! ```

mod install_permissions;
mod leftovers;
mod linkerd;
pub(crate) mod read;

pub(crate) use leftovers::Release;

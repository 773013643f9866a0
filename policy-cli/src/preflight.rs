//! Whether a cluster is ready for an installation: what would make it fail, or fail later.
//!
//! ```text
//! cluster ─read─▶ facts ─▶ install, beside, leftovers, checkup::* ─▶ findings
//! ```

mod install_permissions;
mod leftovers;
mod linkerd;
pub(crate) mod read;

pub(crate) use leftovers::Release;

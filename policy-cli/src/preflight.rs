//! Whether a cluster is ready for an installation: what would make it fail, or fail later.
//!
//! ```text
//! cluster ─read─▶ facts ─▶ install, beside, leftovers, checkup::* ─▶ findings
//! ```

mod beside;
mod install;
mod leftovers;
pub(crate) mod read;

pub(crate) use leftovers::Release;

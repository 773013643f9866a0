//! Versions of this program, of the control plane and of the sidecars, and their skew.

mod image;
pub(crate) mod pod_version;
pub(crate) mod read;
pub(crate) mod report;
mod semver;
pub(crate) mod skew;

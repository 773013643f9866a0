//! Which versions run: of this program, of the control plane and of the sidecars, and whether they fit.

mod image;
pub(crate) mod pod_version;
pub(crate) mod read;
pub(crate) mod report;
mod semver;
pub(crate) mod skew;

//! Which versions run: of this program, of the control plane and of the sidecars, and whether they fit.

mod image;
pub(crate) mod installed;
mod number;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod skew;

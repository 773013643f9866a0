//! Certificates for clients without a sidecar: a token of a ServiceAccount and a new key go to the issuer,
//! what it certifies is written to a folder.

mod bridge;
mod files;
mod name;

pub(crate) use bridge::Bridge;
pub(crate) use files::{FILES, write};
pub(crate) use name::{Account, Domain};

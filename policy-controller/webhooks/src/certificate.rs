//! The certificate that the webhook serves: from files, or made here and kept in a Secret.

mod files;
mod held;
mod issue;
mod pair;
mod plan;
mod provision;
mod slot;

pub use files::CertificateFiles;
pub(crate) use files::follow;
pub use pair::CertificateError;
pub(crate) use provision::Provisioner;
pub use provision::Provisioning;
pub(crate) use slot::{Served, Slot};

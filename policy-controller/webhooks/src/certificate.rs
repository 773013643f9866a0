//! The certificate that the webhook serves: from files, or made here and kept in a Secret.

mod cert_resolver;
mod cert_secret;
mod files;
mod issue;
mod pair;
mod plan;
mod provision;

pub(crate) use cert_resolver::{CertResolver, ServedCertificate};
pub use files::CertificateFiles;
pub(crate) use files::watch_files;
pub use pair::CertificateError;
pub(crate) use provision::Provisioner;
pub use provision::Provisioning;

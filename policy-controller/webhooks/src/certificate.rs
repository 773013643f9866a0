//! The webhook's serving certificate: from files, or issued here and stored in a Secret.

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

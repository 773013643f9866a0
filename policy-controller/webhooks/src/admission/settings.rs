//! What the webhook is told.

use crate::certificate::{CertificateFiles, Provisioning};
use std::net::SocketAddr;

/// How the webhook is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What it proves its name with.
    pub certificate: CertificateSource,
}

/// Where the webhook's certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files, which others renew.
    Files(CertificateFiles),
    /// It is made here and kept in a Secret.
    Provisioned(Provisioning),
}

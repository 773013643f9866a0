//! What the webhook is told, and whom its port is open to.

use crate::certificate::{CertificateFiles, Provisioning};
use policy_core::Denied;
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

/// Decides which connections the webhook's port takes.
pub trait PortGuard: Send + Sync {
    /// Whether a connection of `client` is let through. It speaks TLS that is not the mesh's.
    ///
    /// # Errors
    /// The reason to refuse it.
    fn admission(&self, client: SocketAddr) -> Result<(), Denied>;
}

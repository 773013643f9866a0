//! Settings of the admission webhook, and the guard of its port.

use crate::certificate::{CertificateFiles, Provisioning};
use policy_core::Denied;
use std::net::SocketAddr;

/// Settings of the admission webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Address that the webhook listens on.
    pub listen: SocketAddr,
    /// Source of its serving certificate.
    pub certificate: CertificateSource,
    /// True if it also reviews what Linkerd's webhook reviews and Portcullis does not use.
    pub linkerd_compatible: bool,
}

/// Source of the webhook's serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files that an external tool renews.
    Files(CertificateFiles),
    /// Issued here and stored in a Secret.
    Provisioned(Provisioning),
}

/// Decides which connections the webhook's port accepts.
pub trait PortGuard: Send + Sync {
    /// Accepts or refuses a connection of `client`, which does not use mesh TLS.
    ///
    /// # Errors
    /// The reason to refuse it.
    fn admission(&self, client: SocketAddr) -> Result<(), Denied>;
}

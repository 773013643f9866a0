//! Errors of managing the authority and publishing its roots.

use super::authority::AuthorityError;
use super::serving_cert::ServingCertificateError;
use policy_kube::rotation::StoreError;

/// Error of one reconciliation of the authority.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaError {
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    #[error("the API server did not respond in time")]
    Timeout,
    #[error("cannot generate an authority: {0}")]
    Generate(#[from] rcgen::Error),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Secret(#[from] StoreError),
    #[error("repeated write conflicts (409) on the ConfigMap of roots")]
    Contended,
    #[error("{0}")]
    Files(String),
    #[error("the roots in the control plane's namespace: {0}")]
    Roots(String),
    #[error("the issuer's serving certificate: {0}")]
    ServingCertificate(#[from] ServingCertificateError),
}

impl CaError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Secret(StoreError::Contended) | Self::Contended => "contended",
            Self::Api(_) | Self::Timeout | Self::Secret(_) => "api",
            Self::Generate(_) => "make",
            Self::Authority(_) => "authority",
            Self::Files(_) => "files",
            Self::Roots(_) => "roots",
            Self::ServingCertificate(_) => "own_certificate",
        }
    }
}

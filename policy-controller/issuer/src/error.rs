//! Errors of managing the authority and publishing its roots.

use super::authority::AuthorityError;
use super::serving_cert::ServingCertificateError;
use policy_kube::rotation::StoreError;

/// Error of one reconciliation of the authority.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaError {
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    Late,
    #[error("cannot make an authority: {0}")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Secret(#[from] StoreError),
    #[error("the roots' ConfigMap is being changed by others all the time")]
    Contended,
    #[error("{0}")]
    Files(String),
    #[error("the roots in the control plane's namespace: {0}")]
    Roots(String),
    #[error("the issuer's own certificate: {0}")]
    Own(#[from] ServingCertificateError),
}

impl CaError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Secret(StoreError::Contended) | Self::Contended => "contended",
            Self::Api(_) | Self::Late | Self::Secret(_) => "api",
            Self::Make(_) => "make",
            Self::Authority(_) => "authority",
            Self::Files(_) => "files",
            Self::Roots(_) => "roots",
            Self::Own(_) => "own_certificate",
        }
    }
}

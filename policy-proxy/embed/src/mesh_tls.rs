//! The certificate of the service, and the roots that its clients' certificates chain to.

use crate::error::EmbedError;
use crate::follower::Follower;
use policy_tls::identity::{
    IdentityConfig, IdentityFiles, IdentityHandle, IdentityMetrics, IdentitySource, Roots,
};
use std::path::Path;
use std::sync::Arc;

/// Mesh TLS: the service's own certificate, and the roots of the mesh. A client may prove an identity
/// by a certificate; one without has none. Kept current until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct MeshTls {
    identity: IdentityHandle,
    _follower: Arc<Follower>,
}

impl MeshTls {
    /// Reads PEM files, and again when they change: the certificate, leaf first, its key, and the
    /// roots. `name` is the server name by which members of the mesh call the service.
    ///
    /// # Errors
    /// [`EmbedError::Tls`] names the file that is missing or unusable.
    pub async fn from_files(
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
        roots: impl AsRef<Path>,
        name: &str,
    ) -> Result<Self, EmbedError> {
        let files = IdentityFiles {
            certificate: certificate.as_ref().to_owned(),
            key: key.as_ref().to_owned(),
            roots: Roots::File(roots.as_ref().to_owned()),
            name: name.into(),
            interval: IdentityFiles::INTERVAL,
        };
        Self::open(IdentityConfig::Files(files)).await
    }

    /// Keeps an identity current from any source.
    ///
    /// # Errors
    /// [`EmbedError::Tls`]: what is configured can never be used.
    pub async fn open(config: IdentityConfig) -> Result<Self, EmbedError> {
        let opened = IdentitySource::open(config, IdentityMetrics::default()).await;
        let source = opened.map_err(|error| EmbedError::Tls(error.to_string()))?;
        let identity = source.identity();
        let follower = Arc::new(Follower::start(source.run()));
        Ok(Self { identity, _follower: follower })
    }

    pub(crate) fn identity(&self) -> &IdentityHandle {
        &self.identity
    }
}

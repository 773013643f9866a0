//! Sources of identities.

#[cfg(feature = "control-plane")]
use super::certify::{Certify, CertifyConfig};
use super::error::SourceError;
use super::files::{FileSource, IdentityFiles};
use super::handle::IdentityHandle;
use super::metrics::IdentityMetrics;
use super::publish::Publisher;
use super::status::IdentityStatus;
#[cfg(feature = "control-plane")]
use super::workload_api::{SpiffeConfig, WorkloadApi};

/// Configuration of an identity source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityConfig {
    /// Files that another process renews.
    Files(IdentityFiles),
    /// An issuer, by Linkerd's Certify API.
    #[cfg(feature = "control-plane")]
    Certify(CertifyConfig),
    /// The node's agent, by SPIFFE's Workload API.
    #[cfg(feature = "control-plane")]
    Spiffe(SpiffeConfig),
}

/// Keeps an identity current while [`IdentitySource::run`] is awaited.
#[derive(Debug)]
pub struct IdentitySource {
    publisher: Publisher,
    kind: SourceKind,
}

#[derive(Debug)]
enum SourceKind {
    Files(FileSource),
    // Boxed: holds keys and addresses, and there is one per process.
    #[cfg(feature = "control-plane")]
    Certify(Box<Certify>),
    #[cfg(feature = "control-plane")]
    Spiffe(Box<WorkloadApi>),
}

impl IdentitySource {
    /// Opens the source. An identity from files is in force when this returns; other sources send
    /// no request before [`IdentitySource::run`]. Counts in `metrics`.
    ///
    /// # Errors
    /// Permanent errors: files that are missing or unusable, or an unusable key or request of a
    /// helper. An unreachable server is retried by [`IdentitySource::run`].
    pub async fn open(
        config: IdentityConfig,
        metrics: IdentityMetrics,
    ) -> Result<Self, SourceError> {
        let publisher = Publisher::new(metrics);
        let kind = match config {
            IdentityConfig::Files(files) => {
                SourceKind::Files(FileSource::open(files, &publisher).await?)
            }
            #[cfg(feature = "control-plane")]
            IdentityConfig::Certify(config) => {
                SourceKind::Certify(Box::new(Certify::open(config).await?))
            }
            #[cfg(feature = "control-plane")]
            IdentityConfig::Spiffe(config) => {
                SourceKind::Spiffe(Box::new(WorkloadApi::new(config)))
            }
        };
        Ok(Self { publisher, kind })
    }

    /// Returns the TLS name of the issuer, if the source is one that has to prove it.
    pub fn issuer(&self) -> Option<&str> {
        match &self.kind {
            #[cfg(feature = "control-plane")]
            SourceKind::Certify(certify) => certify.issuer(),
            SourceKind::Files(_) => None,
            #[cfg(feature = "control-plane")]
            SourceKind::Spiffe(_) => None,
        }
    }

    /// Returns the handle of the identity in force.
    pub fn identity(&self) -> IdentityHandle {
        self.publisher.identity().clone()
    }

    /// Returns the status.
    pub fn status(&self) -> IdentityStatus {
        self.publisher.status()
    }

    /// Keeps the identity current until it is dropped. Retries all failures.
    pub async fn run(self) {
        match self.kind {
            SourceKind::Files(files) => files.run(&self.publisher).await,
            #[cfg(feature = "control-plane")]
            SourceKind::Certify(certify) => certify.run(&self.publisher).await,
            #[cfg(feature = "control-plane")]
            SourceKind::Spiffe(workload_api) => workload_api.run(&self.publisher).await,
        }
    }
}

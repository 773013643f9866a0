//! What an identity is kept current from.

use super::certify::{Certify, CertifyConfig};
use super::error::SourceError;
use super::files::{FileSource, IdentityFiles};
use super::handle::IdentityHandle;
use super::metrics::IdentityMetrics;
use super::publish::Publisher;
use super::status::IdentityStatus;
use super::workload_api::{SpiffeConfig, WorkloadApi};

/// Where an identity comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityConfig {
    /// Files that somebody else renews.
    Files(IdentityFiles),
    /// An issuer, by Linkerd's Certify API.
    Certify(CertifyConfig),
    /// The node's agent, by SPIFFE's Workload API.
    Spiffe(SpiffeConfig),
}

/// Keeps an identity current. Runs wherever [`IdentitySource::run`] is awaited; everything else is
/// known before.
#[derive(Debug)]
pub struct IdentitySource {
    publisher: Publisher,
    kind: SourceKind,
}

#[derive(Debug)]
enum SourceKind {
    Files(FileSource),
    // Boxed: holds keys and addresses, and there is one per process.
    Certify(Box<Certify>),
    Spiffe(Box<WorkloadApi>),
}

impl IdentitySource {
    /// Opens the source. An identity in files is in force when this returns; of the others nothing is
    /// asked before [`IdentitySource::run`]. What happens is counted in `metrics`.
    ///
    /// # Errors
    /// What could not get better by waiting: files that are missing or unusable, a key or request of a
    /// helper that are. Who cannot be reached, is tried again while it runs instead.
    pub async fn open(
        config: IdentityConfig,
        metrics: IdentityMetrics,
    ) -> Result<Self, SourceError> {
        let publisher = Publisher::new(metrics);
        let kind = match config {
            IdentityConfig::Files(files) => {
                SourceKind::Files(FileSource::open(files, &publisher).await?)
            }
            IdentityConfig::Certify(config) => {
                SourceKind::Certify(Box::new(Certify::open(config).await?))
            }
            IdentityConfig::Spiffe(config) => {
                SourceKind::Spiffe(Box::new(WorkloadApi::new(config)))
            }
        };
        Ok(Self { publisher, kind })
    }

    /// Who certifies us, by its name in TLS; absent: nobody who has to prove one.
    pub fn issuer(&self) -> Option<&str> {
        match &self.kind {
            SourceKind::Certify(certify) => certify.issuer(),
            SourceKind::Files(_) | SourceKind::Spiffe(_) => None,
        }
    }

    /// Where the identity in force is found.
    pub fn identity(&self) -> IdentityHandle {
        self.publisher.identity().clone()
    }

    /// How it is doing.
    pub fn status(&self) -> IdentityStatus {
        self.publisher.status()
    }

    /// Keeps the identity current until it is dropped. Whatever goes wrong is tried again.
    pub async fn run(self) {
        match self.kind {
            SourceKind::Files(files) => files.run(&self.publisher).await,
            SourceKind::Certify(certify) => certify.run(&self.publisher).await,
            SourceKind::Spiffe(workload_api) => workload_api.run(&self.publisher).await,
        }
    }
}

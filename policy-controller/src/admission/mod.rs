//! The validating admission webhook: what breaks a rule is refused before it is stored, and what is
//! legal but surely not meant is told to its author.
//!
//! ```text
//! HTTPS ─▶ review ─▶ concern ─▶ judge (policy_crds::parse) ─▶ what-if (crate::review) ─▶ answer
//! ```
//!
//! Anybody may connect: what a client can make scarce is divided by its network (`shares`, `turns`),
//! so that nobody can keep API servers from their answers.
//!
//! The verdict follows from the request alone: what the controller has not seen yet never refuses
//! anything, and only warnings depend on it. Everything that is refused here is refused by the
//! controller too, so that an object stored while the webhook was away grants nothing either.
//!
//! The API server asks where [`configuration()`] tells it to. What it asks beyond that is passed.

mod answering;
mod args;
mod arrival;
mod certificate;
mod clients;
mod concern;
mod configuration;
mod judge;
mod listener;
mod metrics;
pub(crate) mod review;
mod service;
mod shares;
#[cfg(test)]
mod tests;
mod turns;
mod warning;

pub use args::{AdmissionArgs, AdmissionArgsError, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
pub use certificate::{CertificateError, CertificateFiles, Provisioning};
pub(crate) use configuration::client_config;
pub use configuration::{Installation, Target, configuration};
pub use metrics::AdmissionMetrics;

use crate::beside::Repoint;
use crate::guard::Guard;
use crate::injector::Injector;
use crate::review::ReviewHandle;
use certificate::{Provisioner, Slot, follow};
use policy_proxy::identity::provider;
use service::Service;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// Why the webhook cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The port cannot be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The files cannot be used.
    #[error("admission: {0}")]
    Certificate(#[from] CertificateError),
    /// A certificate is to be made, and there is no cluster to keep it in.
    #[error("admission: without a cluster --server-tls-certs and --server-tls-key are needed")]
    NoCluster,
    /// The TLS library refuses its settings.
    #[error("admission: {0}")]
    Tls(#[from] rustls::Error),
}

/// The webhook, its port open and its certificate at hand or on its way.
pub struct Admission {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    keeper: Keeper,
    guard: Option<Guard>,
}

/// Who keeps the certificate fresh.
enum Keeper {
    Files(CertificateFiles, Slot),
    Provisioner(Box<Provisioner>),
}

impl Admission {
    /// Opens the port, and reads the certificate where it is in files. `review` tells what the index
    /// knows; `client` reaches the cluster that keeps a certificate made here.
    ///
    /// # Errors
    /// [`AdmissionError`]: nothing could be served.
    pub async fn new(
        settings: AdmissionSettings,
        review: Option<ReviewHandle>,
        client: Option<kube::Client>,
    ) -> Result<Self, AdmissionError> {
        let metrics = AdmissionMetrics::default();
        let slot = Slot::new(metrics.clone());
        let keeper = match (settings.certificate, client) {
            (CertificateSource::Files(files), _) => {
                files.load(&slot).await?;
                Keeper::Files(files, slot.clone())
            }
            (CertificateSource::Provisioned(provisioning), Some(client)) => {
                Keeper::Provisioner(Box::new(Provisioner::new(client, provisioning, slot.clone())))
            }
            (CertificateSource::Provisioned(_), None) => return Err(AdmissionError::NoCluster),
        };
        let tls = Arc::new(server_config(slot)?);
        let listener = listener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let service = Service::new(review, metrics);
        Ok(Self { listener, address, tls, service, keeper, guard: None })
    }

    /// Lets connections through only as far as `guard` does.
    #[must_use]
    pub fn guarded_by(self, guard: Guard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// Serves the injector too, on a path of its own.
    #[must_use]
    pub fn with_injector(self, injector: Injector) -> Self {
        Self { service: self.service.with_injector(injector), ..self }
    }

    /// Points Linkerd's proxies at this controller too, on a path of its own.
    #[must_use]
    pub fn with_repoint(self, repoint: Repoint) -> Self {
        Self { service: self.service.with_repoint(repoint), ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its metrics.
    pub fn metrics(&self) -> AdmissionMetrics {
        self.service.metrics.clone()
    }

    /// Serves until `shutdown` is cancelled and every connection has ended, or has had time to.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { listener, tls, service, keeper, guard, address: _ } = self;
        let keep = async {
            match keeper {
                Keeper::Files(files, slot) => follow(files, slot).await,
                Keeper::Provisioner(provisioner) => provisioner.run().await,
            }
        };
        let serve = listener::run(listener, tls, service, guard, shutdown);
        tokio::select! {
            () = serve => {}
            () = keep => {}
        }
    }
}

/// Handshakes with whatever certificate is in use at the time. API servers do not say who they are.
fn server_config(slot: Slot) -> Result<rustls::ServerConfig, rustls::Error> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(slot));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

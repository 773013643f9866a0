//! Assembly of the webhook: its port, its certificate and its services.

use super::listener;
use super::service::Service;
use super::settings::{AdmissionSettings, CertificateSource, PortGuard};
use crate::certificate::{
    CertResolver, CertificateError, CertificateFiles, Provisioner, ServedCertificate, watch_files,
};
use crate::injector::Injector;
use crate::linkerd_redirect::ProxyRedirector;
use crate::metrics::AdmissionMetrics;
use policy_engine::ReviewHandle;
use policy_kube::rotation::secret::Pair;
use policy_tls::identity::provider;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Error of a webhook that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The port cannot be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The files cannot be used.
    #[error("admission: {0}")]
    Certificate(#[from] CertificateError),
    /// A certificate has to be issued, but there is no cluster to store it in.
    #[error("admission: without a cluster --server-tls-certs and --server-tls-key are needed")]
    NoCluster,
    /// The TLS library rejects its settings.
    #[error("admission: {0}")]
    Tls(#[from] rustls::Error),
}

/// The webhook with an open port.
pub struct Admission {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    served: watch::Receiver<ServedCertificate>,
    certificate_task: CertificateTask,
    guard: Option<Arc<dyn PortGuard>>,
}

/// The task that renews the certificate.
enum CertificateTask {
    Files(CertificateFiles, CertResolver, Pair),
    Provisioner(Box<Provisioner>),
}

impl Admission {
    /// Opens the port, and reads the certificate if it comes from files. `review` queries the
    /// index; `client` connects to the cluster that stores an issued certificate.
    ///
    /// # Errors
    /// [`AdmissionError`]: nothing can be served.
    pub async fn new(
        settings: AdmissionSettings,
        review: Option<ReviewHandle>,
        client: Option<kube::Client>,
    ) -> Result<Self, AdmissionError> {
        let metrics = AdmissionMetrics::default();
        let resolver = CertResolver::new(metrics.clone());
        let certificate_task = match (settings.certificate, client) {
            (CertificateSource::Files(files), _) => {
                let loaded = files.load(&resolver).await?;
                CertificateTask::Files(files, resolver.clone(), loaded)
            }
            (CertificateSource::Provisioned(provisioning), Some(client)) => {
                CertificateTask::Provisioner(Box::new(Provisioner::new(
                    client,
                    provisioning,
                    resolver.clone(),
                )))
            }
            (CertificateSource::Provisioned(_), None) => return Err(AdmissionError::NoCluster),
        };
        let served = resolver.served();
        let tls = Arc::new(server_config(resolver)?);
        let listener = listener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let service =
            Service::new(review, metrics).with_linkerd_compatible(settings.linkerd_compatible);
        Ok(Self { listener, address, tls, service, served, certificate_task, guard: None })
    }

    /// Accepts only the connections that `guard` accepts.
    #[must_use]
    pub fn guarded_by(self, guard: impl PortGuard + 'static) -> Self {
        Self { guard: Some(Arc::new(guard)), ..self }
    }

    /// Serves the injector, too, on its own path.
    #[must_use]
    pub fn with_injector(self, injector: Injector) -> Self {
        Self { service: self.service.with_injector(injector), ..self }
    }

    /// Serves the redirection of Linkerd's proxies, too, on its own path.
    #[must_use]
    pub fn with_redirector(self, redirector: ProxyRedirector) -> Self {
        Self { service: self.service.with_redirector(redirector), ..self }
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a certificate, without which every handshake fails; false if there will be none.
    pub fn certified(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut served = self.served.clone();
        async move { served.wait_for(Option::is_some).await.is_ok() }
    }

    /// Returns its metrics.
    pub fn metrics(&self) -> AdmissionMetrics {
        self.service.metrics.clone()
    }

    /// Serves until `shutdown` is cancelled and every connection has ended or timed out.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { listener, tls, service, certificate_task, guard, address: _, served: _ } = self;
        let keep = async {
            match certificate_task {
                CertificateTask::Files(files, resolver, loaded) => {
                    watch_files(files, resolver, loaded).await
                }
                CertificateTask::Provisioner(provisioner) => provisioner.run().await,
            }
        };
        let serve = listener::run(listener, tls, service, guard, shutdown);
        tokio::select! {
            () = serve => {}
            () = keep => {}
        }
    }
}

/// Returns a TLS configuration that uses the current certificate. API servers send no client
/// certificate.
fn server_config(resolver: CertResolver) -> Result<rustls::ServerConfig, rustls::Error> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

//! The webhook's port, its certificate and what answers, put together.

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
    served: watch::Receiver<ServedCertificate>,
    certificate_task: CertificateTask,
    guard: Option<Arc<dyn PortGuard>>,
}

/// Who keeps the certificate fresh.
enum CertificateTask {
    Files(CertificateFiles, CertResolver, Pair),
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
        let service = Service::new(review, metrics);
        Ok(Self { listener, address, tls, service, served, certificate_task, guard: None })
    }

    /// Lets connections through only as far as `guard` does.
    #[must_use]
    pub fn guarded_by(self, guard: impl PortGuard + 'static) -> Self {
        Self { guard: Some(Arc::new(guard)), ..self }
    }

    /// Serves the injector too, on a path of its own.
    #[must_use]
    pub fn with_injector(self, injector: Injector) -> Self {
        Self { service: self.service.with_injector(injector), ..self }
    }

    /// Points Linkerd's proxies at this controller too, on a path of its own.
    #[must_use]
    pub fn with_redirector(self, redirector: ProxyRedirector) -> Self {
        Self { service: self.service.with_redirector(redirector), ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a certificate, without which every handshake fails; false: there will be none.
    pub fn certified(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut served = self.served.clone();
        async move { served.wait_for(Option::is_some).await.is_ok() }
    }

    /// Its metrics.
    pub fn metrics(&self) -> AdmissionMetrics {
        self.service.metrics.clone()
    }

    /// Serves until `shutdown` is cancelled and every connection has ended, or has had time to.
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

/// Handshakes with whatever certificate is in use at the time. API servers do not say who they are.
fn server_config(resolver: CertResolver) -> Result<rustls::ServerConfig, rustls::Error> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

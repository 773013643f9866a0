//! Resolves the serving certificate for TLS handshakes.

use crate::metrics::AdmissionMetrics;
use policy_tls::identity::validity;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use tokio::sync::watch;

/// A certificate with its key; `None` until the first one is available.
pub(crate) type ServedCertificate = Option<Arc<CertifiedKey>>;

/// Resolves the current serving certificate. Existing connections keep theirs.
#[derive(Clone, Debug)]
pub(crate) struct CertResolver {
    served: watch::Sender<ServedCertificate>,
    pub(super) metrics: AdmissionMetrics,
}

impl CertResolver {
    pub(crate) fn new(metrics: AdmissionMetrics) -> Self {
        Self { served: watch::Sender::new(None), metrics }
    }

    /// Returns a receiver of the current certificate and its changes.
    pub(crate) fn served(&self) -> watch::Receiver<ServedCertificate> {
        self.served.subscribe()
    }

    /// Serves this certificate from now on.
    pub(super) fn put(&self, certificate: CertifiedKey) {
        let leaf = certificate.cert.first();
        self.metrics
            .certificate(leaf.and_then(|leaf| validity(leaf)).map(|(_, not_after)| not_after));
        self.served.send_replace(Some(Arc::new(certificate)));
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.served.borrow().clone()
    }
}

//! The certificate in use, as handshakes take it.

use crate::metrics::AdmissionMetrics;
use policy_tls::identity::validity;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use tokio::sync::watch;

/// A certificate with its key; none until the first arrives.
pub(crate) type ServedCertificate = Option<Arc<CertifiedKey>>;

/// The certificate in use. Connections keep what they began with.
#[derive(Clone, Debug)]
pub(crate) struct CertResolver {
    served: watch::Sender<ServedCertificate>,
    pub(super) metrics: AdmissionMetrics,
}

impl CertResolver {
    pub(crate) fn new(metrics: AdmissionMetrics) -> Self {
        Self { served: watch::Sender::new(None), metrics }
    }

    /// The certificate in use, and when it changes.
    pub(crate) fn served(&self) -> watch::Receiver<ServedCertificate> {
        self.served.subscribe()
    }

    /// Serves this one from now on.
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

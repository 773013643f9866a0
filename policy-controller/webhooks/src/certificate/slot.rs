//! The certificate in use, as handshakes take it.

use crate::metrics::AdmissionMetrics;
use parking_lot::RwLock;
use policy_tls::identity::validity;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use tokio::sync::watch;

/// The certificate in use; none until the first arrives. Connections keep what they began with.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    held: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
    served: watch::Sender<bool>,
    pub(super) metrics: AdmissionMetrics,
}

impl Slot {
    pub(crate) fn new(metrics: AdmissionMetrics) -> Self {
        Self { held: Arc::default(), served: watch::Sender::new(false), metrics }
    }

    /// Whether there is one.
    pub(crate) fn served(&self) -> watch::Receiver<bool> {
        self.served.subscribe()
    }

    /// Serves this one from now on.
    pub(super) fn put(&self, certificate: CertifiedKey) {
        let leaf = certificate.cert.first();
        self.metrics
            .certificate(leaf.and_then(|leaf| validity(leaf)).map(|(_, not_after)| not_after));
        *self.held.write() = Some(Arc::new(certificate));
        self.served.send_replace(true);
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.held.read().clone()
    }
}

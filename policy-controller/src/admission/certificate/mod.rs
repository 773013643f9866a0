//! The certificate that the webhook serves: from files, or made here and kept in a Secret.

mod files;
mod held;
mod issue;
mod plan;
mod provision;

pub use files::CertificateFiles;
pub(super) use files::follow;
pub(super) use provision::Provisioner;
pub use provision::Provisioning;

use super::metrics::AdmissionMetrics;
use parking_lot::RwLock;
use policy_proxy::identity::provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A text does not hold what it should.
    #[error("`{place}`: {message}")]
    Pem {
        /// The file, or the key of the Secret.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// Certificate and key do not fit, or cannot be used.
    #[error("certificate and key cannot be used together: {0}")]
    Pair(rustls::Error),
}

/// The certificate in use; none until the first arrives. Connections keep what they began with.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    held: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
    metrics: AdmissionMetrics,
}

impl Slot {
    pub(super) fn new(metrics: AdmissionMetrics) -> Self {
        Self { held: Arc::default(), metrics }
    }

    /// Serves this one from now on.
    fn put(&self, certificate: CertifiedKey) {
        let leaf = certificate.cert.first();
        self.metrics.certificate(leaf.and_then(|leaf| crate::certificate::not_after(leaf)));
        *self.held.write() = Some(Arc::new(certificate));
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.held.read().clone()
    }
}

/// Where the two texts of a certificate come from, for messages.
struct Places<'a> {
    certificates: &'a str,
    key: &'a str,
}

/// Reads a chain and its key.
fn certified(
    places: &Places<'_>,
    certificates: &[u8],
    key: &[u8],
) -> Result<CertifiedKey, CertificateError> {
    let chain = chain(places.certificates, certificates)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::Pem {
        place: places.key.to_owned(),
        message: error.to_string(),
    })?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Pair)
}

/// Every certificate of a PEM text that stands in `place`.
fn chain(place: &str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let wrong = |message| CertificateError::Pem { place: place.to_owned(), message };
    policy_proxy::identity::certificates(text).map_err(wrong)
}

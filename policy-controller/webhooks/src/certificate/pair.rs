//! A certificate and its key, read from PEM.

use policy_kube::rotation::secret::Pair;
use policy_tls::identity::provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::PathBuf;

/// Error of a certificate that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A file or Secret key has the wrong content.
    #[error("`{place}`: {message}")]
    Pem {
        /// The file, or the key of the Secret.
        place: String,
        /// Description of the problem.
        message: String,
    },
    /// Certificate and key do not match, or cannot be used.
    #[error("certificate and key cannot be used together: {0}")]
    Pair(rustls::Error),
}

/// Names of the files or Secret keys of a certificate and its key, for messages.
pub(super) struct PemSources<'a> {
    pub(super) certificates: &'a str,
    pub(super) key: &'a str,
}

/// Reads a certificate chain and its key.
pub(super) fn certified_key(
    sources: &PemSources<'_>,
    texts: &Pair,
) -> Result<CertifiedKey, CertificateError> {
    let chain = chain(sources.certificates, &texts.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&texts.key).map_err(|error| CertificateError::Pem {
        place: sources.key.to_owned(),
        message: error.to_string(),
    })?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Pair)
}

/// Returns every certificate in a PEM text from `place`.
pub(super) fn chain(
    place: &str,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let wrong = |message| CertificateError::Pem { place: place.to_owned(), message };
    policy_tls::identity::certificates(text).map_err(wrong)
}

//! Certificates in PEM.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Every certificate of a PEM text, of which there must be one.
///
/// # Errors
/// What is wrong with the text, in words that do not name it.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match list {
        Ok(list) if list.is_empty() => Err("holds no certificate".to_owned()),
        Ok(list) => Ok(list),
        Err(error) => Err(error.to_string()),
    }
}

//! Certificates and private keys in PEM.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Parses every certificate of a PEM text. At least one is required.
///
/// # Errors
/// The error, without the name of the text.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match list {
        Ok(list) if list.is_empty() => Err("holds no certificate".to_owned()),
        Ok(list) => Ok(list),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses every readable certificate of a PEM text, and skips anything else.
pub fn readable(text: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text).filter_map(Result::ok).collect()
}

/// Formats a certificate as PEM (RFC 7468), in lines of 64 characters.
pub fn pem(certificate: &CertificateDer<'_>) -> String {
    labelled("CERTIFICATE", certificate)
}

/// Formats a private key as PEM, with the label of its format (RFC 7468, section 10; RFC 5915; RFC
/// 8017).
pub fn key_pem(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Pkcs8(_) => "PRIVATE KEY",
        // A format of a later version of the library: the reader will report it.
        _ => "PRIVATE KEY",
    };
    labelled(label, key.secret_der())
}

fn labelled(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(64).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn a_text_of_another_library_is_written_again_byte_for_byte() {
        let key = KeyPair::generate().unwrap();
        for length in 1..64 {
            let params = CertificateParams::new(vec!["a".repeat(length)]).unwrap();
            let text = params.self_signed(&key).unwrap().pem();
            let read = certificates(text.as_bytes()).unwrap();
            assert_eq!(read.iter().map(pem).collect::<String>(), text);
        }
    }

    #[test]
    fn a_key_of_another_library_is_written_again_byte_for_byte() {
        let key = KeyPair::generate().unwrap();
        let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        assert_eq!(key_pem(&der), key.serialize_pem());
    }

    #[test]
    fn what_cannot_be_read_hides_no_certificate() {
        let key = KeyPair::generate().unwrap();
        let good = CertificateParams::default().self_signed(&key).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
        let text = [broken, &key.serialize_pem(), &good.pem(), "-----BEGIN CERTIFICATE-----\nAA"];
        assert_eq!(readable(text.concat().as_bytes()), [good.der().clone()]);
        assert!(certificates(text.concat().as_bytes()).is_err());
    }
}

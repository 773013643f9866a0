//! A private key and its certificate request (RFC 2986).
//!
//! Written by hand, because it is one fixed shape of forty lines and the proxy has no other use for
//! a certificate builder; tests compare it with independent readers.

use super::provider::provider;
use crate::der::{OCTET_STRING, OID, SEQUENCE, SET, bits, context, number, write};
use crate::oid::{ECDSA_WITH_SHA256, EXTENSION_REQUEST, SUBJECT_ALT_NAME};
use crate::x509::{DNS_NAME, requested_key};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::SignatureScheme;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;

/// A private key and its certificate request.
#[derive(Debug)]
pub struct KeyAndRequest {
    /// The key.
    pub key: PrivateKeyDer<'static>,
    /// The request: PKCS#10, DER.
    pub request: Vec<u8>,
}

impl Clone for KeyAndRequest {
    fn clone(&self) -> Self {
        Self { key: self.key.clone_key(), request: self.request.clone() }
    }
}

impl KeyAndRequest {
    /// Generates a P-256 key and a request for a certificate with `name` as its only DNS name and
    /// without a subject (RFC 5280 limits common names to 64 characters, which identities exceed).
    ///
    /// P-256, because Linkerd's proxies present their certificate to no other key type
    /// (docs/spec/proxy.md 5.3).
    ///
    /// # Errors
    /// The system has no randomness, or the library fails.
    pub fn generate(name: &str) -> Result<Self, String> {
        let failed = |_| "no private key can be made".to_owned();
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
        let key = pair.to_pkcs8v1().map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.as_ref().to_vec()));
        let request = request(&key, name)?;
        Ok(Self { key, request })
    }

    /// Creates a pair from an existing key and request, such as those of Linkerd's helper: PKCS#8
    /// and PKCS#10, DER.
    ///
    /// # Errors
    /// The error of the one that cannot be used.
    pub fn supplied(key: Vec<u8>, request: Vec<u8>) -> Result<Self, String> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key));
        let wrong = |error| format!("key.p8: {error}; expected a private key, PKCS#8 in DER");
        let signer = provider().key_provider.load_private_key(key.clone_key()).map_err(wrong)?;
        let requested = requested_key(&request)
            .ok_or("csr.der: not a certificate request; expected PKCS#10 in DER")?;
        let fits = signer.public_key().is_none_or(|public| public.as_ref() == requested);
        if !fits {
            return Err("csr.der: made for another key than key.p8".to_owned());
        }
        Ok(Self { key, request })
    }
}

fn request(key: &PrivateKeyDer<'static>, name: &str) -> Result<Vec<u8>, String> {
    let failed =
        |error: rustls::Error| format!("the certificate request cannot be signed: {error}");
    let key = provider().key_provider.load_private_key(key.clone_key()).map_err(failed)?;
    let body = body(&key, name).ok_or("the private key has no public key")?;
    let signer = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
    let signature = signer.ok_or("the private key is not of P-256")?.sign(&body).map_err(failed)?;
    let algorithm = write(SEQUENCE, &[&write(OID, &[ECDSA_WITH_SHA256])]);
    Ok(write(SEQUENCE, &[&body, &algorithm, &bits(&signature)]))
}

/// Builds a `CertificationRequestInfo`: version 0, no subject, the key, and the name as a requested
/// extension.
fn body(key: &Arc<dyn rustls::sign::SigningKey>, name: &str) -> Option<Vec<u8>> {
    let names = write(SEQUENCE, &[&write(DNS_NAME, &[name.as_bytes()])]);
    let extension =
        write(SEQUENCE, &[&write(OID, &[SUBJECT_ALT_NAME]), &write(OCTET_STRING, &[&names])]);
    let extensions = write(SET, &[&write(SEQUENCE, &[&extension])]);
    let attribute = write(SEQUENCE, &[&write(OID, &[EXTENSION_REQUEST]), &extensions]);
    let subject = write(SEQUENCE, &[]);
    let attributes = write(context(0), &[&attribute]);
    Some(write(SEQUENCE, &[&number(&[0]), &subject, key.public_key()?.as_ref(), &attributes]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    const NAME: &str =
        "web.a-namespace-of-some-length.serviceaccount.identity.portcullis.cluster.local";

    fn openssl(arguments: &[&str], input: &[u8]) -> String {
        let mut child = Command::new("openssl")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let both = [output.stdout, output.stderr].concat();
        String::from_utf8(both).unwrap()
    }

    #[test]
    fn openssl_verifies_the_request_and_reads_the_name() {
        let made = KeyAndRequest::generate(NAME).unwrap();
        let arguments = ["req", "-inform", "DER", "-verify", "-noout", "-text"];
        let text = openssl(&arguments, &made.request);
        assert!(text.contains("verify OK"), "{text}");
        assert!(text.contains(&format!("DNS:{NAME}\n")), "{text}");
        assert!(text.contains("ASN1 OID: prime256v1"), "{text}");
        assert!(text.contains("Subject: \n"), "{text}");
    }

    #[test]
    fn what_was_made_can_be_supplied() {
        let made = KeyAndRequest::generate(NAME).unwrap();
        let key = made.key.secret_der().to_vec();
        let supplied = KeyAndRequest::supplied(key.clone(), made.request.clone()).unwrap();
        assert_eq!((supplied.key, &supplied.request), (made.key, &made.request));
        assert!(requested_key(&made.request).is_some());

        let other = KeyAndRequest::generate(NAME).unwrap();
        let said = |key: &[u8], request: &[u8]| {
            KeyAndRequest::supplied(key.to_vec(), request.to_vec()).unwrap_err()
        };
        assert_eq!(said(&key, &other.request), "csr.der: made for another key than key.p8");
        assert!(said(&key, b"nothing").starts_with("csr.der: not a certificate request"));
        assert!(said(b"", &made.request).starts_with("key.p8: "));
    }

    #[test]
    fn a_request_made_by_another_library_can_be_supplied() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let request = params.serialize_request(&key).unwrap();
        KeyAndRequest::supplied(key.serialize_der(), request.der().to_vec()).unwrap();
    }
}

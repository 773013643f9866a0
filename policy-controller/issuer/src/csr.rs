//! Certificate signing requests (PKCS#10, RFC 2986), validated before anything is signed.
//!
//! A CSR must request exactly one DNS name and nothing else, and prove by its signature that the
//! client has the private key. Only the public key is copied into the certificate. Any other
//! request is refused instead of ignored, so that no client believes it was granted.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use policy_tls::der::{
    BIT_STRING, BOOLEAN, INTEGER, OCTET_STRING, OID, PRINTABLE_STRING, SEQUENCE, SET, UTF8_STRING,
    context, element, next, only, whole,
};
use policy_tls::oid::{ECDSA_WITH_SHA256, ED25519, EXTENSION_REQUEST, SUBJECT_ALT_NAME};
use policy_tls::x509::DNS_NAME;
use std::fmt::Write as _;

/// Maximum size of a CSR in bytes. A CSR for the longest name has less than a kilobyte.
pub(crate) const MAX_BYTES: usize = 4096;

/// Maximum length of client input that is quoted in an error.
const MAX_QUOTED: usize = 253;

/// Error of a CSR that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    /// It is too large.
    #[error("it has {0} bytes (allowed: {MAX_BYTES})")]
    TooLarge(usize),
    /// It is not a PKCS#10 request.
    #[error("it is not a PKCS#10 certificate request in DER: {0}")]
    Malformed(&'static str),
    /// Its key is of a kind that proxies do not use.
    #[error("its key is {0} (allowed: ECDSA P-256, as an uncompressed point)")]
    Key(String),
    /// Its signature algorithm does not fit its kind of key.
    #[error("its signature algorithm is not ECDSA with SHA-256")]
    Algorithm,
    /// Its signature does not verify: the client does not have the key.
    #[error("its signature does not verify with its key")]
    Signature,
    /// Its subject names something else.
    #[error("its subject {0} (allowed: none, or the identity as the only common name)")]
    Subject(String),
    /// It has attributes that are not supported.
    #[error("it has the attribute {0} (allowed: one extensionRequest)")]
    Attribute(String),
    /// It requests extensions besides names.
    #[error("it asks for the extension {0} (allowed: one subjectAltName)")]
    Extension(String),
    /// It does not request exactly the identity.
    #[error("its subjectAltName {0} (allowed: exactly one DNS name, the identity)")]
    Names(String),
}

impl CsrError {
    /// Returns the reason as a metric label.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::TooLarge(_) | Self::Malformed(_) => "csr_malformed",
            Self::Key(_) | Self::Algorithm => "csr_key",
            Self::Signature => "csr_signature",
            Self::Subject(_) | Self::Names(_) => "csr_names",
            Self::Attribute(_) | Self::Extension(_) => "csr_extensions",
        }
    }
}

/// The client's public key; the CSR proved that the client has the private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    /// The SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7), DER.
    pub(super) info: Vec<u8>,
}

type CsrResult<T> = Result<T, CsrError>;

/// Validates a CSR for `identity` and returns its public key.
pub(super) fn check(request: &[u8], identity: &str) -> CsrResult<PublicKey> {
    if request.len() > MAX_BYTES {
        return Err(CsrError::TooLarge(request.len()));
    }
    let malformed = CsrError::Malformed;
    let body = only(request, SEQUENCE).ok_or(malformed("no sequence, or bytes after it"))?;
    let (signed, rest) = whole(body, SEQUENCE).ok_or(malformed("no request info"))?;
    let (algorithm, rest) = element(rest, SEQUENCE).ok_or(malformed("no algorithm"))?;
    let signature = only(rest, BIT_STRING).ok_or(malformed("no signature, or bytes after it"))?;
    let info = only(signed, SEQUENCE).ok_or(malformed("no request info"))?;

    let (version, rest) = element(info, INTEGER).ok_or(malformed("no version"))?;
    if version != [0] {
        return Err(malformed("its version is not 1"));
    }
    let (subject, rest) = element(rest, SEQUENCE).ok_or(malformed("no subject"))?;
    let (key, rest) = whole(rest, SEQUENCE).ok_or(malformed("no key"))?;
    let attributes = match rest {
        // Some clients omit an empty list, although section 4.1 does not allow it.
        [] => rest,
        _ => only(rest, context(0)).ok_or(malformed("attributes, or bytes after them"))?,
    };

    let point = p256_point(key)?;
    // An AlgorithmIdentifier without parameters (RFC 5758 section 3.2).
    if only(algorithm, OID) != Some(ECDSA_WITH_SHA256) {
        return Err(CsrError::Algorithm);
    }
    let signature = signature.strip_prefix(&[0]).ok_or(malformed("no whole bytes of signature"))?;
    let proved = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(signed, signature);
    proved.map_err(|_| CsrError::Signature)?;

    check_subject(subject, identity)?;
    let names = alternative_names(attributes)?;
    check_names(names.as_deref(), identity)?;
    Ok(PublicKey { info: key.to_vec() })
}

/// The point of a P-256 key (RFC 5480 section 2).
fn p256_point(info: &[u8]) -> CsrResult<&[u8]> {
    let parts = || {
        let (algorithm, rest) = element(only(info, SEQUENCE)?, SEQUENCE)?;
        let key = only(rest, BIT_STRING)?;
        let (kind, parameters) = element(algorithm, OID)?;
        Some((kind, parameters, key))
    };
    let (kind, parameters, key) = parts().ok_or(CsrError::Malformed("its key"))?;
    if kind != EC_PUBLIC_KEY {
        let name = match kind {
            RSA_ENCRYPTION => "RSA".to_owned(),
            ED25519 => "Ed25519".to_owned(),
            other => format!("of the type {}", dotted(other)),
        };
        return Err(CsrError::Key(name));
    }
    match only(parameters, OID) {
        Some(PRIME256V1) => {}
        Some(SECP384R1) => return Err(CsrError::Key("ECDSA P-384".to_owned())),
        Some(other) => return Err(CsrError::Key(format!("on the curve {}", dotted(other)))),
        None => return Err(CsrError::Key("on a curve without a name".to_owned())),
    }
    // No unused bits, then 4, x and y (SEC 1 section 2.3.3).
    match key {
        [0, point @ ..] if point.len() == 65 && point.first() == Some(&4) => Ok(point),
        _ => Err(CsrError::Key("not an uncompressed point".to_owned())),
    }
}

fn check_subject(mut names: &[u8], identity: &str) -> CsrResult<()> {
    let malformed = || CsrError::Malformed("its subject");
    let mut found = false;
    while !names.is_empty() {
        let (relative, rest) = element(names, SET).ok_or_else(malformed)?;
        names = rest;
        let pair = only(relative, SEQUENCE).ok_or_else(malformed)?;
        let (kind, value) = element(pair, OID).ok_or_else(malformed)?;
        if kind != COMMON_NAME {
            return Err(CsrError::Subject(format!("has the attribute {}", dotted(kind))));
        }
        let (tag, text, rest) = next(value).ok_or_else(malformed)?;
        if !rest.is_empty() {
            return Err(malformed());
        }
        if !matches!(tag, UTF8_STRING | PRINTABLE_STRING) || text != identity.as_bytes() {
            return Err(CsrError::Subject(format!("has the common name `{}`", quoted(text))));
        }
        if std::mem::replace(&mut found, true) {
            return Err(CsrError::Subject("has several common names".to_owned()));
        }
    }
    Ok(())
}

/// Returns the subjectAltName that the CSR requests, if any.
fn alternative_names(attributes: &[u8]) -> CsrResult<Option<Vec<u8>>> {
    let malformed = || CsrError::Malformed("its attributes");
    if attributes.is_empty() {
        return Ok(None);
    }
    let (attribute, rest) = element(attributes, SEQUENCE).ok_or_else(malformed)?;
    let (kind, values) = element(attribute, OID).ok_or_else(malformed)?;
    if kind != EXTENSION_REQUEST {
        return Err(CsrError::Attribute(dotted(kind)));
    }
    if let Some((second, _)) = element(rest, SEQUENCE) {
        let kind = element(second, OID).map(|(kind, _)| dotted(kind)).unwrap_or_default();
        return Err(CsrError::Attribute(kind));
    }
    if !rest.is_empty() {
        return Err(malformed());
    }
    let value = only(values, SET).ok_or_else(malformed)?;
    let extensions = only(value, SEQUENCE).ok_or_else(malformed)?;
    let mut found = None;
    let mut left = extensions;
    while !left.is_empty() {
        let (extension, rest) = element(left, SEQUENCE).ok_or_else(malformed)?;
        left = rest;
        let (kind, value) = element(extension, OID).ok_or_else(malformed)?;
        if kind != SUBJECT_ALT_NAME {
            return Err(CsrError::Extension(dotted(kind)));
        }
        let value = element(value, BOOLEAN).map_or(value, |(_critical, value)| value);
        let value = only(value, OCTET_STRING).ok_or_else(malformed)?;
        if found.replace(value.to_vec()).is_some() {
            return Err(CsrError::Extension("subjectAltName twice".to_owned()));
        }
    }
    Ok(found)
}

fn check_names(names: Option<&[u8]>, identity: &str) -> CsrResult<()> {
    let Some(names) = names else { return Err(CsrError::Names("is missing".to_owned())) };
    let malformed = || CsrError::Malformed("its subjectAltName");
    let mut left = only(names, SEQUENCE).ok_or_else(malformed)?;
    let mut found: u32 = 0;
    while !left.is_empty() {
        let (tag, text, rest) = next(left).ok_or_else(malformed)?;
        left = rest;
        if tag != DNS_NAME {
            let kind = match tag {
                0xa0 => "another name",
                0x81 => "an email address",
                0xa4 => "a directory name",
                0x86 => "a URI",
                0x87 => "an IP address",
                _ => "a name of an unknown type",
            };
            return Err(CsrError::Names(format!("has {kind}")));
        }
        if text != identity.as_bytes() {
            return Err(CsrError::Names(format!("has the DNS name `{}`", quoted(text))));
        }
        found = found.saturating_add(1);
    }
    match found {
        1 => Ok(()),
        0 => Err(CsrError::Names("is empty".to_owned())),
        _ => Err(CsrError::Names("has the identity more than once".to_owned())),
    }
}

/// Returns client input escaped and truncated for a message.
fn quoted(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(MAX_QUOTED).collect();
    text.escape_debug().to_string()
}

/// Returns an object identifier in dotted form (X.690 section 8.19).
fn dotted(oid: &[u8]) -> String {
    let mut text = String::new();
    let mut arc: u64 = 0;
    for byte in oid.iter().take(32) {
        arc = arc.checked_mul(128).unwrap_or_default().saturating_add(u64::from(byte & 0x7f));
        if byte & 0x80 != 0 {
            continue;
        }
        if text.is_empty() {
            let first = (arc / 40).min(2);
            let second = arc.saturating_sub(first.saturating_mul(40));
            text = format!("{first}.{second}");
        } else {
            // Writing to a string does not fail.
            _ = write!(text, ".{arc}");
        }
        arc = 0;
    }
    text
}

const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const SECP384R1: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;

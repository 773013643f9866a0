//! Encodes a workload's certificate (RFC 5280 section 4.1).

use policy_tls::der::{
    BIT_STRING, BOOLEAN, OCTET_STRING, OID, SEQUENCE, bits, context, number, write,
};
use policy_tls::oid::{BASIC_CONSTRAINTS, ECDSA_WITH_SHA256, ED25519, SUBJECT_ALT_NAME};
use policy_tls::x509::{DNS_NAME, write_time};
use rustls::SignatureScheme;
use std::time::SystemTime;

/// Fields that differ from one certificate to the next.
pub(super) struct CertificateFields<'a> {
    pub(super) serial: [u8; 16],
    pub(super) scheme: SignatureScheme,
    /// The authority's subject, DER.
    pub(super) issuer: &'a [u8],
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    /// SubjectPublicKeyInfo, DER.
    pub(super) key: &'a [u8],
    /// The one DNS name.
    pub(super) identity: &'a str,
    /// The authority's subjectKeyIdentifier.
    pub(super) authority_key_id: Option<&'a [u8]>,
}

/// Encodes a certificate that `sign` signs. `None` if signing fails or the algorithm is not
/// supported.
///
/// The subject is empty and the name therefore critical (section 4.2.1.6), because an identity may
/// be longer than a common name.
pub(super) fn certificate(
    fields: &CertificateFields<'_>,
    sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let algorithm = algorithm(fields.scheme)?;
    let version = write(context(0), &[&number(&[2])]);
    let validity =
        write(SEQUENCE, &[&write_time(fields.not_before), &write_time(fields.not_after)]);
    let subject = write(SEQUENCE, &[]);
    let extensions = write(context(3), &[&write(SEQUENCE, &[&extensions(fields)])]);
    let serial = number(&fields.serial);
    let body = write(
        SEQUENCE,
        &[
            &version,
            &serial,
            &algorithm,
            fields.issuer,
            &validity,
            &subject,
            fields.key,
            &extensions,
        ],
    );
    let signature = bits(&sign(&body)?);
    Some(write(SEQUENCE, &[&body, &algorithm, &signature]))
}

fn extensions(fields: &CertificateFields<'_>) -> Vec<u8> {
    let names = write(SEQUENCE, &[&write(DNS_NAME, &[fields.identity.as_bytes()])]);
    // digitalSignature alone: bit 0; the other seven bits are unused.
    let usage = write(BIT_STRING, &[&[7, 0x80]]);
    let purposes = write(SEQUENCE, &[&write(OID, &[SERVER_AUTH]), &write(OID, &[CLIENT_AUTH])]);
    let mut all = [
        extension(KEY_USAGE, true, &usage),
        extension(EXTENDED_KEY_USAGE, false, &purposes),
        // Not an authority, which is the default: the sequence is empty.
        extension(BASIC_CONSTRAINTS, true, &write(SEQUENCE, &[])),
        extension(SUBJECT_ALT_NAME, true, &names),
    ]
    .concat();
    if let Some(id) = fields.authority_key_id {
        let id = write(SEQUENCE, &[&write(0x80, &[id])]);
        all.extend(extension(AUTHORITY_KEY_IDENTIFIER, false, &id));
    }
    all
}

fn extension(kind: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &[BOOLEAN, 1, 0xff] } else { &[] };
    write(SEQUENCE, &[&write(OID, &[kind]), critical, &write(OCTET_STRING, &[value])])
}

/// Returns the AlgorithmIdentifier of a signature scheme.
fn algorithm(scheme: SignatureScheme) -> Option<Vec<u8>> {
    let schemes: [(SignatureScheme, &[u8], &[u8]); 4] = [
        (SignatureScheme::ECDSA_NISTP256_SHA256, ECDSA_WITH_SHA256, &[]),
        (SignatureScheme::ECDSA_NISTP384_SHA384, ECDSA_WITH_SHA384, &[]),
        (SignatureScheme::ED25519, ED25519, &[]),
        (SignatureScheme::RSA_PKCS1_SHA256, SHA256_WITH_RSA, &[5, 0]),
    ];
    let (_, kind, parameters) = schemes.into_iter().find(|(one, ..)| *one == scheme)?;
    Some(write(SEQUENCE, &[&write(OID, &[kind]), parameters]))
}

const ECDSA_WITH_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
const SHA256_WITH_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

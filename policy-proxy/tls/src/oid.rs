//! The contents of object identifiers (ITU-T X.660) in certificates and requests for them, DER.

/// id-ce-subjectKeyIdentifier, 2.5.29.14.
pub const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];
/// id-ce-subjectAltName, 2.5.29.17.
pub const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// id-ce-basicConstraints, 2.5.29.19.
pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// ecdsa-with-SHA256, 1.2.840.10045.4.3.2 (RFC 5758 section 3.2).
pub const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// id-Ed25519, 1.3.101.112 (RFC 8410 section 3), of keys and of signatures.
pub const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// pkcs-9-at-extensionRequest, 1.2.840.113549.1.9.14 (RFC 2985 section 5.4.2).
pub const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];

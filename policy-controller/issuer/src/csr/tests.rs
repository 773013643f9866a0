//! CSRs of honest and of hostile clients.

use super::*;
use proptest::prelude::*;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData,
    SanType,
};

const NAME: &str = "web.shop.serviceaccount.identity.mesh.cluster.local";

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

fn params(names: &[SanType], common: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.to_vec();
    params.distinguished_name = DistinguishedName::new();
    for name in common {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    params
}

fn made(params: &CertificateParams) -> Vec<u8> {
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[track_caller]
fn refused(request: &[u8], want: &str) {
    let error = check(request, NAME).unwrap_err().to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn a_request_for_exactly_the_identity_gives_its_key() {
    let key = KeyPair::generate().unwrap();
    for common in [&[][..], &[NAME]] {
        let request = params(&[dns(NAME)], common).serialize_request(&key).unwrap();
        let checked = check(request.der(), NAME).unwrap();
        assert_eq!(checked.info, key.subject_public_key_info());
    }
}

#[test]
fn names_besides_the_identity_are_refused_by_kind() {
    let other = "other.shop.serviceaccount.identity.mesh.cluster.local";
    let cases: [(&[SanType], &str); 13] = [
        (&[], "subjectAltName is missing"),
        (&[dns(other)], "the DNS name `other.shop"),
        (&[dns(NAME), dns(other)], "the DNS name `other.shop"),
        (&[dns(other), dns(NAME)], "the DNS name `other.shop"),
        (&[dns(NAME), dns(NAME)], "the identity more than once"),
        (&[dns(NAME), uri("spiffe://cluster.local/ns/a/sa/b")], "has a URI"),
        (&[uri("spiffe://cluster.local/ns/a/sa/b")], "has a URI"),
        (
            &[uri("spiffe://cluster.local/ns/a/sa/b"), uri("spiffe://cluster.local/ns/a/sa/c")],
            "has a URI",
        ),
        (&[SanType::IpAddress([10, 0, 0, 1].into()), dns(NAME)], "has an IP address"),
        (&[dns(NAME), SanType::Rfc822Name("a@b.c".try_into().unwrap())], "has an email"),
        (&[dns("*.shop.serviceaccount.identity.mesh.cluster.local")], "the DNS name `*."),
        (&[dns("WEB.shop.serviceaccount.identity.mesh.cluster.local")], "the DNS name `WEB"),
        (&[dns(&format!("{NAME}."))], "the DNS name"),
    ];
    for (names, want) in cases {
        refused(&made(&params(names, &[])), want);
    }
}

#[test]
fn a_subject_may_be_empty_or_the_identity_and_nothing_else() {
    refused(&made(&params(&[dns(NAME)], &["admin"])), "has the common name `admin`");
    let mut organised = params(&[dns(NAME)], &[NAME]);
    organised.distinguished_name.push(DnType::OrganizationName, "system:masters");
    refused(&made(&organised), "has the attribute 2.5.4.10");
}

#[test]
fn whatever_else_is_asked_for_is_refused_and_named() {
    let mut authority = params(&[dns(NAME)], &[]);
    authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let mut usages = params(&[dns(NAME)], &[]);
    usages.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let mut extended = params(&[dns(NAME)], &[]);
    extended.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
    for (params, want) in [
        (&authority, "the extension 2.5.29."),
        (&usages, "the extension 2.5.29.15"),
        (&extended, "the extension 2.5.29.37"),
    ] {
        refused(&made(params), want);
    }
}

#[test]
fn keys_of_other_kinds_are_refused_with_what_is_allowed() {
    let request = |algorithm| {
        let key = KeyPair::generate_for(algorithm).unwrap();
        params(&[dns(NAME)], &[]).serialize_request(&key).unwrap().der().to_vec()
    };
    refused(&request(&PKCS_ECDSA_P384_SHA384), "ECDSA P-384 (allowed: ECDSA P-256");
    refused(&request(&PKCS_ED25519), "Ed25519 (allowed: ECDSA P-256");
    assert!(check(&request(&PKCS_ECDSA_P256_SHA256), NAME).is_ok());
}

#[test]
fn a_request_that_its_key_has_not_signed_proves_nothing() {
    let request = made(&params(&[dns(NAME)], &[]));
    let other = made(&params(&[dns(NAME)], &[]));
    let key = |request: &[u8]| {
        let at = request.windows(8).position(|w| w == [0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
        at.unwrap() + 8
    };
    let (at, from) = (key(&request), key(&other));
    let mut stolen = request.clone();
    stolen[at..at + 68].copy_from_slice(&other[from..from + 68]);
    refused(&stolen, "its signature does not verify with its key");
    let mut last = request.clone();
    *last.last_mut().unwrap() ^= 1;
    refused(&last, "its signature does not verify with its key");
}

#[test]
fn what_is_no_request_is_told_so() {
    refused(b"", "not a PKCS#10");
    refused(b"-----BEGIN CERTIFICATE REQUEST-----", "not a PKCS#10");
    refused(&vec![0x30; MAX_BYTES + 1], "4097 bytes (allowed: 4096)");
    let request = made(&params(&[dns(NAME)], &[]));
    refused(&[request.clone(), vec![0]].concat(), "bytes after it");
    for length in 0..request.len() {
        assert!(check(&request[..length], NAME).is_err(), "{length}");
    }
}

#[test]
fn identifiers_are_written_with_dots() {
    assert_eq!(dotted(SUBJECT_ALT_NAME), "2.5.29.17");
    assert_eq!(dotted(EXTENSION_REQUEST), "1.2.840.113549.1.9.14");
    assert_eq!(dotted(&[]), "");
    assert!(dotted(&[0xff; 200]).len() < 100);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(check(&bytes, NAME).is_err());
    }

    /// No CSR that differs from the signed one is accepted.
    #[test]
    fn a_changed_request_is_refused(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let request = made(&params(&[dns(NAME)], &[NAME]));
        let mut changed = request.clone();
        let at = at.index(request.len());
        changed[at] ^= 1 << bit;
        // An ECDSA signature has equivalent encodings beside the original, which prove the same.
        if let Ok(key) = check(&changed, NAME) {
            prop_assert_eq!(key, check(&request, NAME).unwrap());
        }
    }

    /// A name equals the identity byte by byte, or it is refused.
    #[test]
    fn no_other_name_is_taken_for_the_identity(name in "[a-z*.]{1,20}") {
        prop_assert!(check(&made(&params(&[dns(&name)], &[])), NAME).is_err());
    }
}

//! Certificates signed by authorities with every supported kind of key verify against their roots.

use super::*;
use crate::csr;
use policy_core::Identity;
use policy_tls::der::{
    BOOLEAN, OCTET_STRING, OID, PRINTABLE_STRING, SEQUENCE, SET, UTF8_STRING, bits, context,
    number, write,
};
use policy_tls::identity::{identity_of, validity};
use policy_tls::oid::{BASIC_CONSTRAINTS, ECDSA_WITH_SHA256};
use policy_tls::x509::write_time;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType, SignatureAlgorithm,
};

const NAME: &str = "web.shop.serviceaccount.identity.mesh.cluster.local";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

const DAY: Duration = Duration::from_secs(86_400);

const LIFETIME: Lifetime = Lifetime { lifetime: DAY, skew: Duration::from_secs(20) };

fn sources() -> PemSources {
    PemSources { certificate: "tls.crt".into(), key: "tls.key".into(), roots: "ca.crt".into() }
}

/// The parameters of an authority of many parts, as those of companies have them.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CountryName, "CH");
    params.distinguished_name.push(DnType::OrganizationName, "Muster & Söhne");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    policy_kube::certificate::valid(&mut params, now(), 30 * DAY).unwrap();
    params
}

fn request() -> PublicKey {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.subject_alt_names = vec![SanType::DnsName(NAME.try_into().unwrap())];
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    csr::check(request.der(), NAME).unwrap()
}

fn read(certificate: &str, key: &str, roots: &str) -> Result<Authority, AuthorityError> {
    Authority::read(sources(), certificate.as_bytes(), key.as_bytes(), roots.as_bytes())
}

#[test]
fn a_certificate_proves_the_identity_and_nothing_else() {
    let made = generate("cluster.local", now(), 30 * DAY).unwrap();
    let authority = read(&made.certificate, &made.key, &made.certificate).unwrap();
    let leaf = authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
    assert_eq!(identity_of(&leaf.certificate), Some(Identity::Dns(NAME.into())));
    let (begins, ends) = validity(&leaf.certificate).unwrap();
    assert_eq!(begins, now() - LIFETIME.skew);
    assert_eq!(ends, now() + DAY + LIFETIME.skew);
    assert_eq!(leaf.not_after, ends);
    assert_eq!(authority.intermediates().count(), 0, "a root is not sent");
    assert_eq!(leaf.serial.len(), 32);
    let other = authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
    assert_ne!(leaf.serial, other.serial);
    // It cannot endorse others, because a leaf certificate is no authority.
    let pem = policy_tls::identity::pem(&leaf.certificate);
    let error = read(&pem, &made.key, &made.certificate).unwrap_err();
    assert_eq!(error, AuthorityError::NotAnAuthority("tls.crt".into()));
}

#[test]
fn authorities_of_every_kind_of_key_sign_what_proxies_accept() {
    let kinds: [&'static SignatureAlgorithm; 3] =
        [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];
    for kind in kinds {
        let key = KeyPair::generate_for(kind).unwrap();
        let root = params("root").self_signed(&key).unwrap();
        let authority = read(&root.pem(), &key.serialize_pem(), &root.pem()).unwrap();
        authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
    }
    let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let root = params("root").self_signed(&key).unwrap();
    let authority = read(&root.pem(), &key.serialize_pem(), &root.pem()).unwrap();
    authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
}

#[test]
fn an_intermediate_authority_is_sent_and_its_root_is_not() {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let root = params("root").self_signed(&root_key).unwrap();
    let issuer = Issuer::new(params("root"), root_key);
    let mut params = params("issuer");
    policy_kube::certificate::valid(&mut params, now(), 3 * DAY).unwrap();
    let own = params.signed_by(&key, &issuer).unwrap();
    for chain in [own.pem(), format!("{}{}", own.pem(), root.pem())] {
        let authority = read(&chain, &key.serialize_pem(), &root.pem()).unwrap();
        let sent: Vec<_> = authority.intermediates().cloned().collect();
        assert_eq!(sent, [own.der().clone()]);
        let leaf = authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
        assert_eq!(leaf.not_after, now() + DAY + LIFETIME.skew);
        // Certificates do not outlive their authority.
        let leaf = authority.sign(&request(), NAME, LIFETIME, now() + 2 * DAY).unwrap();
        assert_eq!(leaf.not_after, now() + 3 * DAY);
        let error = authority.sign(&request(), NAME, LIFETIME, now() + 3 * DAY).unwrap_err();
        assert!(matches!(error, AuthorityError::Time { .. }), "{error}");
    }
}

#[test]
fn nothing_outlives_the_root_either() {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut short = params("root");
    policy_kube::certificate::valid(&mut short, now(), DAY / 2).unwrap();
    let root = short.self_signed(&root_key).unwrap();
    let own = params("issuer").signed_by(&key, &Issuer::new(short, root_key)).unwrap();
    let authority = read(&own.pem(), &key.serialize_pem(), &root.pem()).unwrap();
    let leaf = authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
    assert_eq!(leaf.not_after, now() + DAY / 2);
}

#[test]
fn an_authority_that_is_not_valid_yet_signs_nothing() {
    let made = generate("cluster.local", now(), 30 * DAY).unwrap();
    let authority = read(&made.certificate, &made.key, &made.certificate).unwrap();
    let error = authority.sign(&request(), NAME, LIFETIME, now() - DAY).unwrap_err();
    assert!(error.to_string().contains("the time is 2027-01-14T08:00:00Z"), "{error}");
}

#[test]
fn what_cannot_be_used_is_named() {
    let (one, two) = (generate("a", now(), DAY).unwrap(), generate("b", now(), DAY).unwrap());
    let refused = |certificate: &str, key: &str, roots: &str, want: &str| {
        let error = read(certificate, key, roots).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    };
    refused(&one.certificate, &two.key, &one.certificate, "`tls.key` is not the key of the cert");
    refused(&one.certificate, &one.key, &two.certificate, "do not verify against `ca.crt`");
    refused("", &one.key, &one.certificate, "`tls.crt`: holds no certificate");
    refused(&one.certificate, "", &one.certificate, "`tls.key`: ");
    refused(&one.certificate, &one.key, "", "`ca.crt`: holds no certificate");
    refused(&one.certificate, &one.certificate, &one.certificate, "`tls.key`: ");
}

/// An attribute of a name (RFC 5280 section 4.1.2.4): its type, the kind of text, the text.
fn attribute(kind: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
    write(SEQUENCE, &[&write(OID, &[kind]), &write(tag, &[text])])
}

/// An authority that is its own root under a name that is written like this.
fn named(name: &[u8]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let algorithm = write(SEQUENCE, &[&write(OID, &[ECDSA_WITH_SHA256])]);
    let validity = write(SEQUENCE, &[&write_time(now() - DAY), &write_time(now() + 30 * DAY)]);
    let constraints = write(SEQUENCE, &[&[BOOLEAN, 1, 0xff]]);
    let id = write(OID, &[BASIC_CONSTRAINTS]);
    let extension = write(SEQUENCE, &[&id, &write(OCTET_STRING, &[&constraints])]);
    let extensions = write(context(3), &[&write(SEQUENCE, &[&extension])]);
    let version = write(context(0), &[&number(&[2])]);
    let info = key.subject_public_key_info();
    let serial = number(&[1]);
    let body = [&version, &serial, &algorithm, name, &validity, name, &info, &extensions];
    let body = write(SEQUENCE, &body);
    let signature = bits(&rcgen::SigningKey::sign(&key, &body).unwrap());
    let certificate = write(SEQUENCE, &[&body, &algorithm, &signature]);
    (policy_tls::identity::pem(&certificate.into()), key.serialize_pem())
}

#[test]
fn an_issuers_name_is_written_as_its_own_certificate_has_it() {
    const TELETEX: u8 = 0x14;
    const IA5: u8 = 0x16;
    const BMP: u8 = 0x1e;
    let (common, unit, company) = (&[0x55, 4, 3], &[0x55, 4, 11], &[0x55, 4, 10]);
    let domain = &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19];
    let wide: Vec<u8> = "Söhne".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let name = |parts: &[&[Vec<u8>]]| {
        let sets: Vec<_> = parts.iter().map(|set| write(SET, &[&set.concat()])).collect();
        write(SEQUENCE, &[&sets.concat()])
    };
    let root = attribute(common, PRINTABLE_STRING, b"root");
    let mesh = attribute(unit, UTF8_STRING, b"mesh");
    for (what, name) in [
        ("PrintableString", name(&[std::slice::from_ref(&root)])),
        ("UTF8String", name(&[&[attribute(common, UTF8_STRING, "Söhne".as_bytes())]])),
        ("BMPString", name(&[&[attribute(company, BMP, &wide)]])),
        ("TeletexString", name(&[&[attribute(company, TELETEX, b"S\xf6hne")]])),
        ("common name first", name(&[std::slice::from_ref(&root), std::slice::from_ref(&mesh)])),
        (
            "one kind twice",
            name(&[&[attribute(domain, IA5, b"com")], &[attribute(domain, IA5, b"a")]]),
        ),
        ("two values in one part", name(&[&[root.clone(), mesh.clone()]])),
        ("and in another order", name(&[&[mesh, root]])),
    ] {
        let (certificate, key) = named(&name);
        let authority = read(&certificate, &key, &certificate).unwrap();
        let leaf = authority.sign(&request(), NAME, LIFETIME, now()).unwrap();
        assert_eq!(Certificate::read(&leaf.certificate).unwrap().issuer, name, "{what}");
    }
}

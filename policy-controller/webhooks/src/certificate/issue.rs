//! Issues a serving certificate with an authority of its own. The authority signs nothing else,
//! because its private key is discarded at once.

use policy_kube::certificate::{common_name, valid};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// A certificate, its key and its authority, PEM.
pub(super) struct IssuedCertificate {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) authority: String,
}

/// Issues a certificate for `names` (DNS names and addresses) that is valid from `now` for
/// `lifetime`.
pub(super) fn issue(
    names: &[String],
    now: SystemTime,
    lifetime: Duration,
) -> Result<IssuedCertificate, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    // Authorities that replace each other are in one bundle and differ by their keys.
    authority.distinguished_name = common_name("portcullis admission authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    valid(&mut authority, now, lifetime)?;
    let root = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("portcullis admission");
    params.subject_alt_names = names.iter().map(|name| san(name)).collect::<Result<_, _>>()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, now, lifetime)?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(IssuedCertificate {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        authority: root.pem(),
    })
}

fn san(name: &str) -> Result<SanType, rcgen::Error> {
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => Ok(SanType::DnsName(name.try_into()?)),
    }
}

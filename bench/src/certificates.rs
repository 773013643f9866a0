//! Certificates of one throw-away authority, with keys on P-256, as files.

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use std::fs;
use std::path::Path;

/// Identity of the clients.
pub const CLIENT: &str = "load.bench.serviceaccount.identity.linkerd.cluster.local";

/// Writes `ca.crt`, and for `server` and `client` a `.crt`, a `.key`, and both in one `.pem`.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    write_for(folder, CLIENT)
}

/// The same for a client of this identity.
pub fn write_for(folder: &Path, client: &str) -> anyhow::Result<()> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let root = params.self_signed(&key)?;
    let issuer = Issuer::new(params, key);
    put(folder, "ca.crt", &root.pem())?;
    for (file, name) in [("server", crate::policy::IDENTITY), ("client", client)] {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &issuer)?.pem();
        let key = key.serialize_pem();
        put(folder, &format!("{file}.crt"), &certificate)?;
        put(folder, &format!("{file}.key"), &key)?;
        put(folder, &format!("{file}.pem"), &(certificate + &key))?;
    }
    Ok(())
}

fn put(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

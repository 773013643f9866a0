//! Certificates and keys of a control plane that lasts as long as a test.

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// What kube-apiserver and its administrator prove themselves by.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) serving: Pair,
    pub(super) admin: Pair,
    /// The key that service account tokens are signed by.
    pub(super) token_key: PathBuf,
    /// The key that they are checked by.
    pub(super) token_public_key: PathBuf,
}

impl Certificates {
    pub(super) fn write(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "portcullis tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let authority = folder.join("ca.crt");
        fs::write(&authority, params.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(params, key);

        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving = signed(folder, "serving", &params, &issuer)?;

        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "admin");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin = signed(folder, "admin", &params, &issuer)?;

        let tokens = KeyPair::generate()?;
        let token_key = folder.join("service-accounts.key");
        fs::write(&token_key, tokens.serialize_pem())?;
        let token_public_key = folder.join("service-accounts.pub");
        fs::write(&token_public_key, tokens.public_key_pem())?;
        Ok(Self { authority, serving, admin, token_key, token_public_key })
    }
}

fn signed(
    folder: &Path,
    name: &str,
    params: &CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<Pair> {
    let key = KeyPair::generate()?;
    let pair = Pair {
        certificate: folder.join(format!("{name}.crt")),
        key: folder.join(format!("{name}.key")),
    };
    fs::write(&pair.certificate, params.signed_by(&key, issuer)?.pem())?;
    fs::write(&pair.key, key.serialize_pem())?;
    Ok(pair)
}

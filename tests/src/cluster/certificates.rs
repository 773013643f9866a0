//! Certificates and keys of a control plane that lasts as long as a test.

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Credentials of kube-apiserver and of its administrator.
#[derive(Clone)]
pub(crate) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) serving: Pair,
    pub(super) admin: Pair,
    /// The key that service account tokens are signed by.
    pub(super) token_key: PathBuf,
    /// The key that they are checked by.
    pub(super) token_public_key: PathBuf,
    issuer: Arc<Issuer<'static, KeyPair>>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Certificates {
    /// For an API server that is called by `addresses` too.
    pub(super) fn write(folder: &Path, addresses: &[IpAddr]) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "portcullis tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let authority = folder.join("ca.crt");
        fs::write(&authority, params.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(params, key);

        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let addresses = addresses.iter().map(ToString::to_string);
        let mut params =
            CertificateParams::new(names.into_iter().chain(addresses).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving = signed(folder, "serving", &params, &issuer)?;

        let admin = signed(folder, "admin", &client("admin", Some("system:masters")), &issuer)?;

        let tokens = KeyPair::generate()?;
        let token_key = folder.join("service-accounts.key");
        fs::write(&token_key, tokens.serialize_pem())?;
        let token_public_key = folder.join("service-accounts.pub");
        fs::write(&token_public_key, tokens.public_key_pem())?;
        let issuer = Arc::new(issuer);
        Ok(Self { authority, serving, admin, token_key, token_public_key, issuer })
    }

    /// Client credentials of a user for the API server, in files called `file`.
    pub(super) fn client(
        &self,
        folder: &Path,
        file: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<Pair> {
        signed(folder, file, &client(user, group), &self.issuer)
    }

    /// Serving certificate of a kubelet, for `logs` and `exec`.
    pub(super) fn kubelet(&self, folder: &Path, addresses: &[IpAddr]) -> Result<Pair> {
        let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kubelet");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        signed(folder, "kubelet-serving", &params, &self.issuer)
    }
}

fn client(user: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
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

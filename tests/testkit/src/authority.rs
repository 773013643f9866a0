//! Certificates of a mesh of the test's own.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
#[derive(Debug)]
pub struct Leaf {
    /// The certificate, which its authority vouches for directly.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Its key, PEM.
    pub key_pem: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// One with a name of its own: an error then says that nobody knows it, not that its signature is
    /// wrong.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let part = key.public_key_raw().iter().take(9);
        let name: String = part.map(|byte| format!("{byte:02x}")).collect();
        Self::with(&name, key)
    }

    /// One with this name.
    pub fn named(name: &str) -> Self {
        Self::with(name, KeyPair::generate().unwrap())
    }

    fn with(name: &str, key: KeyPair) -> Self {
        Self(CertifiedIssuer::self_signed(authority_params(name), key).unwrap())
    }

    /// An authority below this one, with its certificate.
    pub fn below(&self) -> (Self, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let below = CertifiedIssuer::signed_by(authority_params("below"), key, &self.0).unwrap();
        let certificate = below.der().clone();
        (Self(below), certificate)
    }

    /// Its certificate.
    pub fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// Its certificate, PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its key, PEM.
    pub fn key_pem(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A certificate of this identity: a URI if it is a SPIFFE id, else a DNS name.
    pub fn certify(&self, name: &str) -> Leaf {
        self.leaf(&[if name.starts_with("spiffe://") { uri(name) } else { dns(name) }])
    }

    /// A certificate for these names, for an hour.
    pub fn leaf(&self, names: &[SanType]) -> Leaf {
        self.leaf_with(names, |_| {})
    }

    /// The same, as far as `change` has nothing else to say: expired, for other uses, not yet valid.
    pub fn leaf_with(
        &self,
        names: &[SanType],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = leaf_params(names, change).signed_by(&key, &self.0).unwrap();
        Leaf::of(&certificate, &key)
    }

    /// Signs `params` for somebody else's key.
    pub fn sign(&self, params: &CertificateParams, key: &impl PublicKeyData) -> Vec<u8> {
        params.signed_by(key, &self.0).unwrap().der().to_vec()
    }
}

impl Leaf {
    fn of(certificate: &rcgen::Certificate, key: &KeyPair) -> Self {
        Self {
            chain: vec![certificate.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    /// Writes certificate and key as PEM files of these names.
    pub fn write(&self, folder: &Path, certificate: &str, key: &str) {
        std::fs::write(folder.join(certificate), &self.certificate_pem).unwrap();
        std::fs::write(folder.join(key), &self.key_pem).unwrap();
    }
}

/// A certificate of a server at this name or address that vouches for itself.
pub fn self_signed(name: &str) -> Leaf {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    Leaf::of(&params.self_signed(&key).unwrap(), &key)
}

/// Parameters that [`Authority::leaf_with`] signs.
pub fn leaf_params(
    names: &[SanType],
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.to_vec();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    lasting(&mut params, -60, 3600);
    change(&mut params);
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Valid from and until so many seconds from now.
pub fn lasting(params: &mut CertificateParams, from: i64, until: i64) {
    let now = rcgen::date_time_ymd(1970, 1, 1) + SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let at = |seconds: i64| match u64::try_from(seconds) {
        Ok(later) => now + Duration::from_secs(later),
        Err(_) => now - Duration::from_secs(seconds.unsigned_abs()),
    };
    params.not_before = at(from);
    params.not_after = at(until);
}

/// A DNS name of a certificate.
pub fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// A URI of a certificate.
pub fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_authorities_have_two_names_and_a_leaf_has_its_key() {
        let authority = Authority::new();
        assert_ne!(authority.root(), Authority::new().root());
        let leaf = authority.certify("spiffe://mesh.example/vm");
        assert!(KeyPair::from_pem(&leaf.key_pem).is_ok());
        assert!(leaf.certificate_pem.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(leaf.chain.len(), 1);
    }
}

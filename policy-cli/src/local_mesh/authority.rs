//! Ephemeral certificate authority. Its key never leaves memory.

use crate::request::Credentials;
use policy_core::Identity;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;

/// Validity of certificates in days.
const DAYS: i32 = 30;

/// Issues the certificates of a local mesh.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    pem: String,
}

/// A certificate with its key.
pub(crate) struct Leaf {
    /// DER.
    pub(crate) certificate: CertificateDer<'static>,
    /// PKCS#8, DER.
    pub(crate) key: Vec<u8>,
    /// The certificate as PEM.
    pub(crate) certificate_pem: String,
    /// The key as PEM.
    pub(crate) key_pem: String,
}

/// Error of issuing a certificate.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate for `{name}`: {error}")]
pub(crate) struct IssueError {
    name: String,
    error: rcgen::Error,
}

impl Authority {
    /// Creates an authority.
    pub(crate) fn new() -> Result<Self, IssueError> {
        let name = "portcullis throw-away CA";
        Self::make(name).map_err(|error| IssueError { name: name.to_owned(), error })
    }

    fn make(name: &str) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity(&mut params);
        let root = params.self_signed(&key)?;
        Ok(Self { root: root.der().clone(), pem: root.pem(), issuer: Issuer::new(params, key) })
    }

    /// The root as PEM.
    pub(crate) fn root_pem(&self) -> &str {
        &self.pem
    }

    /// The root as DER.
    pub(crate) fn root(&self) -> &CertificateDer<'static> {
        &self.root
    }

    /// A certificate for `identity`, for both ends of a connection.
    pub(crate) fn issue(&self, identity: &Identity) -> Result<Leaf, IssueError> {
        self.leaf(identity)
            .map_err(|error| IssueError { name: identity.as_str().to_owned(), error })
    }

    fn leaf(&self, identity: &Identity) -> Result<Leaf, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // The name is in the SAN; a common name may have no more than 64 characters.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.subject_alt_names = vec![match identity {
            Identity::Dns(name) => SanType::DnsName(name.to_string().try_into()?),
            Identity::Spiffe(uri) => SanType::URI(uri.to_string().try_into()?),
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        validity(&mut params);
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Leaf {
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Credentials of a client with this identity, or without one, for sidecars of this mesh.
    pub(crate) fn credentials(
        &self,
        identity: Option<&Identity>,
    ) -> Result<Credentials, IssueError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates([self.root.clone()]);
        let roots = Arc::new(roots);
        let Some(identity) = identity else { return Ok(Credentials::anonymous(roots)) };
        let leaf = self.issue(identity)?;
        let key = leaf.private_key();
        Ok(Credentials::new(roots, vec![leaf.certificate], key))
    }
}

impl Leaf {
    /// The key in the TLS library's format.
    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

/// Begins yesterday, to tolerate clock skew.
fn validity(params: &mut CertificateParams) {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |days: i32| {
        let date = today.saturating_add(jiff::Span::new().days(days));
        let month = u8::try_from(date.month()).unwrap_or(1);
        let day = u8::try_from(date.day()).unwrap_or(1);
        date_time_ymd(date.year().into(), month, day)
    };
    params.not_before = day(-1);
    params.not_after = day(DAYS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_signed_by_the_root_and_prove_one_name() {
        let authority = Authority::new().unwrap();
        for identity in [
            Identity::Dns("web.shop.serviceaccount.identity.linkerd.cluster.local".into()),
            Identity::Spiffe("spiffe://example.org/ns/shop/sa/web".into()),
        ] {
            let leaf = authority.issue(&identity).unwrap();
            assert_eq!(policy_tls::identity::identity_of(&leaf.certificate), Some(identity));
        }
    }
}

//! The certificate authority in use: its certificate, its key, its roots, and the certificates it
//! signs.
//!
//! Certificates are encoded here, not by a library that rebuilds the issuer's name from its parts:
//! a name with another encoding is another name to a verifier. Every signed certificate is verified
//! as a peer would verify it before it is returned.

pub use super::authority_error::AuthorityError;
use super::certificate::{CertificateFields, certificate};
use super::csr::PublicKey;
use policy_kube::certificate::{common_name, valid};
use policy_kube::rotation::secret::{Pair, timestamp};
use policy_tls::datetime::rfc3339_seconds;
use policy_tls::identity::{Statement, certificates, proof_name, provider};
use policy_tls::x509::Certificate;
use rcgen::PublicKeyData as _;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SigningKey;
use rustls::{RootCertStore, SignatureScheme};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Remaining lifetime below which an authority signs nothing: a shorter certificate would expire
/// before the client uses it.
const MIN_REMAINING: Duration = Duration::from_secs(60);

/// Maximum lifetime of an endorsement of roots; usually the authority expires first.
pub(super) const MAX_LIFETIME: Duration = Duration::from_secs(86_400 * 365 * 100);

/// Time before now at which an endorsement becomes valid, to tolerate clock skew.
const BACKDATED: Duration = Duration::from_secs(3600);

/// Names of the files or Secret keys that the parts of an authority come from, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PemSources {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) roots: String,
}

/// Validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Validity from now on, without the skew.
    pub lifetime: Duration,
    /// Tolerated clock skew: the certificate becomes valid this much earlier and expires this much
    /// later.
    pub skew: Duration,
}

/// A signed certificate.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) serial: String,
    pub(super) not_after: SystemTime,
}

/// The authority in use.
pub(super) struct Authority {
    /// Its own certificate first, then the intermediates up to a root.
    chain: Vec<CertificateDer<'static>>,
    roots: Vec<CertificateDer<'static>>,
    /// The subject of its certificate, DER, byte for byte (RFC 5280 section 4.1.2.6).
    subject: Vec<u8>,
    /// The content of its subjectKeyIdentifier.
    key_id: Option<Vec<u8>>,
    key: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
    not_before: SystemTime,
    not_after: SystemTime,
    sources: PemSources,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("expires", &self.not_after).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads an authority from PEM and checks that it can sign certificates that its roots verify.
    pub(super) fn read(
        sources: PemSources,
        certificate: &[u8],
        key: &[u8],
        roots: &[u8],
    ) -> Result<Self, AuthorityError> {
        let text = |place: &str, message| AuthorityError::Text { place: place.to_owned(), message };
        let chain = certificates(certificate).map_err(|what| text(&sources.certificate, what))?;
        let roots = certificates(roots).map_err(|what| text(&sources.roots, what))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| text(&sources.key, error.to_string()))?;
        let key = provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| text(&sources.key, error.to_string()))?;
        let unreadable = || text(&sources.certificate, "a certificate cannot be read".to_owned());
        let links: Option<Vec<_>> = chain.iter().map(|one| Certificate::read(one)).collect();
        let links = links.ok_or_else(unreadable)?;
        let (own, last) = links.first().zip(links.last()).ok_or_else(unreadable)?;
        if !own.is_authority() {
            return Err(AuthorityError::NotAnAuthority(sources.certificate));
        }
        if key.public_key().is_none_or(|key| key.as_ref() != own.key) {
            let PemSources { key, certificate, .. } = sources;
            return Err(AuthorityError::OtherKey { key, certificate });
        }
        let signer = key.choose_scheme(&SCHEMES);
        let scheme = signer.ok_or_else(|| AuthorityError::KeyKind(sources.key.clone()))?.scheme();
        let not_before = links.iter().map(|one| one.not_before).max().ok_or_else(unreadable)?;
        let not_after = links.iter().map(|one| one.not_after).min().ok_or_else(unreadable)?;
        let not_after = root_of(last, &roots).map_or(not_after, |root| not_after.min(root));
        let (servers, clients) =
            verifiers(&roots).map_err(|message| text(&sources.roots, message))?;
        let (subject, key_id) = (own.subject.to_vec(), own.key_id().map(<[u8]>::to_vec));
        let authority = Self {
            subject,
            key_id,
            chain,
            roots,
            key,
            scheme,
            servers,
            clients,
            not_before,
            not_after,
            sources,
        };
        authority.self_test()?;
        Ok(authority)
    }

    /// Returns the time at which the authority becomes valid.
    pub(super) fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// Returns the time after which the authority signs nothing.
    pub(super) fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Returns the roots that were supplied with it.
    pub(super) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Returns its own certificate, DER.
    pub(super) fn certificate(&self) -> &[u8] {
        self.chain.first().map(AsRef::as_ref).unwrap_or_default()
    }

    /// True if `other` has the same certificate, and therefore the same key.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.chain.first() == other.chain.first()
    }

    /// True if certificates that it signs verify against `root`.
    pub(super) fn leads_to(&self, root: &CertificateDer<'static>) -> bool {
        let Ok((servers, _)) = verifiers(std::slice::from_ref(root)) else { return false };
        self.test_certificate().is_ok_and(|(leaf, name, at)| {
            let (rest, none) = (self.chain.as_slice(), &[]);
            servers.verify_server_cert(&leaf.certificate, rest, &name, none, at).is_ok()
        })
    }

    /// Returns the certificates between a signed certificate and a root, without the root, nearest
    /// first.
    pub(super) fn intermediates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.chain.iter().filter(|one| !self.roots.contains(one))
    }

    /// Signs a certificate for `identity` and verifies it as a peer would.
    pub(super) fn sign(
        &self,
        key: &PublicKey,
        identity: &str,
        lifetime: Lifetime,
        now: SystemTime,
    ) -> Result<Leaf, AuthorityError> {
        let not_before = now.checked_sub(lifetime.skew).unwrap_or(SystemTime::UNIX_EPOCH);
        let until = now.checked_add(lifetime.lifetime).and_then(|at| at.checked_add(lifetime.skew));
        let not_after = until.unwrap_or(self.not_after).min(self.not_after);
        let left = not_after.duration_since(now).unwrap_or_default();
        if self.not_before > now || left < MIN_REMAINING {
            let [not_before, not_after, now] =
                [self.not_before, self.not_after, now].map(timestamp);
            return Err(AuthorityError::Time { not_before, not_after, now });
        }
        let leaf = self.issue(key, identity, not_before.max(self.not_before), not_after)?;
        self.verify(&leaf, identity, unix(now)).map_err(|error| self.not_trusted(&error))?;
        Ok(leaf)
    }

    /// Endorses roots: clients that trust this authority trust these roots from now on, until the
    /// authority expires. The private key of the proof is discarded.
    pub(super) fn endorse(
        &self,
        serial: u64,
        roots: Vec<CertificateDer<'static>>,
        now: SystemTime,
    ) -> Result<Statement, AuthorityError> {
        let key = rcgen::KeyPair::generate().map_err(|_| AuthorityError::Signing)?;
        let key = PublicKey { info: key.subject_public_key_info() };
        let forever = Lifetime { lifetime: MAX_LIFETIME, skew: BACKDATED };
        let leaf = self.sign(&key, &proof_name(serial, &roots), forever, now)?;
        let proof = std::iter::once(leaf.certificate).chain(self.intermediates().cloned());
        Ok(Statement::new(serial, roots, proof.collect()))
    }

    fn issue(
        &self,
        key: &PublicKey,
        identity: &str,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<Leaf, AuthorityError> {
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| AuthorityError::Signing)?;
        // Positive, and of the same length always (RFC 5280 section 4.1.2.2).
        if let Some(first) = serial.first_mut() {
            *first = (*first & 0x3f) | 0x40;
        }
        let fields = CertificateFields {
            serial,
            scheme: self.scheme,
            issuer: &self.subject,
            not_before,
            not_after,
            key: &key.info,
            identity,
            authority_key_id: self.key_id.as_deref(),
        };
        let sign = |message: &[u8]| self.key.choose_scheme(&[self.scheme])?.sign(message).ok();
        let der = certificate(&fields, sign).ok_or(AuthorityError::Signing)?;
        let serial = serial.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Leaf { certificate: der.into(), serial, not_after })
    }

    fn verify(&self, leaf: &Leaf, name: &str, at: UnixTime) -> Result<(), rustls::Error> {
        let rest = self.chain.as_slice();
        let wrong = |_| rustls::Error::General("the identity is not a DNS name".to_owned());
        let name = ServerName::try_from(name).map_err(wrong)?;
        self.servers.verify_server_cert(&leaf.certificate, rest, &name, &[], at)?;
        self.clients.verify_client_cert(&leaf.certificate, rest, at)?;
        Ok(())
    }

    /// Signs and verifies a certificate that is never handed out, so that an unusable authority is
    /// found before it is in use.
    fn self_test(&self) -> Result<(), AuthorityError> {
        let (leaf, _, at) = self.test_certificate()?;
        self.verify(&leaf, SELF_TEST_NAME, at).map_err(|error| self.not_trusted(&error))
    }

    /// Returns a certificate that is never handed out, its name, and a time at which it is valid.
    fn test_certificate(&self) -> Result<(Leaf, ServerName<'static>, UnixTime), AuthorityError> {
        let key = PublicKey { info: self.key_info()? };
        // The middle of its validity. Whether the authority is valid now is checked when it signs.
        let half = self
            .not_after
            .duration_since(self.not_before)
            .unwrap_or_default()
            .checked_div(2)
            .unwrap_or_default();
        let at = self.not_before.checked_add(half).unwrap_or(self.not_before);
        let leaf = self.issue(&key, SELF_TEST_NAME, self.not_before, self.not_after)?;
        let name = ServerName::try_from(SELF_TEST_NAME).map_err(|_| AuthorityError::Signing)?;
        Ok((leaf, name, unix(at)))
    }

    fn key_info(&self) -> Result<Vec<u8>, AuthorityError> {
        let key = self.key.public_key().ok_or(AuthorityError::Signing)?;
        Ok(key.as_ref().to_vec())
    }

    /// Error of an authority whose roots must not be published, because no trusted authority
    /// endorses them.
    pub(super) fn not_endorsed(&self) -> AuthorityError {
        AuthorityError::NotEndorsed { certificate: self.sources.certificate.clone() }
    }

    fn not_trusted(&self, error: &rustls::Error) -> AuthorityError {
        let PemSources { certificate, roots, .. } = self.sources.clone();
        AuthorityError::NotTrusted { certificate, roots, error: error.to_string() }
    }
}

/// A reserved name that no workload has (RFC 2606 section 2).
const SELF_TEST_NAME: &str = "rehearsal.invalid";

fn unix(at: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Signature schemes in order of preference; each key supports one of them.
const SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PKCS1_SHA256,
];

type Verifiers = (Arc<WebPkiServerVerifier>, Arc<dyn ClientCertVerifier>);

fn verifiers(roots: &[CertificateDer<'static>]) -> Result<Verifiers, String> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(|error| error.to_string())?;
    }
    let store = Arc::new(store);
    let servers = WebPkiServerVerifier::builder_with_provider(store.clone(), provider());
    let clients = WebPkiClientVerifier::builder_with_provider(store, provider());
    let words = |error: rustls::server::VerifierBuilderError| error.to_string();
    Ok((servers.build().map_err(words)?, clients.build().map_err(words)?))
}

/// Returns the expiry of the root that the chain ends at. Verifiers ignore it, but no certificate
/// should outlive it.
fn root_of(last: &Certificate<'_>, roots: &[CertificateDer<'static>]) -> Option<SystemTime> {
    let read = roots.iter().filter_map(|root| Certificate::read(root));
    read.filter(|root| root.subject == last.issuer).map(|root| root.not_after).max()
}

/// A self-signed authority generated here, PEM.
pub(super) struct GeneratedAuthority {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl GeneratedAuthority {
    /// Converts it to the form that a Secret holds.
    pub(super) fn into_pair(self) -> Pair {
        Pair { certificate: self.certificate.into_bytes(), key: self.key.into_bytes() }
    }
}

/// Generates an authority that is valid from `now` for `lifetime`.
pub(super) fn generate(
    trust_domain: &str,
    now: SystemTime,
    lifetime: Duration,
) -> Result<GeneratedAuthority, rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::default();
    // Authorities that replace each other are in one bundle. Distinct names make them easier to
    // tell from each other than keys alone.
    params.distinguished_name =
        common_name(&format!("identity.{trust_domain} {}", rfc3339_seconds(now)));
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    valid(&mut params, now, lifetime)?;
    let certificate = params.self_signed(&key)?;
    Ok(GeneratedAuthority { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;

//! The certificate authority in use: its own certificate, its key, and whom it leads to; and what it
//! signs.
//!
//! Certificates are put together here rather than by a library that makes the issuer's name anew from
//! its parts: a name that comes out written differently is another name to those who verify. What has
//! been signed is verified as a peer would before anybody gets it.

pub use super::authority_error::AuthorityError;
use super::certificate::{Fields, certificate};
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

/// What is left of an authority's life when it stops being of use: a shorter certificate would have
/// expired before it is in force.
const TOO_SHORT: Duration = Duration::from_secs(60);

/// For how long an authority vouches for roots at the most; usually its own end comes first.
pub(super) const FOREVER: Duration = Duration::from_secs(86_400 * 365 * 100);

/// How much earlier than now a proof of roots begins, for clocks that differ.
const BACKDATED: Duration = Duration::from_secs(3600);

/// Where the parts of an authority come from, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) roots: String,
}

/// For how long a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// From now on.
    pub lifetime: Duration,
    /// How far clocks may differ: so much earlier it begins, and so much later it ends.
    pub skew: Duration,
}

/// A certificate that was signed.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) serial: String,
    pub(super) not_after: SystemTime,
}

/// The authority in use.
pub(super) struct Authority {
    /// Its own certificate first, what leads to a root after it.
    chain: Vec<CertificateDer<'static>>,
    roots: Vec<CertificateDer<'static>>,
    /// As its certificate has it (RFC 5280 section 4.1.2.6), DER.
    subject: Vec<u8>,
    /// The content of its subjectKeyIdentifier.
    key_id: Option<Vec<u8>>,
    key: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
    begins: SystemTime,
    ends: SystemTime,
    places: Places,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads an authority, PEM. That it can sign what its roots vouch for has been tried.
    pub(super) fn read(
        places: Places,
        certificate: &[u8],
        key: &[u8],
        roots: &[u8],
    ) -> Result<Self, AuthorityError> {
        let text = |place: &str, message| AuthorityError::Text { place: place.to_owned(), message };
        let chain = certificates(certificate).map_err(|what| text(&places.certificate, what))?;
        let roots = certificates(roots).map_err(|what| text(&places.roots, what))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| text(&places.key, error.to_string()))?;
        let key = provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| text(&places.key, error.to_string()))?;
        let unreadable = || text(&places.certificate, "a certificate cannot be read".to_owned());
        let links: Option<Vec<_>> = chain.iter().map(|one| Certificate::read(one)).collect();
        let links = links.ok_or_else(unreadable)?;
        let (own, last) = links.first().zip(links.last()).ok_or_else(unreadable)?;
        if !own.is_authority() {
            return Err(AuthorityError::NotAnAuthority(places.certificate));
        }
        if key.public_key().is_none_or(|key| key.as_ref() != own.key) {
            let Places { key, certificate, .. } = places;
            return Err(AuthorityError::OtherKey { key, certificate });
        }
        let signer = key.choose_scheme(&SCHEMES);
        let scheme = signer.ok_or_else(|| AuthorityError::KeyKind(places.key.clone()))?.scheme();
        let begins = links.iter().map(|one| one.not_before).max().ok_or_else(unreadable)?;
        let ends = links.iter().map(|one| one.not_after).min().ok_or_else(unreadable)?;
        let ends = root_of(last, &roots).map_or(ends, |root| ends.min(root));
        let (servers, clients) =
            verifiers(&roots).map_err(|message| text(&places.roots, message))?;
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
            begins,
            ends,
            places,
        };
        authority.rehearse()?;
        Ok(authority)
    }

    /// When it came or comes into force.
    pub(super) fn begins(&self) -> SystemTime {
        self.begins
    }

    /// After when it signs nothing any more.
    pub(super) fn ends(&self) -> SystemTime {
        self.ends
    }

    /// The roots that were supplied with it.
    pub(super) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Its own certificate, DER.
    pub(super) fn certificate(&self) -> &[u8] {
        self.chain.first().map(AsRef::as_ref).unwrap_or_default()
    }

    /// Whether this is the same certificate under the same key.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.chain.first() == other.chain.first()
    }

    /// Whether what it signs leads to this root.
    pub(super) fn leads_to(&self, root: &CertificateDer<'static>) -> bool {
        let Ok((servers, _)) = verifiers(std::slice::from_ref(root)) else { return false };
        self.rehearsed().is_ok_and(|(leaf, name, at)| {
            let (rest, none) = (self.chain.as_slice(), &[]);
            servers.verify_server_cert(&leaf.certificate, rest, &name, none, at).is_ok()
        })
    }

    /// What leads from a certificate that it signed to a root, without the root, nearest first.
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
        let begins = now.checked_sub(lifetime.skew).unwrap_or(SystemTime::UNIX_EPOCH);
        let until = now.checked_add(lifetime.lifetime).and_then(|at| at.checked_add(lifetime.skew));
        let not_after = until.unwrap_or(self.ends).min(self.ends);
        let left = not_after.duration_since(now).unwrap_or_default();
        if self.begins > now || left < TOO_SHORT {
            let [begins, ends, now] = [self.begins, self.ends, now].map(timestamp);
            return Err(AuthorityError::Time { begins, ends, now });
        }
        let leaf = self.signed(key, identity, begins.max(self.begins), not_after)?;
        self.verify(&leaf, identity, unix(now)).map_err(|error| self.not_trusted(&error))?;
        Ok(leaf)
    }

    /// Vouches for roots: whoever trusts this authority trusts them from now on, for as long as it is
    /// valid itself. The key of the proof is forgotten at once.
    pub(super) fn vouch(
        &self,
        serial: u64,
        roots: Vec<CertificateDer<'static>>,
        now: SystemTime,
    ) -> Result<Statement, AuthorityError> {
        let key = rcgen::KeyPair::generate().map_err(|_| AuthorityError::Signing)?;
        let key = PublicKey { info: key.subject_public_key_info() };
        let forever = Lifetime { lifetime: FOREVER, skew: BACKDATED };
        let leaf = self.sign(&key, &proof_name(serial, &roots), forever, now)?;
        let proof = std::iter::once(leaf.certificate).chain(self.intermediates().cloned());
        Ok(Statement::new(serial, roots, proof.collect()))
    }

    fn signed(
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
        let fields = Fields {
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

    /// Signs what nobody gets, so that an authority that cannot is found before it is in use.
    fn rehearse(&self) -> Result<(), AuthorityError> {
        let (leaf, _, at) = self.rehearsed()?;
        self.verify(&leaf, REHEARSAL, at).map_err(|error| self.not_trusted(&error))
    }

    /// A certificate that nobody gets, its name, and a time at which it is valid.
    fn rehearsed(&self) -> Result<(Leaf, ServerName<'static>, UnixTime), AuthorityError> {
        let key = PublicKey { info: self.key_info()? };
        // In the middle of its life: whether it is valid now is looked at when it signs.
        let half = self
            .ends
            .duration_since(self.begins)
            .unwrap_or_default()
            .checked_div(2)
            .unwrap_or_default();
        let at = self.begins.checked_add(half).unwrap_or(self.begins);
        let leaf = self.signed(&key, REHEARSAL, self.begins, self.ends)?;
        let name = ServerName::try_from(REHEARSAL).map_err(|_| AuthorityError::Signing)?;
        Ok((leaf, name, unix(at)))
    }

    fn key_info(&self) -> Result<Vec<u8>, AuthorityError> {
        let key = self.key.public_key().ok_or(AuthorityError::Signing)?;
        Ok(key.as_ref().to_vec())
    }

    /// Why what this authority says is not to be published.
    pub(super) fn unvouched(&self) -> AuthorityError {
        AuthorityError::Unvouched { certificate: self.places.certificate.clone() }
    }

    fn not_trusted(&self, error: &rustls::Error) -> AuthorityError {
        let Places { certificate, roots, .. } = self.places.clone();
        AuthorityError::NotTrusted { certificate, roots, error: error.to_string() }
    }
}

/// Nobody has this name (RFC 2606 section 2).
const REHEARSAL: &str = "rehearsal.invalid";

fn unix(at: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// In the order of preference; each key fits one.
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

/// The end of the root that the chain leads to. Verifiers do not look at it; what is signed should
/// not outlive it all the same.
fn root_of(last: &Certificate<'_>, roots: &[CertificateDer<'static>]) -> Option<SystemTime> {
    let read = roots.iter().filter_map(|root| Certificate::read(root));
    read.filter(|root| root.subject == last.issuer).map(|root| root.not_after).max()
}

/// An authority made here, PEM: it is its own root.
pub(super) struct Made {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Made {
    /// The same as a Secret holds it.
    pub(super) fn pair(self) -> Pair {
        Pair { certificate: self.certificate.into_bytes(), key: self.key.into_bytes() }
    }
}

/// Makes an authority that is valid from `now` for `lifetime`.
pub(super) fn make(
    trust_domain: &str,
    now: SystemTime,
    lifetime: Duration,
) -> Result<Made, rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::default();
    // Authorities that replace each other are in one bundle. Told apart by their names as well as by
    // their keys they are easier to look at.
    params.distinguished_name =
        common_name(&format!("identity.{trust_domain} {}", rfc3339_seconds(now)));
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    valid(&mut params, now, lifetime)?;
    let certificate = params.self_signed(&key)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;

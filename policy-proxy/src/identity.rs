//! Mesh identity: our own certificate, whom we trust, and what a client's certificate proves.
//!
//! An [`IdentitySource`] keeps an [`IdentityHandle`] current from files, from an issuer (Linkerd's
//! Certify) or from SPIFFE's Workload API, and says how it is doing ([`IdentityStatus`]).
//!
//! TLS 1.3 only, no resumption (a ticket would outlive a revoked root). Client certificates are asked
//! for but optional; one that is presented must chain to the roots and allow clientAuth. Of its names,
//! exactly one `spiffe://` URI decides; without any, exactly one DNS name; anything else proves nothing.

use arc_swap::{ArcSwapOption, Guard};
use policy_core::Identity;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientCertVerifierBuilder, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

mod certify;
mod der;
mod files;
mod handshake;
mod proof;
mod request;
mod roots;
mod source;
mod state;
mod verify;
mod workload_api;

pub use certify::CertifyConfig;
pub use der::validity;
pub use files::IdentityFiles;
pub use handshake::HandshakeFailure;
pub use proof::Proof;
pub use request::KeyAndRequest;
pub use roots::Roots;
pub use source::{IdentityConfig, IdentitySource, SourceError};
pub use state::{CertificateState, Failure, FailureKind, IdentityState, IdentityStatus};
pub use workload_api::{AgentAddress, SpiffeConfig};

pub(crate) use proof::{Judge, Stale};

/// What a workload proves its identity with, and whom it trusts.
#[derive(Debug)]
pub struct Credentials {
    /// The name that clients put into SNI for us, a DNS name.
    pub server_name: Arc<str>,
    /// The roots of the mesh, DER.
    pub roots: Vec<CertificateDer<'static>>,
    /// Our certificate, leaf first, DER.
    pub chain: Vec<CertificateDer<'static>>,
    /// The leaf's private key.
    pub key: PrivateKeyDer<'static>,
}

/// Credentials ready for use in handshakes. Replaced as a whole when they are renewed.
#[derive(Debug)]
pub struct TlsIdentity {
    server_name: Arc<str>,
    name: Option<Identity>,
    trust_domain: Option<Arc<str>>,
    server: Arc<ServerConfig>,
    direct: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    root_certificates: Vec<CertificateDer<'static>>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// How often roots were taken out before this was put in force.
    removals: u64,
}

/// Where the identity in force is found; empty until the first certificate arrives. Handshakes in
/// progress and open connections keep what they began with, save for clients that only a root vouches
/// for that was taken out meanwhile.
#[derive(Clone, Debug, Default)]
pub struct IdentityHandle(Arc<Held>);

#[derive(Debug, Default)]
struct Held {
    current: ArcSwapOption<TlsIdentity>,
    /// The last one there was, for its roots.
    last: ArcSwapOption<TlsIdentity>,
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No root, or one that is not a certificate.
    #[error("trust roots: {0}")]
    Roots(String),
    /// The name for SNI is not a DNS name.
    #[error("server name `{0}` is not a DNS name")]
    ServerName(Arc<str>),
    /// Certificate and key do not fit, or neither is usable.
    #[error("certificate: {0}")]
    Certificate(#[from] rustls::Error),
}

impl TlsIdentity {
    /// Checks the credentials and prepares handshakes. Expiry is not checked here; peers do that.
    ///
    /// # Errors
    /// [`IdentityError`] names the part that is not usable.
    pub fn new(credentials: Credentials) -> Result<Self, IdentityError> {
        Self::of_domain(credentials, None)
    }

    /// As [`TlsIdentity::new`], with roots that vouch for SPIFFE identities of one trust domain alone:
    /// a client that proves one of another is refused in the handshake (SPIFFE Workload API section
    /// 4.6). DNS identities are not concerned.
    ///
    /// # Errors
    /// [`IdentityError`] names the part that is not usable.
    pub fn of_domain(
        credentials: Credentials,
        trust_domain: Option<Arc<str>>,
    ) -> Result<Self, IdentityError> {
        let Credentials { server_name, roots, chain, key } = credentials;
        if !is_dns_name(&server_name) {
            return Err(IdentityError::ServerName(server_name));
        }
        let server_name: Arc<str> = server_name.to_ascii_lowercase().into();
        let root_certificates = roots.clone();
        let roots = root_store(roots)?;
        let clients = |builder: ClientCertVerifierBuilder| {
            let chain = builder.build().map_err(|error| IdentityError::Roots(error.to_string()))?;
            Ok::<Arc<dyn ClientCertVerifier>, IdentityError>(match &trust_domain {
                None => chain,
                Some(domain) => Arc::new(verify::OfDomain::new(chain, domain)),
            })
        };
        let builder = || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
        let server = server_config(clients(builder().allow_unauthenticated())?, &chain, &key)?;
        let clients = clients(builder())?;
        let mut direct = server_config(Arc::clone(&clients), &chain, &key)?;
        direct.alpn_protocols = vec![DIRECT_ALPN.to_vec()];
        let name = chain.first().and_then(identity_of);
        let (server, direct) = (Arc::new(server), Arc::new(direct));
        Ok(Self {
            server_name,
            name,
            trust_domain,
            server,
            direct,
            clients,
            roots,
            root_certificates,
            chain,
            key,
            removals: 0,
        })
    }

    /// The same certificate and key under other roots.
    ///
    /// # Errors
    /// [`IdentityError`] if the roots are not usable.
    pub fn with_roots(&self, roots: Vec<CertificateDer<'static>>) -> Result<Self, IdentityError> {
        let (chain, key) = (self.chain.clone(), self.key.clone_key());
        let server_name = Arc::clone(&self.server_name);
        let credentials = Credentials { server_name, roots, chain, key };
        Self::of_domain(credentials, self.trust_domain.clone())
    }

    /// Whether others of the mesh would accept our certificate at this time, in both roles.
    ///
    /// # Errors
    /// What they would find wrong with it.
    pub fn verify(&self, at: SystemTime) -> Result<(), String> {
        let (leaf, others) = self.chain.split_first().ok_or("there is no certificate")?;
        verify_chain(leaf, others, &self.roots, at)
    }

    /// Whether a client that proves itself with this chain is let in at this time.
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'_>], at: SystemTime) -> bool {
        let Some((leaf, others)) = chain.split_first() else { return false };
        let Ok(since) = at.duration_since(UNIX_EPOCH) else { return false };
        let now = UnixTime::since_unix_epoch(since);
        self.clients.verify_client_cert(leaf, others, now).is_ok()
    }

    /// How often roots were taken out before this was put in force.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// The times before and after which our own certificate is not valid; `None` if there is no
    /// reading it.
    pub fn validity(&self) -> Option<(SystemTime, SystemTime)> {
        validity(self.chain.first()?)
    }

    /// The roots of the mesh, DER.
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.root_certificates
    }

    /// Our certificate, leaf first, DER.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The name that clients put into SNI for us, lower-case.
    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// The identity that our own certificate proves, if it proves one.
    pub fn name(&self) -> Option<&Identity> {
        self.name.as_ref()
    }

    /// Handshakes as a server.
    pub fn server(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Handshakes as a server on the direct path: a client without a certificate fails, and one that
    /// negotiates an application protocol negotiates [`DIRECT_ALPN`].
    pub fn direct(&self) -> &Arc<ServerConfig> {
        &self.direct
    }

    /// Handshakes as a client that presents this identity and accepts only `expected` on the other
    /// side.
    ///
    /// # Errors
    /// [`IdentityError::Certificate`] if certificate and key do not fit.
    pub fn client(&self, expected: Identity) -> Result<ClientConfig, IdentityError> {
        Ok(client_builder(self.roots.clone(), expected)?
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map(without_resumption)?)
    }
}

impl IdentityHandle {
    /// No identity yet: every connection is treated as plaintext or as TLS for somebody else.
    pub fn empty() -> Self {
        Self::default()
    }

    /// This identity.
    pub fn new(identity: TlsIdentity) -> Self {
        let handle = Self::default();
        handle.replace(identity);
        handle
    }

    /// Puts a new identity in force for handshakes that begin from now on.
    pub fn replace(&self, mut identity: TlsIdentity) {
        let removals = self.0.last.load().as_ref().map_or(0, |last| {
            let missing = |root: &CertificateDer<'_>| !identity.root_certificates.contains(root);
            last.removals.saturating_add(u64::from(last.root_certificates.iter().any(missing)))
        });
        identity.removals = removals;
        let identity = Arc::new(identity);
        self.0.last.store(Some(Arc::clone(&identity)));
        self.0.current.store(Some(identity));
    }

    /// Takes the identity back: there is none until the next.
    pub fn clear(&self) {
        self.0.current.store(None);
    }

    /// The identity in force.
    pub fn current(&self) -> Guard<Option<Arc<TlsIdentity>>> {
        self.0.current.load()
    }
}

/// Handshakes as a client without an identity, which accepts only `expected` on the other side.
///
/// # Errors
/// [`IdentityError::Roots`] if there is no usable root.
pub fn anonymous_client(
    roots: Vec<CertificateDer<'static>>,
    expected: Identity,
) -> Result<ClientConfig, IdentityError> {
    let roots = root_store(roots)?;
    Ok(without_resumption(client_builder(roots, expected)?.with_no_client_auth()))
}

/// The identity a certificate proves once its chain has been verified: exactly one `spiffe://` URI
/// decides, DNS names beside it are ignored; without any, exactly one DNS name; else none.
pub fn identity_of(leaf: &CertificateDer<'_>) -> Option<Identity> {
    let certificate = webpki::EndEntityCert::try_from(leaf).ok()?;
    let mut spiffe = certificate.valid_uri_names().filter(|uri| is_spiffe(uri));
    match (spiffe.next(), spiffe.next()) {
        (Some(uri), None) => return well_formed_spiffe(uri).then(|| Identity::Spiffe(uri.into())),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let mut dns = certificate.valid_dns_names();
    match (dns.next(), dns.next()) {
        (Some(name), None) if !name.contains('*') => {
            Some(Identity::Dns(name.to_ascii_lowercase().into()))
        }
        (Some(_), _) | (None, _) => None,
    }
}

/// Every certificate of a PEM text, of which there must be one.
///
/// # Errors
/// What is wrong with the text, in words that do not name it.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match list {
        Ok(list) if list.is_empty() => Err("holds no certificate".to_owned()),
        Ok(list) => Ok(list),
        Err(error) => Err(error.to_string()),
    }
}

/// The cryptography in use everywhere here: aws-lc-rs.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Whether this can be asked for in SNI.
pub fn is_dns_name(text: &str) -> bool {
    matches!(ServerName::try_from(text), Ok(ServerName::DnsName(_)))
}

/// Whether this is a SPIFFE ID as its specification has them.
pub fn is_spiffe_id(text: &str) -> bool {
    well_formed_spiffe(text)
}

/// A URI's scheme is case-insensitive (RFC 3986 section 3.1), so that every spelling counts as one.
fn is_spiffe(uri: &str) -> bool {
    uri.get(..SPIFFE.len()).is_some_and(|head| head.eq_ignore_ascii_case(SPIFFE))
}

/// SPIFFE ID section 2: lower-case trust domain, then segments of `[a-zA-Z0-9._-]`, none of them
/// empty, `.` or `..`; at most 2048 bytes.
fn well_formed_spiffe(uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix(SPIFFE) else { return false };
    let mut parts = rest.split('/');
    let domain = parts.next().unwrap_or_default();
    let in_domain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    uri.len() <= 2048
        && !domain.is_empty()
        && domain.bytes().all(in_domain)
        && parts.all(|p| !p.is_empty() && p != "." && p != ".." && p.bytes().all(in_path))
}

/// Whether this chain reaches one of the roots at this time, for a server and for a client alike.
fn verify_chain(
    leaf: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    roots: &RootCertStore,
    at: SystemTime,
) -> Result<(), String> {
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| "the clock shows a time before 1970")?;
    let certificate = webpki::EndEntityCert::try_from(leaf)
        .map_err(|error| format!("the certificate cannot be read: {error}"))?;
    let algorithms = provider().signature_verification_algorithms;
    let roles =
        [("server", webpki::KeyUsage::server_auth()), ("client", webpki::KeyUsage::client_auth())];
    for (role, usage) in roles {
        let now = UnixTime::since_unix_epoch(since);
        certificate
            .verify_for_usage(algorithms.all, &roots.roots, others, now, usage, None, None)
            .map_err(|error| format!("the certificate does not verify as a {role}'s: {error}"))?;
    }
    Ok(())
}

fn root_store(roots: Vec<CertificateDer<'static>>) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root).map_err(|error| IdentityError::Roots(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(IdentityError::Roots("there are none".to_owned()));
    }
    Ok(Arc::new(store))
}

fn server_config(
    clients: Arc<dyn ClientCertVerifier>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ServerConfig, IdentityError> {
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.to_vec(), key.clone_key())?;
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(server)
}

fn client_builder(
    roots: Arc<RootCertStore>,
    expected: Identity,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, IdentityError> {
    let verifier: Arc<dyn ServerCertVerifier> =
        Arc::new(verify::ExpectIdentity::new(roots, expected, provider()));
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

fn without_resumption(mut config: ClientConfig) -> ClientConfig {
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// What a meshed client that connects to the sidecar's own port negotiates in TLS (proxy-semantics
/// 1.6).
pub const DIRECT_ALPN: &[u8] = b"transport.l5d.io/v1";
const SPIFFE: &str = "spiffe://";

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SanType};

    fn leaf(names: &[SanType]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    fn uri(name: &str) -> SanType {
        SanType::URI(name.try_into().unwrap())
    }

    #[track_caller]
    fn check(names: &[SanType], want: Option<&str>) {
        let identity = identity_of(&leaf(names));
        assert_eq!(identity.as_ref().map(Identity::as_str), want);
    }

    #[test]
    fn one_dns_name_is_the_identity_in_lower_case() {
        check(&[dns("Web.NS.example")], Some("web.ns.example"));
    }

    #[test]
    fn one_spiffe_uri_decides_and_dns_names_beside_it_are_ignored() {
        check(&[dns("a.example"), uri("spiffe://td/ns/x/sa/y")], Some("spiffe://td/ns/x/sa/y"));
        check(&[uri("spiffe://td/a"), dns("a.example"), dns("b.example")], Some("spiffe://td/a"));
    }

    #[test]
    fn several_names_prove_nothing() {
        check(&[dns("a.example"), dns("b.example")], None);
        check(&[uri("spiffe://td/a"), uri("spiffe://td/b")], None);
        check(&[uri("spiffe://td/a"), uri("SPIFFE://td/b"), dns("a.example")], None);
    }

    #[test]
    fn no_name_a_wildcard_and_a_malformed_uri_prove_nothing() {
        check(&[], None);
        check(&[SanType::IpAddress("10.0.0.1".parse().unwrap())], None);
        check(&[dns("*.ns.example")], None);
        check(&[uri("spiffe://td/../a"), dns("a.example")], None);
        check(&[uri("spiffe:///a")], None);
        check(&[uri("spiffe://td/a?x")], None);
    }

    #[test]
    fn another_uri_beside_one_dns_name_is_ignored() {
        check(&[uri("https://td/a"), dns("a.example")], Some("a.example"));
    }
}

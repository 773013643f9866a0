//! Credentials and the TLS configurations built from them.

use super::error::IdentityError;
use super::name::{identity_of, is_dns_name};
use super::provider::provider;
use super::verify::{IdentityVerifier, TrustDomainVerifier};
use crate::x509::validity;
use policy_core::Identity;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientCertVerifierBuilder, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Certificate, key and roots of a workload.
#[derive(Debug)]
pub struct Credentials {
    /// The DNS name that clients send as SNI.
    pub server_name: Arc<str>,
    /// Returns the roots of the mesh, DER.
    pub roots: Vec<CertificateDer<'static>>,
    /// Returns our certificate, leaf first, DER.
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
    /// Number of removals of roots before this was put in force.
    removals: u64,
}

impl TlsIdentity {
    /// Checks the credentials and builds the TLS configurations. Expiry is not checked here; peers
    /// check it.
    ///
    /// # Errors
    /// [`IdentityError`] names the part that is not usable.
    pub fn new(credentials: Credentials) -> Result<Self, IdentityError> {
        Self::with_trust_domain(credentials, None)
    }

    /// As [`TlsIdentity::new`], with roots that are trusted for SPIFFE identities of one trust
    /// domain only: a client of another one is rejected in the handshake (SPIFFE Workload API,
    /// section 4.6). DNS identities are not affected.
    ///
    /// # Errors
    /// [`IdentityError`] names the part that is not usable.
    pub fn with_trust_domain(
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
                Some(domain) => Arc::new(TrustDomainVerifier::new(chain, domain)),
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

    /// Returns the same certificate and key with other roots.
    ///
    /// # Errors
    /// [`IdentityError`] if the roots are not usable.
    pub fn with_roots(&self, roots: Vec<CertificateDer<'static>>) -> Result<Self, IdentityError> {
        let (chain, key) = (self.chain.clone(), self.key.clone_key());
        let server_name = Arc::clone(&self.server_name);
        let credentials = Credentials { server_name, roots, chain, key };
        Self::with_trust_domain(credentials, self.trust_domain.clone())
    }

    /// Verifies our certificate as other members of the mesh do at this time, in both roles.
    ///
    /// # Errors
    /// The reason why they would reject it.
    pub fn verify(&self, at: SystemTime) -> Result<(), String> {
        let (leaf, others) = self.chain.split_first().ok_or("there is no certificate")?;
        verify_chain(leaf, others, &self.roots, at)
    }

    /// Returns true if a client with this chain is accepted at this time.
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'_>], at: SystemTime) -> bool {
        let Some((leaf, others)) = chain.split_first() else { return false };
        let Ok(since) = at.duration_since(UNIX_EPOCH) else { return false };
        let now = UnixTime::since_unix_epoch(since);
        self.clients.verify_client_cert(leaf, others, now).is_ok()
    }

    /// Returns true if a server with this chain is accepted at this time, whatever its identity.
    pub(crate) fn accepts_server(&self, chain: &[CertificateDer<'_>], at: SystemTime) -> bool {
        let Some((leaf, others)) = chain.split_first() else { return false };
        verify_as(leaf, others, &self.roots, at, webpki::KeyUsage::server_auth()).is_ok()
    }

    pub(super) fn set_removals(&mut self, removals: u64) {
        self.removals = removals;
    }

    /// Returns the number of removals of roots before this was put in force.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// Returns the validity of our own certificate; `None` if it cannot be read.
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

    /// Returns the name that clients send as SNI, in lower case.
    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// Returns the identity that our own certificate proves, if any.
    pub fn name(&self) -> Option<&Identity> {
        self.name.as_ref()
    }

    /// Returns the server configuration.
    pub fn server(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Returns the server configuration of the direct path: client certificates are required, and a
    /// client that negotiates ALPN negotiates [`DIRECT_ALPN`].
    pub fn direct(&self) -> &Arc<ServerConfig> {
        &self.direct
    }

    /// Returns a client configuration that presents this identity and accepts only `expected`.
    ///
    /// # Errors
    /// [`IdentityError::Certificate`] if certificate and key do not match.
    pub fn client(&self, expected: Identity) -> Result<ClientConfig, IdentityError> {
        Ok(client_builder(self.roots.clone(), expected)?
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map(without_resumption)?)
    }
}

/// Returns a client configuration without an identity, which accepts only `expected`.
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

/// Verifies that this chain reaches one of the roots at this time, as a server and as a client.
pub(super) fn verify_chain(
    leaf: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    roots: &RootCertStore,
    at: SystemTime,
) -> Result<(), String> {
    let roles =
        [("server", webpki::KeyUsage::server_auth()), ("client", webpki::KeyUsage::client_auth())];
    for (role, usage) in roles {
        verify_as(leaf, others, roots, at, usage).map_err(|error| match error {
            UsageError::Clock => "the clock shows a time before 1970".to_owned(),
            UsageError::Unreadable(error) => format!("the certificate cannot be read: {error}"),
            UsageError::Invalid(error) => {
                format!("the certificate does not verify as a {role}'s: {error}")
            }
        })?;
    }
    Ok(())
}

/// The reasons for which a chain does not verify.
enum UsageError {
    Clock,
    Unreadable(webpki::Error),
    Invalid(webpki::Error),
}

/// Verifies that this chain reaches one of the roots at this time, for one usage.
fn verify_as(
    leaf: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    roots: &RootCertStore,
    at: SystemTime,
    usage: webpki::KeyUsage,
) -> Result<(), UsageError> {
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| UsageError::Clock)?;
    let certificate = webpki::EndEntityCert::try_from(leaf).map_err(UsageError::Unreadable)?;
    let (all, now) =
        (provider().signature_verification_algorithms.all, UnixTime::since_unix_epoch(since));
    certificate
        .verify_for_usage(all, &roots.roots, others, now, usage, None, None)
        .map(drop)
        .map_err(UsageError::Invalid)
}

/// Creates a store of these roots. At least one is required.
pub(super) fn root_store(
    roots: Vec<CertificateDer<'static>>,
) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root).map_err(|error| IdentityError::Roots(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(IdentityError::Roots("no certificates".to_owned()));
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
        Arc::new(IdentityVerifier::new(roots, expected, provider()));
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

fn without_resumption(mut config: ClientConfig) -> ClientConfig {
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// ALPN protocol of meshed clients that connect to the sidecar's own port (docs/spec/proxy.md 1.6).
pub const DIRECT_ALPN: &[u8] = b"transport.l5d.io/v1";

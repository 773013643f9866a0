//! Credentials, and the handshakes they are good for.

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

impl TlsIdentity {
    /// Checks the credentials and prepares handshakes. Expiry is not checked here; peers do that.
    ///
    /// # Errors
    /// [`IdentityError`] names the part that is not usable.
    pub fn new(credentials: Credentials) -> Result<Self, IdentityError> {
        Self::with_trust_domain(credentials, None)
    }

    /// As [`TlsIdentity::new`], with roots that vouch for SPIFFE identities of one trust domain alone:
    /// a client that proves one of another is refused in the handshake (SPIFFE Workload API section
    /// 4.6). DNS identities are not concerned.
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

    /// The same certificate and key under other roots.
    ///
    /// # Errors
    /// [`IdentityError`] if the roots are not usable.
    pub fn with_roots(&self, roots: Vec<CertificateDer<'static>>) -> Result<Self, IdentityError> {
        let (chain, key) = (self.chain.clone(), self.key.clone_key());
        let server_name = Arc::clone(&self.server_name);
        let credentials = Credentials { server_name, roots, chain, key };
        Self::with_trust_domain(credentials, self.trust_domain.clone())
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

    pub(super) fn set_removals(&mut self, removals: u64) {
        self.removals = removals;
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

/// Whether this chain reaches one of the roots at this time, for a server and for a client alike.
pub(super) fn verify_chain(
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

/// A store of these roots, of which there has to be one.
pub(super) fn root_store(
    roots: Vec<CertificateDer<'static>>,
) -> Result<Arc<RootCertStore>, IdentityError> {
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

/// What a meshed client that connects to the sidecar's own port negotiates in TLS (proxy-semantics
/// 1.6).
pub const DIRECT_ALPN: &[u8] = b"transport.l5d.io/v1";

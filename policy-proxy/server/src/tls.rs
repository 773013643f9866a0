//! Mutual TLS of a port: credentials, from files or set by an identity source.
//!
//! TLS 1.3 only, no resumption, optional client certificates (see [`policy_tls::identity`]): a
//! client without one may still send a token. Changed files take effect for new handshakes; open
//! connections continue, unless the only root that their client chains to was removed
//! ([`TlsHandle::lost`]). Unusable files change nothing.

use super::tls_metrics::{Handshake, TlsMetrics};
use policy_core::Identity;
use policy_tls::identity::{
    self, Credentials, HandshakeFailure, IdentityError, IdentityHandle, Proof, ProofError,
    ProofVerifier, TlsIdentity, identity_of,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;

/// Interval of the check for changed files. Kubernetes replaces mounted files within about a
/// minute; certificates are renewed hours before they expire.
const INTERVAL: Duration = Duration::from_secs(10);

/// The PEM files of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our private key.
    pub key: PathBuf,
    /// Our certificate, leaf first.
    pub certs: PathBuf,
    /// The roots that clients' certificates have to chain to.
    pub roots: PathBuf,
}

/// Error of credentials.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file is malformed.
    #[error("`{}`: {message}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The error.
        message: String,
    },
    /// The parts do not match.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The credentials in force; clones share them.
#[derive(Clone, Debug)]
pub struct TlsHandle {
    /// `None` if [`TlsHandle::put`] sets the credentials.
    files: Option<Arc<TlsFiles>>,
    /// `None` until credentials are set.
    credentials: Arc<watch::Sender<Option<Arc<ServerCredentials>>>>,
    /// The identities read from the files: counts removals of roots.
    read: IdentityHandle,
    metrics: TlsMetrics,
}

/// Credentials ready for handshakes.
#[derive(Debug)]
pub(super) struct ServerCredentials {
    /// The contents of the files, if there are files.
    pem: Option<FileContents>,
    identity: Arc<TlsIdentity>,
    server: Arc<ServerConfig>,
    expires: Option<SystemTime>,
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct FileContents {
    key: Vec<u8>,
    certs: Vec<u8>,
    roots: Vec<u8>,
}

/// Contents of the files, the identity parsed from them, and its expiry.
type ParsedFiles = (FileContents, TlsIdentity, Option<SystemTime>);

impl std::fmt::Debug for FileContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContents").finish_non_exhaustive()
    }
}

/// A connection after its TLS handshake.
pub(super) struct TlsConnection<S> {
    /// The TLS stream.
    pub stream: TlsStream<S>,
    /// The identity that the client's certificate proves.
    pub identity: Option<Identity>,
    /// Time when the client's certificate expires.
    pub expires: Option<SystemTime>,
    /// The proof of the identity.
    pub proof: Option<Arc<Proof>>,
}

impl TlsHandle {
    /// Reads the files; counts in `metrics`.
    ///
    /// # Errors
    /// [`TlsError`] names the file that is missing or unusable.
    pub async fn load(files: TlsFiles, metrics: &TlsMetrics) -> Result<Self, TlsError> {
        let credentials = files.parse(files.read().await?)?;
        let handle = Self { files: Some(Arc::new(files)), ..Self::empty(metrics) };
        handle.use_files(credentials);
        Ok(handle)
    }

    /// Creates a handle without credentials: handshakes fail until they are set.
    pub fn empty(metrics: &TlsMetrics) -> Self {
        let credentials = Arc::new(watch::Sender::new(None));
        Self { files: None, credentials, read: IdentityHandle::empty(), metrics: metrics.clone() }
    }

    /// Sets the credentials of future handshakes.
    pub fn put(&self, identity: Arc<TlsIdentity>, expires: Option<SystemTime>) {
        self.publish(ServerCredentials::new(identity, expires));
    }

    fn use_files(&self, (pem, identity, expires): ParsedFiles) {
        self.read.replace(identity);
        if let Some(identity) = self.read.current().clone() {
            let credentials = ServerCredentials::new(identity, expires);
            self.publish(ServerCredentials { pem: Some(pem), ..credentials });
        }
    }

    /// Waits until none of the trusted roots verifies a client's proof. Its expiry is in
    /// `Accepted::expires`.
    pub async fn lost(&self, proof: &Proof) {
        let mut credentials = self.credentials.subscribe();
        loop {
            let own = credentials
                .borrow_and_update()
                .as_ref()
                .map(|credentials| credentials.identity.clone());
            if ProofVerifier::new(own).stale(proof) == Some(ProofError::Untrusted) {
                return;
            }
            if credentials.changed().await.is_err() {
                // The credentials can no longer change.
                return std::future::pending().await;
            }
        }
    }

    fn publish(&self, credentials: ServerCredentials) {
        self.metrics.expires(credentials.expires);
        self.credentials.send_replace(Some(Arc::new(credentials)));
    }

    pub(super) fn current(&self) -> Option<Arc<ServerCredentials>> {
        self.credentials.borrow().clone()
    }

    /// Returns the identity that our own certificate proves.
    pub fn identity(&self) -> Option<Identity> {
        self.current()?.identity.name().cloned()
    }

    /// Returns the roots that clients' certificates have to chain to; `None` without credentials.
    pub fn roots(&self) -> Option<Vec<CertificateDer<'static>>> {
        Some(self.current()?.identity.roots().to_vec())
    }

    /// Returns a client configuration for connections to another replica: it presents our identity
    /// and accepts only the same identity. `None`: our certificate proves no identity, or there is
    /// none yet.
    ///
    /// # Errors
    /// [`IdentityError`] if certificate and key do not match, which loading has ruled out.
    pub fn client(&self) -> Result<Option<ClientConfig>, IdentityError> {
        let Some(own) = self.identity() else { return Ok(None) };
        let Some(mut config) = self.client_of(own)? else { return Ok(None) };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Some(config))
    }

    /// Returns a client configuration that presents our identity and accepts only `expected`.
    /// `None`: there is no certificate yet.
    ///
    /// # Errors
    /// [`IdentityError`] if certificate and key do not match, which loading has ruled out.
    pub fn client_of(&self, expected: Identity) -> Result<Option<ClientConfig>, IdentityError> {
        self.current().map(|credentials| credentials.identity.client(expected)).transpose()
    }

    /// Puts changed files in force, until it is dropped. Without files it does nothing.
    pub async fn follow(self) {
        self.follow_every(INTERVAL).await;
    }

    /// As [`Self::follow`], with this interval.
    pub async fn follow_every(self, interval: Duration) {
        let Some(files) = self.files.clone() else { return std::future::pending().await };
        let in_force = || self.current().and_then(|credentials| credentials.pem.clone());
        let mut seen = in_force();
        loop {
            tokio::time::sleep(interval).await;
            let pem = match files.read().await {
                Ok(pem) if seen.as_ref() == Some(&pem) => continue,
                Ok(pem) => pem,
                Err(error) => {
                    if seen.take().is_some() {
                        self.metrics.reloaded("failed");
                        tracing::warn!(%error, "cannot read certificate files, keeping the current certificate");
                    }
                    continue;
                }
            };
            seen = Some(pem.clone());
            if in_force().as_ref() == Some(&pem) {
                continue;
            }
            match files.parse(pem) {
                Ok(read) => {
                    self.use_files(read);
                    self.metrics.reloaded("renewed");
                    tracing::info!("certificate of the gRPC port renewed");
                }
                Err(error) => {
                    self.metrics.reloaded("failed");
                    tracing::warn!(%error, "invalid certificate files, keeping the current certificate");
                }
            }
        }
    }

    /// Counts a handshake with these credentials, and reads what the client proved.
    ///
    /// # Errors
    /// The handshake's, or the client's certificate cannot be read.
    pub(super) fn counted<S>(
        &self,
        credentials: &ServerCredentials,
        accepted: io::Result<TlsStream<S>>,
    ) -> io::Result<TlsConnection<S>> {
        let connection = match accepted {
            Ok(stream) => credentials.connection(stream),
            Err(error) => {
                self.metrics.handshake(failure(&error));
                return Err(error);
            }
        };
        if connection.has_certificate() && connection.expires.is_none() {
            // It was valid during the handshake, but its expiry is unknown.
            self.metrics.handshake(Handshake::Failed);
            return Err(io::Error::other("the client certificate's validity cannot be read"));
        }
        self.metrics.handshake(match connection.identity {
            Some(_) => Handshake::Identity,
            None => Handshake::Anonymous,
        });
        Ok(connection)
    }
}

impl<S> TlsConnection<S> {
    fn has_certificate(&self) -> bool {
        self.stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty())
    }
}

/// Returns the error of handshakes before there is a certificate.
pub(super) fn no_certificate() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "there is no certificate yet")
}

impl ServerCredentials {
    fn new(identity: Arc<TlsIdentity>, expires: Option<SystemTime>) -> Self {
        let mut server = ServerConfig::clone(identity.server());
        server.alpn_protocols = vec![ALPN.to_vec()];
        Self { pem: None, identity, server: Arc::new(server), expires }
    }

    /// Returns the configuration of ports that speak HTTP/2 alone.
    pub(super) fn http2(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Returns the configuration of ports without ALPN.
    pub(super) fn any(&self) -> &Arc<ServerConfig> {
        self.identity.server()
    }

    /// Returns what the client of a handshake with these credentials proved.
    pub(super) fn connection<S>(&self, stream: TlsStream<S>) -> TlsConnection<S> {
        let chain = stream.get_ref().1.peer_certificates();
        let leaf = chain.and_then(<[_]>::first);
        let identity = leaf.and_then(|leaf| identity_of(leaf));
        let proof = identity.as_ref().and_then(|_| Proof::of(&self.identity, chain));
        let expires = leaf.and_then(|leaf| not_after(leaf));
        TlsConnection { stream, identity, expires, proof }
    }
}

impl TlsFiles {
    async fn read(&self) -> Result<FileContents, TlsError> {
        Ok(FileContents {
            key: contents(&self.key).await?,
            certs: contents(&self.certs).await?,
            roots: contents(&self.roots).await?,
        })
    }

    fn parse(&self, pem: FileContents) -> Result<ParsedFiles, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|error| TlsError::Pem {
            path: self.key.clone(),
            message: error.to_string(),
        })?;
        let chain = certificates(&self.certs, &pem.certs)?;
        // Only for the SNI of other proxies, which is not used here.
        let server_name = match chain.first().and_then(identity_of) {
            Some(Identity::Dns(name)) => name,
            Some(Identity::Spiffe(_)) | None => "policy-controller".into(),
        };
        let roots = certificates(&self.roots, &pem.roots)?;
        let expires = chain.first().and_then(|leaf| not_after(leaf));
        let identity = TlsIdentity::new(Credentials { server_name, roots, chain, key })?;
        Ok((pem, identity, expires))
    }
}

async fn contents(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::Read { path: path.to_owned(), error };
    tokio::fs::read(path).await.map_err(failed)
}

/// Parses every certificate of a PEM file.
fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |message| TlsError::Pem { path: path.to_owned(), message };
    identity::certificates(text).map_err(failed)
}

fn failure(error: &io::Error) -> Handshake {
    if error.kind() == io::ErrorKind::TimedOut {
        return Handshake::TimedOut;
    }
    match HandshakeFailure::of(error) {
        HandshakeFailure::Version => Handshake::Version,
        HandshakeFailure::Expired => Handshake::Expired,
        HandshakeFailure::Untrusted => Handshake::Untrusted,
        HandshakeFailure::Other => Handshake::Failed,
    }
}

/// Returns the expiry of a certificate.
fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    identity::validity(certificate).map(|(_, not_after)| not_after)
}

/// ALPN protocol of HTTP/2 (RFC 9113 section 3.2).
const ALPN: &[u8] = b"h2";

//! A certificate authority, an issuer with scripted responses, and the files of an identity source.

use policy_proto::linkerd::identity::identity_server::{Identity, IdentityServer};
use policy_proto::linkerd::identity::{CertifyRequest, CertifyResponse};
pub(crate) use policy_testkit::{Authority, dns, lasting, leaf_params as leaf, uri, wait_until};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityMetrics;
use policy_tls::identity::{
    CertifyConfig, FailureKind, IdentityConfig, IdentitySource, IdentityState, IdentityStatus,
    Roots, TrustAnchors,
};
use policy_tls::identity::{Credentials, IdentityHandle, TlsIdentity};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rcgen::{CertificateParams, PublicKeyData, SignatureAlgorithm};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

pub(crate) const NAME: &str = "web.shop.serviceaccount.identity.portcullis.cluster.local";
pub(crate) const ISSUER: &str =
    "portcullis-issuer.portcullis.serviceaccount.identity.portcullis.cluster.local";
/// A timeout that only a failing test reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The key that a request was made for.
pub(crate) struct Requested(Vec<u8>);

impl PublicKeyData for Requested {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// The point of the P-256 key of a request: a bit string of 66 bytes without unused bits, uncompressed.
pub(crate) fn requested(request: &[u8]) -> Requested {
    let head = [0x03, 0x42, 0x00, 0x04];
    let at = request.windows(4).position(|found| found == head).expect("a P-256 key");
    Requested(request[at + 3..at + 68].to_vec())
}

/// Certificates of servers and responses of issuers from an authority.
pub(crate) trait Issuing {
    /// The TLS identity of a server of this name.
    fn identity(&self, name: &str) -> TlsIdentity;

    /// The response of an honest issuer, with the certificate as `change` modifies it.
    fn answer(
        &self,
        request: &CertifyRequest,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertifyResponse;
}

impl Issuing for Authority {
    fn identity(&self, name: &str) -> TlsIdentity {
        let leaf = self.certify(name);
        let (server_name, roots) = (name.into(), vec![self.root()]);
        TlsIdentity::new(Credentials { server_name, roots, chain: leaf.chain, key: leaf.key })
            .unwrap()
    }

    fn answer(
        &self,
        request: &CertifyRequest,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertifyResponse {
        let params = leaf(&[dns(&request.identity)], change);
        let key = requested(&request.certificate_signing_request);
        answered(self.sign(&params, &key), &params)
    }
}

/// A response with this certificate alone, and with its expiry.
pub(crate) fn answered(leaf: Vec<u8>, params: &CertificateParams) -> CertifyResponse {
    let seconds = params.not_after.unix_timestamp();
    CertifyResponse {
        leaf_certificate: leaf,
        intermediate_certificates: Vec::new(),
        valid_until: Some(prost_types::Timestamp { seconds, nanos: 0 }),
    }
}

type Answering = dyn Fn(&CertifyRequest) -> Result<CertifyResponse, Status> + Send + Sync;

/// An issuer with scripted responses, over TLS.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) address: SocketAddr,
    answering: Arc<Mutex<Arc<Answering>>>,
    asked: Arc<Mutex<Vec<CertifyRequest>>>,
    delay: Arc<Mutex<Duration>>,
}

#[tonic::async_trait]
impl Identity for Issuer {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Status> {
        let request = request.into_inner();
        self.asked.lock().unwrap().push(request.clone());
        let answering = self.answering.lock().unwrap().clone();
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        answering(&request).map(Response::new)
    }
}

impl Issuer {
    /// Serves with the identity `own`.
    pub(crate) async fn start(
        own: TlsIdentity,
        answering: impl Fn(&CertifyRequest) -> Result<CertifyResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        let mut config = rustls::ServerConfig::clone(own.server());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Self::at(listener.local_addr().unwrap(), answering);
        let (accepted, incoming) = mpsc::channel(8);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = accepted.send(Ok::<_, std::io::Error>(Tls(stream))).await;
                }
            }
        });
        let service = IdentityServer::new(issuer.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(ReceiverStream::new(incoming)));
        issuer
    }

    /// In plaintext, as over loopback.
    pub(crate) async fn plain(
        answering: impl Fn(&CertifyRequest) -> Result<CertifyResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Self::at(listener.local_addr().unwrap(), answering);
        let service = IdentityServer::new(issuer.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(server.serve_with_incoming(incoming));
        issuer
    }

    fn at(
        address: SocketAddr,
        answering: impl Fn(&CertifyRequest) -> Result<CertifyResponse, Status> + Send + Sync + 'static,
    ) -> Self {
        let answering = Arc::new(Mutex::new(Arc::new(answering) as Arc<Answering>));
        Self { address, answering, asked: Arc::default(), delay: Arc::default() }
    }

    pub(crate) fn answers(
        &self,
        answering: impl Fn(&CertifyRequest) -> Result<CertifyResponse, Status> + Send + Sync + 'static,
    ) {
        *self.answering.lock().unwrap() = Arc::new(answering);
    }

    pub(crate) fn delays(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    pub(crate) fn asked(&self) -> Vec<CertifyRequest> {
        self.asked.lock().unwrap().clone()
    }
}

/// A running identity source and its files.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) identity: IdentityHandle,
    pub(crate) status: IdentityStatus,
    metrics: Registry,
    task: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    /// A client of the issuer at `address`, with a token and the roots of `authority` in files.
    pub(crate) async fn certify(
        address: SocketAddr,
        authority: &Authority,
        change: impl FnOnce(&mut CertifyConfig),
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let (token, roots) = (folder.path().join("token"), folder.path().join("roots.pem"));
        std::fs::write(&token, "a token\n").unwrap();
        std::fs::write(&roots, authority.pem()).unwrap();
        // The address is loopback, where plaintext would be allowed, so that it uses another name.
        let address = format!("localhost:{}", address.port());
        let issuer = ControllerAddress::parse(&address, Some(ISSUER)).unwrap();
        let roots = TrustAnchors::Trusted(Roots::File(roots));
        let mut config = CertifyConfig::new(issuer, NAME, token, roots);
        config.backoff = (Duration::from_millis(5), Duration::from_millis(50));
        config.interval = Duration::from_millis(20);
        change(&mut config);
        Self::start(IdentityConfig::Certify(config), folder).await
    }

    pub(crate) async fn start(config: IdentityConfig, folder: TempDir) -> Self {
        let own = IdentityMetrics::default();
        let mut metrics = Registry::default();
        own.register(&mut metrics);
        let source = IdentitySource::open(config, own).await.unwrap();
        let (identity, status) = (source.identity(), source.status());
        let task = tokio::spawn(source.run());
        Self { folder, identity, status, metrics, task }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for a state of the source.
    pub(crate) async fn until(&self, holds: impl Fn(&IdentityState) -> bool) -> IdentityState {
        let mut status = self.status.clone();
        let waiting = async {
            loop {
                let state = status.state();
                if holds(&state) {
                    return state;
                }
                status.changed().await;
            }
        };
        let late = |_| panic!("never; at last {:?}", self.status.state());
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(late)
    }

    pub(crate) async fn ready(&self) -> IdentityState {
        self.until(|state| state.missing(SystemTime::now()).is_none()).await
    }

    /// The words of the next failure of this kind.
    pub(crate) async fn failure(&self, kind: FailureKind) -> String {
        let failed = |state: &IdentityState| state.failure.as_ref().is_some_and(|f| f.kind == kind);
        self.until(failed).await.failure.unwrap().message.to_string()
    }

    /// The workload's certificate, DER.
    pub(crate) fn certificate(&self) -> Option<Vec<u8>> {
        self.identity.current().as_ref().map(|own| own.chain()[0].to_vec())
    }

    pub(crate) fn metric(&self, series: &str) -> Option<u64> {
        let mut text = String::new();
        encode(&mut text, &self.metrics).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }
}
/// A TLS connection for a gRPC server.
pub(crate) struct Tls(TlsStream<TcpStream>);

impl Connected for Tls {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Tls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

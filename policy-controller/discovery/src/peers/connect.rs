//! The connection to another replica: mutual TLS with the controller's own certificate. A controller
//! without one connects in plaintext, over loopback only.

use hyper_util::rt::TokioIo;
use policy_server::TlsHandle;
use rustls::pki_types::ServerName;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// Timeout of a connection attempt, TLS handshake included.
const CONNECT: Duration = Duration::from_secs(5);

/// Connects to other replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connector {
    tls: Option<TlsHandle>,
}

impl Connector {
    /// Creates a connector with these credentials; without any it connects in plaintext, over
    /// loopback only.
    pub(crate) fn new(tls: Option<TlsHandle>) -> Self {
        Self { tls }
    }

    /// Connects to `address`.
    ///
    /// # Errors
    /// The address is unreachable, or the peer is not the controller.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
    ) -> std::result::Result<Channel, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .user_agent(concat!("policy-controller/", env!("CARGO_PKG_VERSION")))?;
        let Some(tls) = self.tls.clone() else {
            let open = move |_| async move { within(plaintext(address)).await.map(TokioIo::new) };
            return endpoint.connect_with_connector(tower::service_fn(open)).await;
        };
        let open = move |_| {
            let tls = tls.clone();
            async move { within(mutual(address, &tls)).await.map(TokioIo::new) }
        };
        endpoint.connect_with_connector(tower::service_fn(open)).await
    }
}

async fn within<T>(attempt: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::new(ErrorKind::TimedOut, format!("no connection within {CONNECT:?}"));
    tokio::time::timeout(CONNECT, attempt).await.map_err(late)?
}

async fn plaintext(address: SocketAddr) -> Result<TcpStream> {
    if !address.ip().to_canonical().is_loopback() {
        let why = "no client certificate, and plaintext is allowed on loopback only";
        return Err(Error::new(ErrorKind::PermissionDenied, why));
    }
    tcp(address).await
}

async fn mutual(address: SocketAddr, tls: &TlsHandle) -> Result<TlsStream<TcpStream>> {
    let config = tls.client().map_err(Error::other)?;
    let config = config.ok_or_else(|| {
        let why = "the client certificate has no identity";
        Error::new(ErrorKind::PermissionDenied, why)
    })?;
    // The server is verified by its identity, not by this name.
    let name = ServerName::from(address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, tcp(address).await?).await
}

async fn tcp(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

//! The connection to the controller: TCP, then TLS to the configured identity or plaintext loopback.

use super::DiscoverConfig;
use super::address::{ControllerAddress, Server};
use crate::identity::IdentityHandle;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// A channel that has connected once. It connects again by itself when it is used after a loss.
///
/// # Errors
/// The address cannot be reached, or whoever answers is not the configured server.
pub(super) async fn connect(
    config: &DiscoverConfig,
    identity: &IdentityHandle,
) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{}", config.controller.authority()))?
        .http2_keep_alive_interval(config.keep_alive)
        .keep_alive_timeout(config.keep_alive)
        .keep_alive_while_idle(true)
        .user_agent(concat!("policy-proxy/", env!("CARGO_PKG_VERSION")))?;
    let address = Arc::new(config.controller.clone());
    let bound = config.connect_timeout;
    match address.server().cloned() {
        None => {
            let connector = tower::service_fn(move |_| {
                let address = Arc::clone(&address);
                async move { within(bound, plaintext(&address)).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(connector).await
        }
        Some(server) => {
            let (identity, server) = (identity.clone(), Arc::new(server));
            let connector = tower::service_fn(move |_| {
                let (address, identity) = (Arc::clone(&address), identity.clone());
                let server = Arc::clone(&server);
                async move { within(bound, tls(&address, &server, &identity)).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(connector).await
        }
    }
}

async fn within<T>(
    bound: Duration,
    attempt: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    let late = |_| Error::new(ErrorKind::TimedOut, format!("no connection within {bound:?}"));
    tokio::time::timeout(bound, attempt).await.map_err(late)?
}

/// Used for loopback only: [`ControllerAddress`] without a server is loopback.
async fn plaintext(address: &ControllerAddress) -> std::io::Result<TcpStream> {
    let stream = tcp(address).await?;
    if !stream.peer_addr()?.ip().to_canonical().is_loopback() {
        return Err(Error::new(ErrorKind::PermissionDenied, "plaintext is for loopback only"));
    }
    Ok(stream)
}

async fn tls(
    address: &ControllerAddress,
    server: &Server,
    identity: &IdentityHandle,
) -> std::io::Result<TlsStream<TcpStream>> {
    let own = identity.current().clone();
    let own =
        own.ok_or_else(|| Error::new(ErrorKind::NotConnected, "no identity of our own yet"))?;
    let mut client = own.client(server.identity.clone()).map_err(Error::other)?;
    client.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(server.name.to_string()).map_err(Error::other)?;
    let stream = tcp(address).await?;
    TlsConnector::from(Arc::new(client)).connect(name, stream).await
}

async fn tcp(address: &ControllerAddress) -> std::io::Result<TcpStream> {
    let mut failure = Error::new(ErrorKind::NotFound, format!("`{address}` has no address"));
    for candidate in address.resolve().await? {
        match TcpStream::connect(candidate).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

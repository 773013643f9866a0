//! A connection to the control plane: TCP, then TLS to the configured identity or plaintext loopback.

use super::address::{ControllerAddress, Server};
use super::backoff::random;
use hyper_util::rt::TokioIo;
use policy_core::Identity;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

/// Creates the TLS configuration of a client that accepts only the given identity. Called for each
/// connection, so that renewed certificates and changed roots take effect.
pub type TlsSource = Arc<dyn Fn(Identity) -> std::io::Result<ClientConfig> + Send + Sync>;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Timeout of one connection attempt, including the handshake.
    pub connect: Duration,
    /// Interval and timeout of HTTP/2 PINGs.
    pub keep_alive: Duration,
}

/// Flow-control window in bytes (RFC 9113 section 6.9.2: the initial size).
const WINDOW: u32 = 65_535;

/// Opens a channel. It reconnects when it is used after a loss.
///
/// # Errors
/// The address cannot be reached, or the server does not prove the configured identity.
pub async fn connect(
    address: &ControllerAddress,
    bounds: Bounds,
    credentials: TlsSource,
) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{}", address.authority()))?
        .http2_keep_alive_interval(bounds.keep_alive)
        .keep_alive_timeout(bounds.keep_alive)
        .keep_alive_while_idle(true)
        // Unread data stays at the server, not here.
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .user_agent(concat!("policy-proxy/", env!("CARGO_PKG_VERSION")))?;
    let bound = bounds.connect;
    let address = Arc::new(address.clone());
    match address.server().cloned() {
        None => {
            let connector = tower::service_fn(move |_| {
                let address = Arc::clone(&address);
                async move { within(bound, plaintext(&address, bound)).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(connector).await
        }
        Some(server) => {
            let server = Arc::new(server);
            let connector = tower::service_fn(move |_| {
                let (address, server) = (Arc::clone(&address), Arc::clone(&server));
                let credentials = Arc::clone(&credentials);
                async move {
                    let client = credentials(server.identity.clone())?;
                    within(bound, tls(&address, &server, client, bound)).await.map(TokioIo::new)
                }
            });
            endpoint.connect_with_connector(connector).await
        }
    }
}

/// Awaits an attempt with a timeout.
///
/// # Errors
/// The attempt's error, or a timeout.
pub(crate) async fn within<T>(
    bound: Duration,
    attempt: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    let late = |_| Error::new(ErrorKind::TimedOut, format!("no connection within {bound:?}"));
    tokio::time::timeout(bound, attempt).await.map_err(late)?
}

/// Formats an error with all its causes, which operators need.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(next) = cause {
        texts.push(next.to_string());
        cause = next.source();
    }
    texts.dedup();
    texts.join(": ")
}

/// Connects in plaintext. For loopback only: [`ControllerAddress`] without a server is loopback.
async fn plaintext(address: &ControllerAddress, bound: Duration) -> std::io::Result<TcpStream> {
    let stream = tcp(address, bound).await?;
    if !stream.peer_addr()?.ip().to_canonical().is_loopback() {
        return Err(Error::new(ErrorKind::PermissionDenied, "plaintext is for loopback only"));
    }
    Ok(stream)
}

async fn tls(
    address: &ControllerAddress,
    server: &Server,
    mut client: ClientConfig,
    bound: Duration,
) -> std::io::Result<TlsStream<TcpStream>> {
    client.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(server.name.to_string()).map_err(Error::other)?;
    let stream = tcp(address, bound).await?;
    TlsConnector::from(Arc::new(client)).connect(name, stream).await
}

async fn tcp(address: &ControllerAddress, bound: Duration) -> std::io::Result<TcpStream> {
    let mut candidates = address.resolve().await?;
    if candidates.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, format!("`{address}` has no address")));
    }
    if address.server().is_some() {
        // A resolver may return the same order to every client (RFC 6724); then clients that lost
        // one server would all go to the same other one.
        let first = usize::try_from(random()).unwrap_or_default().checked_rem(candidates.len());
        candidates.rotate_left(first.unwrap_or_default());
    }
    connect_first(&candidates, bound).await
}

/// Connects to the first candidate that answers. A silent one takes only its share of `bound`: the
/// address of a dead machine is resolved until its pod is gone.
async fn connect_first(candidates: &[SocketAddr], bound: Duration) -> std::io::Result<TcpStream> {
    // One share is left for the handshake.
    let shares = if candidates.len() > 1 { candidates.len().saturating_add(1) } else { 1 };
    let share = u32::try_from(shares).ok().and_then(|shares| bound.checked_div(shares));
    let mut failure = Error::from(ErrorKind::NotFound);
    for candidate in candidates {
        match within(share.unwrap_or(bound), TcpStream::connect(candidate)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = Error::new(error.kind(), format!("{candidate}: {error}")),
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next() {
        // With its queue full it answers as little as a dead machine.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let silent = silent.listen(1).unwrap();
        let gone = silent.local_addr().unwrap();
        let mut held = Vec::new();
        while let Ok(stream) = within(Duration::from_millis(300), TcpStream::connect(gone)).await {
            held.push(stream);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let bound = Duration::from_secs(3);
        let reached = within(bound, connect_first(&[gone, alive], bound)).await.unwrap();
        assert_eq!(reached.peer_addr().unwrap(), alive);
        let error = connect_first(&[gone, gone], Duration::from_millis(300)).await.unwrap_err();
        assert!(error.to_string().starts_with(&gone.to_string()), "{error}");
        drop(held);
    }
}

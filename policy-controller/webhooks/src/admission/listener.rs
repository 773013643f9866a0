//! Accepts connections of API servers: TLS, then HTTP/1.1 or HTTP/2 as negotiated by ALPN.

use super::service::{ClientConnection, Service};
use super::settings::PortGuard;
use super::shares::{Bounds, RevocationOrder, SharedCapacity};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use policy_server::{ClientNetwork, FairScheduler, after_accept_error};
use rustls::server::Acceptor;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum number of connections. An API server has a handful.
const CONNECTION_BOUNDS: Bounds =
    Bounds { total: 256, per_network: 64, first: RevocationOrder::LeastRecentlyUsed };
/// Timeout of the TLS handshake. API servers give up after five seconds in all.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time in which a new connection must send a request. API servers connect because they have one.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 flow-control windows of a connection and of a stream. A client sends one window per round
/// trip, which takes 200 ms from a distant API server. All bodies of a connection then arrive at 5
/// MiB/s and a single one at 2.5 MiB/s, which is 1.2 s for 3 MiB. Bodies slower than 1 MiB/s are
/// refused.
const WINDOW: u32 = 1024 * 1024;
const STREAM_WINDOW: u32 = 512 * 1024;
/// Idle timeout of an HTTP/1.1 connection. The API server closes idle connections after 90 seconds,
/// and it must be the one to close them, because a connection closed during a request is a failed
/// call (linkerd2#14096).
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval of HTTP/2 keep-alive pings, and timeout of their acknowledgement.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which connections may finish after shutdown begins.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent HTTP/2 streams of a connection.
const MAX_STREAMS: u32 = 64;

/// State shared by all connections.
#[derive(Clone)]
struct Port {
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    /// One handshake at a time, so that established connections are served in between.
    handshakes: FairScheduler,
    shutdown: CancellationToken,
}

/// Serves until `shutdown` is cancelled and every connection has ended or timed out.
pub(super) async fn run(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    guard: Option<Arc<dyn PortGuard>>,
    shutdown: CancellationToken,
) {
    let capacity = SharedCapacity::new(CONNECTION_BOUNDS, service.answered.clone());
    let port = Port { tls, service, handshakes: FairScheduler::new(1), shutdown };
    let tracker = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = port.shutdown.cancelled() => break,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                after_accept_error(&error).await;
                continue;
            }
        };
        if let Some(Err(reason)) = guard.as_ref().map(|guard| guard.admission(remote)) {
            port.service.metrics.refused("policy");
            tracing::debug!(%remote, reason = reason.as_str(), "connection refused by policy");
            continue;
        }
        let network = ClientNetwork::of(remote.ip());
        let Ok(share) = capacity.take(network, 1) else {
            port.service.metrics.refused("connections");
            continue;
        };
        let connection = ClientConnection { network, share, used: AtomicBool::new(false) };
        tracker.spawn(port.clone().connection(stream, remote, Arc::new(connection)));
    }
    drop(listener);
    tracker.close();
    tracker.wait().await;
}

impl Port {
    /// Serves one connection until it ends or its share is revoked.
    async fn connection(
        self,
        stream: TcpStream,
        remote: SocketAddr,
        connection: Arc<ClientConnection>,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, %error, "cannot set TCP_NODELAY");
        }
        let ended = tokio::select! {
            ended = self.serve(stream, &connection) => ended,
            () = connection.share.revoked() => Err(ConnectionError::CapacityExceeded),
            () = first_request_late(&connection) => Err(ConnectionError::Unused),
        };
        if let Err(ended) = ended {
            if let Some(reason) = ended.reason() {
                self.service.metrics.refused(reason);
            }
            tracing::debug!(%remote, error = &ended as &dyn Error, "connection ended");
        }
    }

    async fn serve(
        &self,
        stream: TcpStream,
        connection: &Arc<ClientConnection>,
    ) -> Result<(), ConnectionError> {
        let handshake = self.handshake(stream, connection.network);
        let stream = tokio::select! {
            done = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => match done {
                Ok(stream) => stream.map_err(ConnectionError::Handshake)?,
                Err(_) => return Err(ConnectionError::Handshake(io::ErrorKind::TimedOut.into())),
            },
            () = self.shutdown.cancelled() => return Ok(()),
        };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let ended = if is_h2 {
            http2(stream, self, connection).await
        } else {
            http1(stream, self, connection).await
        };
        ended.map_err(ConnectionError::Http)
    }

    /// Reads the ClientHello, then does the expensive part, the key exchange and the signature, in
    /// the turn of the client's network.
    async fn handshake(&self, stream: TcpStream, network: ClientNetwork) -> io::Result<Stream> {
        let greeted = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let turn = self.handshakes.acquire(network, 1).await;
        let accepting = greeted.into_stream(self.tls.clone());
        drop(turn);
        accepting.await
    }
}

/// Error that ends a connection.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("handshake failed")]
    Handshake(#[source] io::Error),
    #[error("closed to make room for another connection")]
    CapacityExceeded,
    #[error("no request in time")]
    Unused,
    #[error(transparent)]
    Http(hyper::Error),
}

impl ConnectionError {
    /// Returns the reason as a metric label.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Handshake(_) => Some("handshake"),
            Self::CapacityExceeded => Some("connections"),
            Self::Unused => Some("unused"),
            Self::Http(_) => None,
        }
    }
}

/// Completes if no request has arrived in time.
async fn first_request_late(connection: &ClientConnection) {
    tokio::time::sleep(FIRST_REQUEST_TIMEOUT).await;
    if connection.used.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

type Stream = tokio_rustls::server::TlsStream<TcpStream>;

async fn http1(
    stream: Stream,
    port: &Port,
    connection: &Arc<ClientConnection>,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(64 * 1024);
    let (service, from) = (port.service.clone(), connection.clone());
    let respond = service_fn(move |request| {
        let (service, from) = (service.clone(), from.clone());
        async move { Ok::<_, Infallible>(service.serve(&from, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = port.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(DRAIN_TIMEOUT, connection).await.unwrap_or(Ok(()))
}

async fn http2(
    stream: Stream,
    port: &Port,
    connection: &Arc<ClientConnection>,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(16 * 1024)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let (service, from) = (port.service.clone(), connection.clone());
    let respond = service_fn(move |request| {
        let (service, from) = (service.clone(), from.clone());
        async move { Ok::<_, Infallible>(service.serve(&from, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = port.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(DRAIN_TIMEOUT, connection).await.unwrap_or(Ok(()))
}

/// Opens the port.
///
/// # Errors
/// If it cannot be opened; the error names it.
pub(super) async fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(listen).await.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot listen on {listen} for admission (--server-addr): {error}"),
        )
    })
}

//! The port of API servers: TLS, then HTTP/1.1 or HTTP/2 as negotiated by ALPN.

use super::service::{ClientConnection, Service};
use super::settings::PortGuard;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use policy_server::{
    Accepted, CapacityBounds, ClientNetwork, ConnectionEnd, ConnectionRefusal, ConnectionService,
    HandshakeTurns, Listener, ListenerSettings, ListenerStream, RevocationOrder, SharedCapacity,
    Transport,
};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections. An API server has a handful.
const CONNECTION_BOUNDS: CapacityBounds =
    CapacityBounds { total: 256, per_client: 64, first: RevocationOrder::LeastRecentlyUsed };
/// Timeout of the first byte, and of the TLS handshake. API servers give up after five seconds in
/// all.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Turns of handshakes: one at a time, so that established connections are served in between.
const TURNS: HandshakeTurns =
    HandshakeTurns { at_once: 1, kept: Duration::ZERO, wait: HANDSHAKE_TIMEOUT };
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

/// The service of all connections, and who may connect.
struct Port {
    service: Service,
    guard: Option<Arc<dyn PortGuard>>,
}

/// Serves until `shutdown` is cancelled and every connection has ended or timed out.
pub(super) async fn run(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    guard: Option<Arc<dyn PortGuard>>,
    shutdown: CancellationToken,
) {
    let settings = ListenerSettings {
        connections: service.answered.reserve(SharedCapacity::new(CONNECTION_BOUNDS)),
        proved: None,
        first_byte: HANDSHAKE_TIMEOUT,
        handshake: HANDSHAKE_TIMEOUT,
        turns: TURNS,
        first_use: Some(FIRST_REQUEST_TIMEOUT),
        age: None,
    };
    let sockets = vec![(listener, Transport::Server(tls))];
    Listener::new(settings, Port { service, guard }, shutdown).run(sockets).await;
}

impl ConnectionService for Port {
    type Open = ();

    fn admits(&self, client: SocketAddr) -> Result<(), &'static str> {
        let Some(guard) = &self.guard else { return Ok(()) };
        guard.admission(client).map_err(|reason| reason.as_str())
    }

    fn opened(&self) {}

    fn refused(&self, _: SocketAddr, reason: &ConnectionRefusal) {
        self.service.metrics.refused(match reason {
            // A client that sends nothing has not made its handshake.
            ConnectionRefusal::Silent | ConnectionRefusal::Handshakes => "handshake",
            ConnectionRefusal::Policy(_)
            | ConnectionRefusal::TooMany
            | ConnectionRefusal::Revoked
            | ConnectionRefusal::Handshake(_)
            | ConnectionRefusal::Unused => reason.label(),
        });
    }

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let peer = accepted.peer();
        let Accepted { stream, remote, share, end, .. } = accepted;
        let network = ClientNetwork::of(remote.ip());
        let connection = Arc::new(ClientConnection { network, peer, share });
        let is_h2 = stream.alpn() == Some(b"h2");
        let ended = if is_h2 {
            http2(stream, &self.service, &connection, &end).await
        } else {
            http1(stream, &self.service, &connection, &end).await
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, error = &error as &dyn Error, "connection ended");
        }
    }
}

async fn http1(
    stream: ListenerStream,
    service: &Service,
    connection: &Arc<ClientConnection>,
    end: &ConnectionEnd,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(64 * 1024);
    let (service, from) = (service.clone(), connection.clone());
    let respond = service_fn(move |request| {
        let (service, from) = (service.clone(), from.clone());
        async move { Ok::<_, Infallible>(service.serve(&from, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond));
    end.drive(connection.as_mut(), DRAIN_TIMEOUT, |connection| connection.graceful_shutdown())
        .await
        .unwrap_or(Ok(()))
}

async fn http2(
    stream: ListenerStream,
    service: &Service,
    connection: &Arc<ClientConnection>,
    end: &ConnectionEnd,
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
    let (service, from) = (service.clone(), connection.clone());
    let respond = service_fn(move |request| {
        let (service, from) = (service.clone(), from.clone());
        async move { Ok::<_, Infallible>(service.serve(&from, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond));
    end.drive(connection.as_mut(), DRAIN_TIMEOUT, |connection| connection.graceful_shutdown())
        .await
        .unwrap_or(Ok(()))
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

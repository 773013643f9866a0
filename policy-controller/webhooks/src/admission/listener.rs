//! Accepts connections of API servers: TLS, then HTTP/1.1 or HTTP/2 as both agree.

use super::service::{ClientConnection, Service};
use super::settings::PortGuard;
use super::shares::{Bounds, Revoked, SharedRoom};
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

/// Connections at once. An API server has a handful.
const CONNECTIONS: Bounds =
    Bounds { total: 256, per_network: 64, first: Revoked::LeastRecentlyUsed };
/// The time that the TLS handshake may take. API servers give up after five seconds in all.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// The time until a new connection must have brought a request. API servers connect because they
/// have one.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// The bytes of bodies that an HTTP/2 client may send before they are read: over a connection, and of
/// one body. A window is sent once in a round trip, in 200 ms from a distant API server. All bodies of
/// a connection then come with 5 MiB/s and a single one with 2.5 MiB/s, of which 3 MiB take 1.2 s.
/// Slower than 1 MiB/s a body may not come.
const WINDOW: u32 = 1024 * 1024;
const STREAM_WINDOW: u32 = 512 * 1024;
/// How long an HTTP/1.1 connection may wait for the next request. The API server gives idle
/// connections up after 90 seconds; it must be the one that does, for a connection closed under a
/// request is a failed call (linkerd2#14096).
const IDLE: Duration = Duration::from_secs(300);
/// How often an HTTP/2 connection is asked whether it lives, and how long it may take to say so.
const PING: Duration = Duration::from_secs(60);
const PONG: Duration = Duration::from_secs(20);
/// How long connections may take to end when the webhook does.
const DRAIN: Duration = Duration::from_secs(10);
/// Reviews in progress on one HTTP/2 connection.
const STREAMS: u32 = 64;

/// What every connection needs.
#[derive(Clone)]
struct Port {
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    /// One handshake at a time: what is connected already is served between two of them.
    handshakes: FairScheduler,
    shutdown: CancellationToken,
}

/// Serves until `shutdown` is cancelled and every connection has ended, or has had time to.
pub(super) async fn run(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    guard: Option<Arc<dyn PortGuard>>,
    shutdown: CancellationToken,
) {
    let room = SharedRoom::new(CONNECTIONS, service.answered.clone());
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
        let Ok(share) = room.take(network, 1) else {
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
    /// Serves one connection until it ends or has to make room.
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
            () = connection.share.revoked() => Err(Ended::NoRoom),
            () = first_request_late(&connection) => Err(Ended::Unused),
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
    ) -> Result<(), Ended> {
        let handshake = self.handshake(stream, connection.network);
        let stream = tokio::select! {
            done = tokio::time::timeout(HANDSHAKE, handshake) => match done {
                Ok(stream) => stream.map_err(Ended::Handshake)?,
                Err(_) => return Err(Ended::Handshake(io::ErrorKind::TimedOut.into())),
            },
            () = self.shutdown.cancelled() => return Ok(()),
        };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let ended = if is_h2 {
            http2(stream, self, connection).await
        } else {
            http1(stream, self, connection).await
        };
        ended.map_err(Ended::Http)
    }

    /// Reads the client's greeting, and does what is costly, the key exchange and the signature, in
    /// the turn of its network.
    async fn handshake(&self, stream: TcpStream, network: ClientNetwork) -> io::Result<Stream> {
        let greeted = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let turn = self.handshakes.acquire(network, 1).await;
        let accepting = greeted.into_stream(self.tls.clone());
        drop(turn);
        accepting.await
    }
}

/// The reason for which a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("handshake failed")]
    Handshake(#[source] io::Error),
    #[error("it made room for another")]
    NoRoom,
    #[error("no request came")]
    Unused,
    #[error(transparent)]
    Http(hyper::Error),
}

impl Ended {
    /// The reason, for a metric.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Handshake(_) => Some("handshake"),
            Self::NoRoom => Some("connections"),
            Self::Unused => Some("unused"),
            Self::Http(_) => None,
        }
    }
}

/// Ends if there has been no request in time.
async fn first_request_late(connection: &ClientConnection) {
    tokio::time::sleep(FIRST_REQUEST).await;
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
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(64 * 1024);
    let (service, from) = (port.service.clone(), connection.clone());
    let answer = service_fn(move |request| {
        let (service, from) = (service.clone(), from.clone());
        async move { Ok::<_, Infallible>(service.serve(&from, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = port.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(DRAIN, connection).await.unwrap_or(Ok(()))
}

async fn http2(
    stream: Stream,
    port: &Port,
    connection: &Arc<ClientConnection>,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(16 * 1024)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let (service, from) = (port.service.clone(), connection.clone());
    let answer = service_fn(move |request| {
        let (service, from) = (service.clone(), from.clone());
        async move { Ok::<_, Infallible>(service.serve(&from, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = port.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(DRAIN, connection).await.unwrap_or(Ok(()))
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

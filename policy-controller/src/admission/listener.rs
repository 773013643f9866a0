//! Accepts connections of API servers: TLS, then HTTP/1.1 or HTTP/2 as both agree.

use super::service::Service;
use crate::guard::Guard;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at once. An API server has a handful.
const CONNECTIONS: usize = 256;
/// Connections of one address at once.
const PER_PEER: u32 = 64;
/// How long the TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
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

/// Serves until `shutdown` is cancelled and every connection has ended, or has had time to.
pub(super) async fn run(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    service: Service,
    guard: Option<Guard>,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let peers = Peers::default();
    let tracker = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the webhook cannot accept a connection; waiting");
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        if let Some(Err(reason)) = guard.as_ref().map(|guard| guard.admission(remote)) {
            service.metrics.refused("policy");
            tracing::debug!(%remote, reason = reason.as_str(), "connection refused by policy");
            continue;
        }
        let (Ok(permit), Some(held)) = (room.clone().try_acquire_owned(), peers.take(remote.ip()))
        else {
            service.metrics.refused("connections");
            continue;
        };
        let (acceptor, service, shutdown) = (acceptor.clone(), service.clone(), shutdown.clone());
        tracker.spawn(async move {
            connection(acceptor, stream, remote, service, shutdown).await;
            drop((permit, held));
        });
    }
    drop(listener);
    tracker.close();
    tracker.wait().await;
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    remote: SocketAddr,
    service: Service,
    shutdown: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "cannot set TCP_NODELAY");
    }
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => shaken,
        () = shutdown.cancelled() => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            service.metrics.refused("handshake");
            tracing::debug!(%remote, %error, "handshake failed");
            return;
        }
        Err(_) => {
            service.metrics.refused("handshake");
            return;
        }
    };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let ended = if is_h2 {
        http2(stream, service, &shutdown).await
    } else {
        http1(stream, service, &shutdown).await
    };
    if let Err(error) = ended {
        tracing::debug!(%remote, %error, "connection ended");
    }
}

type Stream = tokio_rustls::server::TlsStream<TcpStream>;

async fn http1(
    stream: Stream,
    service: Service,
    shutdown: &CancellationToken,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(64 * 1024);
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.serve(request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(DRAIN, connection).await.unwrap_or(Ok(()))
}

async fn http2(
    stream: Stream,
    service: Service,
    shutdown: &CancellationToken,
) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.serve(request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
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

/// How many connections each address has.
#[derive(Clone, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, u32>>>);

/// One connection of an address.
struct Held {
    peer: IpAddr,
    peers: Peers,
}

impl Peers {
    fn take(&self, peer: IpAddr) -> Option<Held> {
        let mut counts = self.0.lock();
        let count = counts.entry(peer).or_default();
        if *count >= PER_PEER {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Held { peer, peers: self.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut counts = self.peers.0.lock();
        let left = counts.get(&self.peer).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            counts.remove(&self.peer);
        } else {
            counts.insert(self.peer, left);
        }
    }
}

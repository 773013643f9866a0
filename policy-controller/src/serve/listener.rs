//! Accepts connections and serves HTTP/2 on them, each with an age of its own.

use crate::serve::config::{ServeConfig, jittered, random};
use crate::serve::metrics::ServeMetrics;
use crate::serve::peer::{Allowance, Connected, Held};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower::ServiceExt;

/// How long a new connection may say nothing at all.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// What every connection needs.
struct Shared {
    config: ServeConfig,
    routes: Routes,
    metrics: ServeMetrics,
    drain: CancellationToken,
}

/// Serves until `drain` is cancelled and every connection has ended, or the drain timeout passed.
pub(crate) async fn run(
    listener: TcpListener,
    routes: Routes,
    config: ServeConfig,
    metrics: ServeMetrics,
    drain: CancellationToken,
) {
    let connections = Allowance::new(config.max_connections_per_peer);
    let shared = Arc::new(Shared { config, routes, metrics, drain: drain.clone() });
    let tracker = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.cancelled() => break,
        };
        match accepted {
            Ok((stream, remote)) => {
                let peer = policy_core::fold_mapped(remote.ip());
                match connections.take(peer) {
                    Some(held) => {
                        tracker.spawn(connection(shared.clone(), stream, remote, held));
                    }
                    None => {
                        shared.metrics.refused_connection();
                        tracing::debug!(%peer, "connection refused: peer holds too many");
                    }
                }
            }
            Err(error) => after_accept_error(&error).await,
        }
    }
    drop(listener);
    tracker.close();
    // Connections bound themselves by the drain timeout.
    tracker.wait().await;
}

/// Errors of one connection concern nobody else; lack of descriptors or memory passes with time.
async fn after_accept_error(error: &io::Error) {
    let of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    );
    if !of_one_connection {
        tracing::warn!(%error, "cannot accept a connection; waiting");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, remote: SocketAddr, held: Held) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "cannot set TCP_NODELAY");
    }
    let _open = shared.metrics.open_connection();
    let spoke = tokio::select! {
        spoke = tokio::time::timeout(FIRST_BYTE, stream.readable()) => matches!(spoke, Ok(Ok(()))),
        () = shared.drain.cancelled() => false,
    };
    if !spoke {
        return;
    }
    let connected = Connected {
        peer: policy_core::fold_mapped(remote.ip()),
        ending: shared.drain.child_token(),
    };
    let ending = connected.ending.clone();
    let routes = shared.routes.clone();
    let service = TowerToHyperService::new(routes.map_request(
        move |mut request: http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(connected.clone());
            request
        },
    ));
    let config = &shared.config;
    let mut connection =
        std::pin::pin!(builder(config).serve_connection(TokioIo::new(stream), service));
    let age = config.max_connection_age.map(|age| jittered(age, random()));
    let ended = tokio::select! {
        result = connection.as_mut() => Some(result),
        () = sleep_or_never(age) => None,
        () = ending.cancelled() => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            // GOAWAY first: a stream that ends is not opened again on this connection.
            connection.as_mut().graceful_shutdown();
            ending.cancel();
            match tokio::time::timeout(config.drain_timeout, connection).await {
                Ok(result) => result,
                Err(_) => {
                    tracing::debug!(%remote, "connection did not end in time and was closed");
                    Ok(())
                }
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%remote, error = &error as &dyn std::error::Error, "connection ended");
    }
    // Whatever ended it, its streams must not outlive it.
    ending.cancel();
    drop(held);
}

async fn sleep_or_never(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn builder(config: &ServeConfig) -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(config.window_bytes)
        .initial_connection_window_size(config.window_bytes)
        .max_concurrent_streams(config.max_concurrent_streams)
        .max_send_buf_size(usize::try_from(config.window_bytes).unwrap_or(usize::MAX))
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout);
    builder
}

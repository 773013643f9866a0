//! The issuer's port: mesh TLS with the issuer's own certificate, a guard, HTTP/2 and gRPC.

use super::metrics::IssuerMetrics;
use super::service::ClientAddress;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use policy_enforce::PolicyLayer;
use policy_enforce::middleware::PolicyService;
use policy_server::{Allowance, AllowancePermit, Peer as Address, TlsHandle, after_accept_error};
use policy_tls::peer::{Peer, PeerTls};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Layer, Service};

/// Maximum number of connections from one address.
const MAX_CONNECTIONS_PER_PEER: u32 = 64;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 8192;

/// Maximum age of a connection: clients request one certificate and disconnect.
const MAX_AGE: Duration = Duration::from_secs(120);

/// Time for which requests in progress may finish after shutdown begins.
const DRAIN: Duration = Duration::from_secs(10);

/// Maximum number of concurrent HTTP/2 streams of a connection.
const MAX_STREAMS: u32 = 16;

/// State shared by all connections.
pub struct Port {
    pub(super) routes: Routes,
    pub(super) tls: TlsHandle,
    pub(super) guard: PolicyLayer,
    pub(super) metrics: IssuerMetrics,
}

impl Port {
    /// Serves until `drain` is cancelled and the requests in progress are answered.
    pub async fn run(self, listener: TcpListener, drain: CancellationToken) {
        let (port, peers) = (Arc::new(self), Allowance::new(MAX_CONNECTIONS_PER_PEER));
        let tracker = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = drain.cancelled() => break,
            };
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    after_accept_error(&error).await;
                    continue;
                }
            };
            let permit = peers.take(&Address::at(remote.ip()));
            match permit.filter(|_| tracker.len() < MAX_CONNECTIONS) {
                Some(permit) => {
                    let (port, drain) = (port.clone(), drain.clone());
                    tracker.spawn(port.connection(stream, remote, permit, drain));
                }
                None => port.metrics.connection_refused("too_many"),
            }
        }
        tracker.close();
        tracker.wait().await;
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        _permit: AllowancePermit,
        drain: CancellationToken,
    ) {
        // Without it, Nagle's algorithm delays the small messages of both sides.
        _ = stream.set_nodelay(true);
        let arrived = match drain.run_until_cancelled(self.tls.accept(stream)).await {
            Some(Ok(arrived)) => arrived,
            Some(Err(error)) => {
                self.metrics.connection_refused("handshake");
                return tracing::debug!(%remote, %error, "handshake failed");
            }
            None => return,
        };
        let peer = Arc::new(Peer::new(remote, PeerTls::Terminated(arrived.identity)));
        let from = ClientAddress(policy_core::fold_mapped(remote.ip()));
        let guarded = GuardedService {
            inner: self.guard.layer(RoutesService { routes: self.routes.clone(), from }),
            peer,
        };
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(16 * 1024)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        let service = TowerToHyperService::new(guarded);
        let connection = builder.serve_connection(TokioIo::new(arrived.stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return log(remote, ended),
            () = tokio::time::sleep(MAX_AGE) => {}
            () = drain.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        if let Ok(ended) = tokio::time::timeout(DRAIN, connection).await {
            log(remote, ended);
        }
    }
}

fn log(remote: SocketAddr, ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%remote, %error, "connection ended");
    }
}

/// The gRPC services of one connection.
#[derive(Clone)]
struct RoutesService {
    routes: Routes,
    from: ClientAddress,
}

impl Service<Request<Incoming>> for RoutesService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.from);
        let mut routes = self.routes.clone();
        Box::pin(async move { routes.call(request).await })
    }
}

/// The gRPC services of one connection, behind the guard.
#[derive(Clone)]
struct GuardedService {
    inner: PolicyService<RoutesService>,
    peer: Arc<Peer>,
}

impl Service<Request<Incoming>> for GuardedService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        let response = self.inner.call(request);
        Box::pin(async move { Ok(response.await?.map(Body::new)) })
    }
}

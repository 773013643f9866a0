//! The issuer's port: mesh TLS with the issuer's own certificate, a guard, HTTP/2 and gRPC.
//!
//! Its clients have proved nothing before their token is reviewed. So all of them together have room
//! for a fixed number of connections and of bytes, and who holds the most of it loses it first.

use super::message::{ClientConnection, Messages};
use super::metrics::IssuerMetrics;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use policy_enforce::PolicyLayer;
use policy_enforce::middleware::PolicyService;
use policy_server::{
    Accepted, CapacityBounds, ConnectionRefusal, ConnectionService, HandshakeTurns,
    Http2Connection, Http2Settings, Listener, ListenerSettings, RequestBody, RevocationOrder,
    SharedCapacity, TlsHandle, Transport,
};
use policy_tls::peer::{Peer, PeerTls};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Layer, Service};

/// Maximum number of connections, and of those from one address. A connection takes up to 64 KiB,
/// and is needed for the time of one request.
pub(super) const CONNECTIONS: CapacityBounds =
    CapacityBounds { total: 512, per_client: 64, first: RevocationOrder::LeastRecentlyUsed };

/// Timeouts of a client's first byte, of its handshake, and of its first request.
const FIRST_BYTE: Duration = Duration::from_secs(5);
const HANDSHAKE: Duration = Duration::from_secs(5);
const FIRST_REQUEST: Duration = Duration::from_secs(5);

/// Turns of handshakes.
const TURNS: HandshakeTurns =
    HandshakeTurns { at_once: 4, kept: Duration::ZERO, wait: Duration::from_secs(3) };

/// Maximum age of a connection: clients request one certificate and disconnect.
const MAX_AGE: Duration = Duration::from_secs(120);

/// Time for which requests in progress may finish after shutdown begins.
const DRAIN: Duration = Duration::from_secs(10);

/// Bounds of HTTP/2. A client needs one stream; the windows are the smallest, which are larger than a
/// message.
const HTTP2: Http2Settings = Http2Settings {
    window_bytes: 65_535,
    streams: 4,
    head_bytes: 8 * 1024,
    send_buffer: 16 * 1024,
    ping_after: Duration::from_secs(20),
    ping_timeout: Duration::from_secs(10),
};

/// State shared by all connections.
pub struct Port {
    pub(super) routes: Routes,
    pub(super) tls: TlsHandle,
    pub(super) guard: PolicyLayer,
    /// Room for connections.
    pub(super) connections: SharedCapacity,
    pub(super) messages: Arc<Messages>,
    pub(super) metrics: IssuerMetrics,
}

impl Port {
    /// Serves until `drain` is cancelled and the requests in progress are answered.
    pub async fn run(self, listener: TcpListener, drain: CancellationToken) {
        let settings = ListenerSettings {
            connections: self.connections.clone(),
            proved: None,
            first_byte: FIRST_BYTE,
            handshake: HANDSHAKE,
            turns: TURNS,
            first_use: Some(FIRST_REQUEST),
            age: Some(MAX_AGE),
        };
        let transport = Transport::Tls(self.tls.clone());
        Listener::new(settings, self, drain).run(vec![(listener, transport)]).await;
    }
}

impl ConnectionService for Port {
    type Open = ();

    fn opened(&self) {}

    fn refused(&self, _: SocketAddr, reason: &ConnectionRefusal) {
        self.metrics.connection_refused(match reason {
            ConnectionRefusal::TooMany => "too_many",
            ConnectionRefusal::Policy(_)
            | ConnectionRefusal::Revoked
            | ConnectionRefusal::Silent
            | ConnectionRefusal::Handshakes
            | ConnectionRefusal::Handshake(_)
            | ConnectionRefusal::Unused => reason.label(),
        });
    }

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let Accepted { stream, remote, identity, share, end, .. } = accepted;
        let from = ClientConnection::new(remote.ip(), share);
        let routes = RoutesService {
            routes: self.routes.clone(),
            messages: self.messages.clone(),
            metrics: self.metrics.clone(),
            from,
        };
        let peer = Arc::new(Peer::new(remote, PeerTls::Terminated(identity)));
        let guarded = GuardedService { inner: self.guard.layer(routes), peer };
        let mut connection = pin!(Http2Connection::new(stream, &HTTP2, guarded));
        let ended = end.drive(connection.as_mut(), DRAIN, |connection| {
            connection.get_mut().end_gracefully();
        });
        if let Some(Err(error)) = ended.await {
            tracing::debug!(%remote, %error, "connection ended");
        }
    }
}

/// The gRPC services of one connection.
#[derive(Clone)]
struct RoutesService {
    routes: Routes,
    messages: Arc<Messages>,
    metrics: IssuerMetrics,
    from: ClientConnection,
}

impl Service<Request<RequestBody>> for RoutesService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let Self { mut routes, messages, metrics, from } = self.clone();
        Box::pin(async move {
            let began = Instant::now();
            let (mut request, _held) = match messages.receive(&from, request).await {
                Ok(received) => received,
                Err(error) => {
                    metrics.refused(error.label(), began.elapsed());
                    return Ok(error.status().into_http());
                }
            };
            request.extensions_mut().insert(from);
            routes.call(request).await
        })
    }
}

/// The gRPC services of one connection, behind the guard.
#[derive(Clone)]
struct GuardedService {
    inner: PolicyService<RoutesService>,
    peer: Arc<Peer>,
}

impl Service<Request<RequestBody>> for GuardedService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        let response = self.inner.call(request);
        Box::pin(async move { Ok(response.await?.map(Body::new)) })
    }
}

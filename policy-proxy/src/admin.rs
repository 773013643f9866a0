//! The admin port: `/live`, `/ready`, `/metrics`, `/probe/tcp/<port>`, and if enabled `/shutdown`
//! and `/proxy-log-level`; for loopback besides `/decisions`, `/explain`, `/policy` and `/tap`.
//!
//! The policy of the admin port itself decides on every request, as the controller compiles it: by
//! default any mesh identity and the node are permitted. In addition `/live`, `/ready` and `/probe`
//! answer the pod's node and loopback whatever the policy says, so that a mistake in it cannot
//! cause restarts of the proxy. While the node's addresses are unknown, `/live` and `/ready` answer
//! every client. A mesh identity gives no access to `/probe`. `/metrics` answers loopback as well,
//! because its clients are authorized by Kubernetes (`pods/portforward`, `pods/exec`), unless a
//! page in a browser may have sent the request. Endpoints that change state are for loopback only
//! and disabled by default.
//!
//! `/live` and `/ready` are answered on the port of [`crate::capture`], too.

mod answer;
mod config;
mod decision_fields;
pub mod explainer;
mod health;
mod inspect;
mod local;
mod log_level;
mod page;
mod policy_fields;
mod probe;
mod query;
mod question;
mod room;
mod tapped;

pub use config::{AdminConfig, MetricsAccess};

use answer::{refuse, refuse_method, text, whole, with_type};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use policy_core::evaluator::Memo;
use policy_core::target::canonical_target;
use policy_core::{Decision, Denial, Denied, PathHandling, RequestView, fold_mapped};
use policy_enforce::record::{DecisionInfo, DecisionMode, Decisions, RequestLine};
use policy_enforce::respond::status_of;
use policy_enforce::store::{PolicyStore, PortHandle};
use policy_server::{Share, UnreadCopies};
use policy_tls::identity::{IdentityHandle, IdentityStatus, identity_of};
use policy_tls::peer::{Peer, PeerTls};
use room::AdminRoom;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// The way by which a connection reached the admin server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// The admin port.
    Own,
    /// The port that only the redirection leads here.
    Captured,
}

/// The admin server.
#[derive(Clone, Debug)]
pub struct Admin {
    shared: Arc<AdminState>,
}

#[derive(Debug)]
struct AdminState {
    config: AdminConfig,
    store: PolicyStore,
    /// The policy of the admin port, watched from the start although no traffic is redirected
    /// there.
    own: Option<PortHandle>,
    identity: IdentityHandle,
    /// Status of the proxy's identity; absent: the proxy has none to wait for.
    status: Option<IdentityStatus>,
    /// Cancelled to start draining; cancelled also means that the proxy is draining.
    drain: CancellationToken,
    room: AdminRoom,
    /// The turn of `/decisions`, `/explain` and `/policy`.
    questions: Semaphore,
    /// Metrics that clients have not read.
    copies: UnreadCopies,
    /// Runtime of all connections, also of those that workers accepted, so that metrics are not
    /// encoded on a worker's thread; absent: the caller's.
    runtime: Option<Handle>,
}

/// Concurrent requests of one HTTP/2 connection.
const MAX_STREAMS: u32 = 8;

/// Timeouts of a handshake, of a request head, and of a whole connection unless a response streams.
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(60);
/// Pause after a failed accept; the usual cause, no file descriptors, takes time to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Admin {
    /// Creates the admin server. `status`: the proxy is not ready while it has no identity that
    /// peers would accept. Created within a runtime, it serves all its connections there.
    pub fn new(
        config: AdminConfig,
        store: PolicyStore,
        identity: IdentityHandle,
        status: Option<IdentityStatus>,
        drain: CancellationToken,
    ) -> Self {
        let own = NonZeroU16::new(config.listen.port()).map(|port| store.port(port));
        let (room, runtime) = (AdminRoom::default(), Handle::try_current().ok());
        let questions = Semaphore::new(1);
        let copies = UnreadCopies::default();
        let shared = AdminState {
            config,
            store,
            own,
            identity,
            status,
            drain,
            room,
            questions,
            copies,
            runtime,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The listening port.
    pub fn port(&self) -> u16 {
        self.shared.config.listen.port()
    }

    /// Serves a connection of an authenticated client that was accepted elsewhere; it is decided on
    /// like every other.
    ///
    /// # Errors
    /// Too many connections, a failed connection, or a timeout.
    pub async fn serve_connection<S>(&self, stream: S, peer: Peer) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_accepted(stream, peer, Door::Own).await
    }

    /// Serves a connection to the port that only the redirection leads to the proxy: `/live` and
    /// `/ready`, as proof that it does.
    ///
    /// # Errors
    /// As [`Self::serve_connection`].
    pub async fn serve_captured(&self, stream: TcpStream, client: SocketAddr) -> io::Result<()> {
        self.serve_accepted(stream, Peer::new(client, PeerTls::Absent), Door::Captured).await
    }

    async fn serve_accepted<S>(&self, stream: S, peer: Peer, door: Door) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let share = Arc::new(self.room_for(peer.ip())?);
        let admin = self.clone();
        let served =
            async move { room::served(&share, admin.requests(stream, peer, (door, &share))).await };
        match &self.shared.runtime {
            Some(runtime) => runtime.spawn(served).await.map_err(io::Error::other)?,
            None => served.await,
        }
    }

    /// Serves until the task is dropped.
    pub async fn serve(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, client)) => {
                    let Ok(share) = self.room_for(fold_mapped(client.ip())) else { continue };
                    let (admin, share) = (self.clone(), Arc::new(share));
                    tokio::spawn(async move {
                        // An error on an admin connection concerns its client alone.
                        let connection = admin.connection(stream, client, &share);
                        let _ = room::served(&share, connection).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "admin server cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn room_for(&self, client: IpAddr) -> io::Result<Share> {
        self.shared.room.take(client, self.is_pod_or_node(client))
    }

    async fn connection(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        share: &Arc<Share>,
    ) -> io::Result<()> {
        let door = (Door::Own, share);
        let mut first = [0; 1];
        timeout(HANDSHAKE, stream.peek(&mut first)).await??;
        if first != [TLS_HANDSHAKE] {
            return self.requests(stream, Peer::new(client, PeerTls::Absent), door).await;
        }
        let own = self.shared.identity.current().clone();
        let own = own.ok_or_else(|| io::Error::other("no identity yet"))?;
        let acceptor = TlsAcceptor::from(Arc::clone(own.server()));
        let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await??;
        let leaf = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let identity = leaf.and_then(identity_of);
        self.requests(stream, Peer::new(client, PeerTls::Terminated(identity)), door).await
    }

    async fn requests<S>(
        &self,
        stream: S,
        peer: Peer,
        (door, share): (Door, &Arc<Share>),
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (peer, open) = (Arc::new(peer), Arc::new(()));
        let held = Arc::clone(&open);
        let service = service_fn(move |request: Request<Incoming>| {
            let (admin, peer, open) = (self.clone(), Arc::clone(&peer), Arc::clone(&held));
            let share = Arc::clone(share);
            // Only a response that streams keeps its clone of `open`.
            async move {
                let _in_use = share.in_use();
                Ok::<_, Infallible>(match door {
                    Door::Own => match admin.answer_local(&peer, &request, open).await {
                        Some(response) => response,
                        None => whole(admin.answer(&peer, request).await),
                    },
                    Door::Captured => whole(admin.answer_captured(&peer, &request)),
                })
            }
        });
        // HTTP/2 too: a mesh may send a scraper's HTTP/1 in it.
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // A body that is not read stays the one that clients share.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).writev(true);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
        let served = builder.serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            served = served => served.map_err(io::Error::other),
            () = over(&open) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// The record of decisions, unless nothing is recorded.
    fn recorded(&self) -> Option<&Arc<Decisions>> {
        let decisions = self.shared.config.notices.as_ref()?.decisions()?;
        (decisions.mode() != DecisionMode::Off).then_some(decisions)
    }

    /// Returns the response to a request.
    async fn answer<B>(&self, peer: &Peer, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let path = request.uri().path();
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        let tcp = path.strip_prefix("/probe/tcp/").and_then(|port| self.probe_port(port));
        let allowed = match path {
            "/shutdown" => return self.shutdown(peer, request.method()),
            "/proxy-log-level" => return self.log_level(peer, request).await,
            "/live" | "/ready" if read => self.authorize_health(peer, &request),
            "/metrics" if read => self.authorize_metrics(peer, &request),
            _ if tcp.is_some() && read => self.authorize_probe(peer, &request),
            "/live" | "/ready" | "/metrics" => return refuse_method("GET, HEAD"),
            _ if tcp.is_some() => return refuse_method("GET, HEAD"),
            _ => return refuse(StatusCode::NOT_FOUND, "not found"),
        };
        match (allowed, path, tcp) {
            (Err(reason), _, _) => {
                self.notice(peer, &request, reason);
                refuse(status_of(reason), reason.as_str())
            }
            (Ok(()), _, Some(port)) => {
                probe::connect(self.pod_address(), port, self.shared.config.tcp_probe_timeout).await
            }
            (Ok(()), "/ready", None) => self.ready(),
            (Ok(()), "/metrics", None) => self.metrics(),
            (Ok(()), _, None) => text(StatusCode::OK, "live\n"),
        }
    }

    /// The port of a probe, if it is configured and written canonically.
    fn probe_port(&self, port: &str) -> Option<NonZeroU16> {
        let number = port.parse::<NonZeroU16>().ok()?;
        let known = self.shared.config.tcp_probe_ports.contains(&number);
        (known && number.to_string() == port).then_some(number)
    }

    /// The pod's address to probe: the first that the controller states.
    fn pod_address(&self) -> Option<IpAddr> {
        let live = self.shared.own.as_ref().map(PortHandle::live);
        let facts = live.as_ref().and_then(|live| live.in_force().ok());
        let stated = facts.and_then(|policy| policy.facts.pod_addresses.first().copied());
        stated.or_else(|| self.shared.config.pod_addresses.first().copied())
    }

    /// True if the client is the pod itself or, as far as its addresses are known, its node.
    fn is_pod_or_node(&self, client: IpAddr) -> bool {
        let live = self.shared.own.as_ref().map(PortHandle::live);
        let policy = live.as_ref().and_then(|live| live.in_force().ok());
        let node = policy.map_or(&[][..], |policy| &policy.facts.node_local);
        client.is_loopback() || node.iter().any(|network| network.contains(&client))
    }

    /// Authorizes a probe. The kubelet is recognised by its address: a grant to an identity, such
    /// as for metrics, does not permit probes of ports.
    fn authorize_probe<B>(&self, peer: &Peer, request: &Request<B>) -> Result<(), Denied> {
        if self.is_pod_or_node(peer.ip()) {
            return Ok(());
        }
        self.decide(&Peer::new(peer.address(), PeerTls::Absent), request)
    }

    fn authorize_metrics<B>(&self, peer: &Peer, request: &Request<B>) -> Result<(), Denied> {
        match self.shared.config.metrics {
            MetricsAccess::All => Ok(()),
            MetricsAccess::Local | MetricsAccess::Policy
                if peer.ip().is_loopback() && !page::may_come_from_browser(request) =>
            {
                Ok(())
            }
            MetricsAccess::Local => Err(Denied::Unauthorized),
            MetricsAccess::Policy => self.decide(peer, request),
        }
    }

    /// Logs a denied request.
    fn notice<B>(&self, peer: &Peer, request: &Request<B>, reason: Denied) {
        let (Some(notices), Some(own)) = (&self.shared.config.notices, &self.shared.own) else {
            return;
        };
        let decision = Err(Denial { reason, route: None });
        let (at, port) = (SystemTime::now(), own.port());
        let (method, path) = (request.method(), request.uri().path());
        let requested = RequestLine { method, host: None, path, canonical: true };
        let mut decided = DecisionInfo { at, port, peer, policy: None, decision, id: None };
        notices.log(&mut decided, Some(requested), Instant::now());
    }

    /// Decides as on a request to any other port.
    fn decide<B>(&self, peer: &Peer, request: &Request<B>) -> Result<(), Denied> {
        let live = self.shared.own.as_ref().ok_or(Denied::PolicyPending)?.live();
        let policy = live.in_force()?;
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let target =
            canonical_target(method, uri, request.version(), headers, PathHandling::Canonical)
                .map_err(Denied::Target)?;
        let view = RequestView {
            method,
            host: target.host.as_deref(),
            path: &target.path,
            query: target.query,
            headers,
        };
        let caller = self.shared.store.telemetry().caller(&peer.as_tls());
        let connection = peer.connection(&policy.facts);
        match policy.evaluator.decide_request(&connection, &mut Memo::new(), &view) {
            Decision::Permit(permit) => {
                policy.counters.http_permitted(0, caller, &permit);
                Ok(())
            }
            Decision::Deny(denial) => {
                policy.counters.http_denied(0, caller, &denial);
                Err(denial.reason)
            }
        }
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let store = &self.shared.store;
        let workers = store.workers();
        store.telemetry().generations(workers.published(), workers.reached());
        match self.shared.copies.text(|| store.telemetry().encode(&store.status())) {
            Ok(body) => with_type(StatusCode::OK, OPENMETRICS, body),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be encoded\n"),
        }
    }

    fn shutdown(&self, peer: &Peer, method: &Method) -> Response<Full<Bytes>> {
        if !self.shared.config.shutdown {
            return refuse(StatusCode::NOT_FOUND, "shutdown endpoint is not enabled");
        }
        if let Some(refused) = self.refuse_remote(peer) {
            return refused;
        }
        if *method != Method::POST {
            return refuse_method("POST");
        }
        self.shared.drain.cancel();
        text(StatusCode::OK, "shutdown\n")
    }

    fn refuse_remote(&self, peer: &Peer) -> Option<Response<Full<Bytes>>> {
        let words = "requests are only permitted from localhost";
        (!peer.ip().is_loopback()).then(|| refuse(StatusCode::FORBIDDEN, words))
    }
}

/// Waits until a connection has been open for as long as it may, and no response of it streams: each
/// stream holds a clone of `open`, as the service does.
async fn over(open: &Arc<()>) {
    tokio::time::sleep(CONNECTION).await;
    while Arc::strong_count(open) > OWN_CLONES {
        tokio::time::sleep(STREAM_LOOK).await;
    }
}

/// Clones that a connection has without a stream.
const OWN_CLONES: usize = 2;
/// Time between two looks if a response still streams.
const STREAM_LOOK: Duration = Duration::from_secs(1);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of a TLS handshake record (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

#[cfg(test)]
mod tests;

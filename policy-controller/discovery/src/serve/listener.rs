//! Accepts and authenticates connections, and serves HTTP/2 on them. Each connection has a maximum age
//! of its own.

use crate::serve::authn::{Authenticate, PolicyEnforced};
use crate::serve::caller::{Caller, ConnectionInfo, instant_of};
use crate::serve::config::{ServeConfig, jittered, random};
use crate::serve::core::Core;
use futures_util::future::select_all;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use policy_enforce::PolicyLayer;
use policy_server::{
    Allowance, AllowancePermit, ClientNetwork, FairScheduler, Peer, SchedulerPermit, TlsConnection,
    TlsHandle, after_accept_error,
};
use policy_tls::identity::Proof;
use policy_tls::peer::PeerTls;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

/// Timeout of the first byte of a new connection.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// Handshakes in progress at once. More would only share the processor: with thousands of clients that
/// come together each would end when all do, after its client has given up.
const HANDSHAKES: usize = 64;

/// Time for which a handshake keeps its turn. A slower client continues without, so that silent
/// clients delay nobody.
const TURN: Duration = Duration::from_millis(500);

/// Longest wait of a client for its turn. A proxy gives a connection up after five seconds, and the
/// work done for it is lost then; rejected earlier, it comes back after its back-off.
const MAX_TURN_WAIT: Duration = Duration::from_secs(3);

/// A bound listener and its transport.
#[derive(Debug)]
pub struct BoundListener {
    /// The listener.
    pub listener: TcpListener,
    /// Transport below HTTP/2.
    pub transport: Transport,
}

/// Transport below HTTP/2.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Plaintext. Clients over loopback may see everything, all others nothing.
    Plaintext,
    /// TLS with these credentials.
    Tls(TlsHandle),
}

/// State that all connections share.
struct ListenerState {
    core: Arc<Core>,
    connections: Allowance,
    waiting: Allowance,
    handshakes: FairScheduler,
    routes: Routes,
    guard: Option<PolicyLayer>,
    drain: CancellationToken,
}

/// Serves until `drain` is cancelled and every connection has ended, or the drain timeout passed.
pub(crate) async fn run(
    listeners: Vec<BoundListener>,
    routes: Routes,
    core: Arc<Core>,
    guard: Option<PolicyLayer>,
    drain: CancellationToken,
) {
    let connections = Allowance::new(core.config.max_connections_per_peer);
    let waiting = Allowance::new(core.config.max_streams_per_peer);
    let handshakes = FairScheduler::new(HANDSHAKES);
    let shared = ListenerState { core, connections, waiting, handshakes, routes, guard, drain };
    let shared = Arc::new(shared);
    let tracker = TaskTracker::new();
    let accepting = listeners
        .into_iter()
        .map(|listening| Box::pin(accept(shared.clone(), listening, tracker.clone())));
    let mut accepting: Vec<_> = accepting.collect();
    while !accepting.is_empty() {
        let (_, _, rest) = select_all(accepting).await;
        accepting = rest;
    }
    tracker.close();
    // Connections bound themselves by the drain timeout.
    tracker.wait().await;
}

async fn accept(shared: Arc<ListenerState>, listening: BoundListener, tracker: TaskTracker) {
    let BoundListener { listener, transport } = listening;
    // It may have been opened on another runtime than this.
    let listener = match listener.into_std().and_then(TcpListener::from_std) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen on the gRPC port"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.drain.cancelled() => return,
        };
        match accepted {
            Ok((stream, remote)) => {
                let peer = Peer::at(remote.ip());
                match shared.connections.take(&peer) {
                    Some(held) => {
                        let (shared, transport) = (shared.clone(), transport.clone());
                        tracker.spawn(connection(shared, transport, stream, remote, held));
                    }
                    None => refused(&shared, remote),
                }
            }
            Err(error) => after_accept_error(&error).await,
        }
    }
}

fn refused(shared: &ListenerState, remote: SocketAddr) {
    shared.core.metrics.refused_connection();
    tracing::debug!(%remote, "connection refused: too many connections of this peer");
}

/// An authenticated client, and the expiry of its proof.
struct AuthenticatedClient {
    remote: SocketAddr,
    peer: Peer,
    caller: Caller,
    tls: PeerTls,
    expires: Option<Instant>,
    /// The client's proof, and the credentials that verified it.
    proof: Option<(TlsHandle, Arc<Proof>)>,
}

async fn connection(
    shared: Arc<ListenerState>,
    transport: Transport,
    stream: TcpStream,
    remote: SocketAddr,
    mut held: AllowancePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "cannot set TCP_NODELAY");
    }
    let _open = shared.core.metrics.open_connection();
    let spoke = tokio::select! {
        spoke = tokio::time::timeout(FIRST_BYTE, stream.readable()) => matches!(spoke, Ok(Ok(()))),
        () = shared.drain.cancelled() => false,
    };
    if !spoke {
        return;
    }
    match transport {
        Transport::Plaintext => {
            let client = over_loopback(&stream, remote);
            serve(&shared, client, TokioIo::new(stream)).await;
        }
        Transport::Tls(tls) => {
            // Boxed, so that a connection does not keep the handshake's memory.
            let handshake = Box::pin(handshake(&shared, &tls, stream, remote));
            let arrived = tokio::select! {
                arrived = handshake => arrived,
                () = shared.drain.cancelled() => return,
            };
            let Some(arrived) = arrived else { return };
            let TlsConnection { stream, identity, expires, proof } = match arrived {
                Ok(arrived) => arrived,
                Err(error) => return tracing::debug!(%remote, %error, "handshake failed"),
            };
            let peer = Peer {
                identity: identity.as_ref().map(|identity| identity.as_str().into()),
                ..Peer::at(remote.ip())
            };
            if peer.identity.is_some() {
                // From here on it counts by its identity.
                let Some(own) = shared.connections.take(&peer) else {
                    return refused(&shared, remote);
                };
                held = own;
            }
            let own = tls.identity();
            let caller = shared.core.access.by_certificate(identity.clone(), own.as_ref());
            let proof = proof.map(|proof| (tls, proof));
            let tls = PeerTls::Terminated(identity);
            let expires = expires.map(instant_of);
            let client = AuthenticatedClient { remote, peer, caller, tls, expires, proof };
            // Behind a pointer, because each call that it is handed through holds room for it.
            serve(&shared, client, TokioIo::new(Box::new(stream))).await;
        }
    }
    drop(held);
}

/// The client's handshake, in its turn; `None` if that did not come in time, or the client is gone.
async fn handshake(
    shared: &ListenerState,
    tls: &TlsHandle,
    stream: TcpStream,
    remote: SocketAddr,
) -> Option<std::io::Result<TlsConnection<TcpStream>>> {
    let turn = turn(shared, &stream, remote).await?;
    let mut accepting = std::pin::pin!(tls.accept(stream));
    tokio::select! {
        biased;
        arrived = accepting.as_mut() => return Some(arrived),
        () = tokio::time::sleep(TURN) => drop(turn),
    }
    Some(accepting.await)
}

/// Waits for the turn of a client that has sent its first bytes.
async fn turn(
    shared: &ListenerState,
    stream: &TcpStream,
    remote: SocketAddr,
) -> Option<SchedulerPermit> {
    let next = shared.handshakes.acquire(ClientNetwork::of(remote.ip()), 1);
    let Ok(turn) = tokio::time::timeout(MAX_TURN_WAIT, next).await else {
        shared.core.metrics.refused_handshake();
        tracing::debug!(%remote, "connection refused: too many pending handshakes");
        return None;
    };
    // The client may have given up meanwhile, and its handshake would delay the others.
    let ready = stream.ready(Interest::READABLE).await;
    turn.filter(|_| ready.is_ok_and(|ready| !ready.is_read_closed()))
}

/// Plaintext is for the machine's own loopback: both ends of the connection have to be there.
fn over_loopback(stream: &TcpStream, remote: SocketAddr) -> AuthenticatedClient {
    let local = stream.local_addr().map(|local| policy_core::fold_mapped(local.ip()));
    let peer = Peer::at(remote.ip());
    let loopback = peer.address.is_loopback() && local.is_ok_and(|local| local.is_loopback());
    let caller = if loopback { Caller::Loopback } else { Caller::Anonymous };
    AuthenticatedClient { remote, peer, caller, tls: PeerTls::Absent, expires: None, proof: None }
}

async fn serve<I>(shared: &Arc<ListenerState>, client: AuthenticatedClient, io: I)
where
    I: Read + Write + Unpin + Send + 'static,
{
    let connected = ConnectionInfo {
        peer: client.peer.clone(),
        caller: client.caller.clone(),
        ending: shared.drain.child_token(),
    };
    let (core, routes) = (shared.core.clone(), shared.routes.clone());
    let authenticate = Authenticate::new(core, connected.clone(), routes, shared.waiting.clone());
    match &shared.guard {
        // Clients over loopback cannot authenticate, and only this machine's processes get there.
        Some(guard) if !matches!(client.caller, Caller::Loopback) => {
            let peer = policy_tls::peer::Peer::new(client.remote, client.tls.clone());
            let enforced = PolicyEnforced::new(guard, peer, authenticate);
            drive(shared, client, connected, io, enforced).await;
        }
        Some(_) | None => drive(shared, client, connected, io, authenticate).await,
    }
}

/// Serves until the connection ends: by its client, its age, what its client proved, or shutdown.
async fn drive<I, S>(
    shared: &Arc<ListenerState>,
    client: AuthenticatedClient,
    connected: ConnectionInfo,
    io: I,
    service: S,
) where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<http::Request<Incoming>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let (config, remote, ending) = (&shared.core.config, client.remote, connected.ending);
    let service = TowerToHyperService::new(service);
    let mut connection = std::pin::pin!(builder(config).serve_connection(io, service));
    let age = config.max_connection_age.map(|age| jittered(age, random()));
    let old = age.and_then(|age| Instant::now().checked_add(age));
    let last = [old, client.expires].into_iter().flatten().min();
    let ended = tokio::select! {
        result = connection.as_mut() => Some(result),
        () = until(last) => None,
        () = lost(client.proof.as_ref()) => {
            tracing::info!(%remote, "the client's certificate is not trusted any more");
            None
        }
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
        tracing::debug!(%remote, error = &error as &dyn Error, "connection ended");
    }
    // Whatever ended it, its streams must not outlive it.
    ending.cancel();
}

/// Waits until no root vouches for the client's certificate any more.
async fn lost(proof: Option<&(TlsHandle, Arc<Proof>)>) {
    match proof {
        Some((tls, proof)) => tls.lost(proof).await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Most bytes that a stream writes ahead of its connection, beside the message that crosses this bound.
/// Small, so that the answers that thousands of clients wait for after a start do not lie in memory at
/// once; a slow client skips the more states.
const SEND_BUFFER: usize = 4096;

fn builder(config: &ServeConfig) -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(config.window_bytes)
        .initial_connection_window_size(config.window_bytes)
        .max_concurrent_streams(config.max_concurrent_streams)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout);
    builder
}

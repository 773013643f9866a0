//! The policy port: authenticates connections and serves HTTP/2 on them. Each connection has a maximum
//! age of its own.

use crate::serve::authn::{Authenticate, PolicyEnforced, RequestRoom};
use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::config::ServeConfig;
use crate::serve::core::Core;
use crate::serve::message_room::MessageRoom;
use crate::serve::metrics::GaugeGuard;
use policy_enforce::PolicyLayer;
pub use policy_server::Transport;
use policy_server::{
    Accepted, Allowance, CapacityBounds, ConnectionEnd, ConnectionRefusal, ConnectionService,
    HandshakeTurns, Http2Connection, Http2Settings, Listener, ListenerSettings, ListenerStream,
    RequestBody, RevocationOrder, SharedCapacity, TlsHandle,
};
use policy_tls::peer::{Peer, PeerTls};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

/// Timeout of the first byte of a new connection.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Turns of handshakes. A proxy gives a connection up after five seconds, and the work done for it is
/// lost then; rejected earlier, it comes back after its back-off.
const TURNS: HandshakeTurns =
    HandshakeTurns { at_once: 64, kept: Duration::from_millis(500), wait: Duration::from_secs(3) };

/// Connections of clients that have not proved an identity, all together.
const STRANGERS: u64 = 4096;

/// Connections of clients that have proved one, all together.
const PROVED: u64 = 65_536;

/// A bound listener and its transport.
#[derive(Debug)]
pub struct BoundListener {
    /// The listener.
    pub listener: TcpListener,
    /// Transport below HTTP/2. In plaintext, clients over loopback may see everything, all others
    /// nothing.
    pub transport: Transport,
}

/// State that all connections share.
struct PolicyPort {
    core: Arc<Core>,
    room: RequestRoom,
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
    let room = |total| {
        let per_client = core.config.max_connections_per_peer.into();
        let first = RevocationOrder::LeastRecentlyUsed;
        SharedCapacity::new(CapacityBounds { total, per_client, first })
    };
    let settings = ListenerSettings {
        connections: room(STRANGERS),
        proved: Some(room(PROVED)),
        first_byte: FIRST_BYTE,
        handshake: HANDSHAKE,
        turns: TURNS,
        first_use: None,
        age: core.config.max_connection_age,
    };
    let room = RequestRoom {
        waiting: Allowance::new(core.config.max_streams_per_peer),
        messages: MessageRoom::new(core.metrics.clone()),
    };
    let port = PolicyPort { core, room, routes, guard, drain: drain.clone() };
    let sockets = listeners.into_iter().map(|bound| (bound.listener, bound.transport));
    Listener::new(settings, port, drain).run(sockets.collect()).await;
}

/// An authenticated client.
struct AuthenticatedClient {
    remote: SocketAddr,
    caller: Caller,
    tls: PeerTls,
    end: ConnectionEnd,
}

impl ConnectionService for PolicyPort {
    type Open = GaugeGuard;

    fn opened(&self) -> GaugeGuard {
        self.core.metrics.open_connection()
    }

    fn refused(&self, _: SocketAddr, reason: &ConnectionRefusal) {
        match reason {
            ConnectionRefusal::TooMany | ConnectionRefusal::Revoked => {
                self.core.metrics.refused_connection();
            }
            ConnectionRefusal::Handshakes => self.core.metrics.refused_handshake(),
            // Failed handshakes are counted by their reasons.
            ConnectionRefusal::Policy(_)
            | ConnectionRefusal::Silent
            | ConnectionRefusal::Handshake(_)
            | ConnectionRefusal::Unused => {}
        }
    }

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let peer = accepted.peer();
        let Accepted { stream, remote, identity, tls, share, end } = accepted;
        let (caller, proved) = match tls.as_ref().map(TlsHandle::identity) {
            None => (over_loopback(&stream, remote), PeerTls::Absent),
            Some(own) => {
                let caller = self.core.access.by_certificate(identity.clone(), own.as_ref());
                (caller, PeerTls::Terminated(identity))
            }
        };
        match caller {
            // As long as it has not shown a token, it may have to make room.
            Caller::Anonymous => {}
            Caller::Loopback => share.keep(),
            Caller::Mesh(_) | Caller::Controller(_) | Caller::Viewer(_) => share.stay_in_use(),
        }
        let connected = ConnectionInfo {
            peer,
            caller: caller.clone(),
            ending: self.drain.child_token(),
            share,
        };
        let client = AuthenticatedClient { remote, caller, tls: proved, end };
        let (core, routes) = (self.core.clone(), self.routes.clone());
        let authenticate = Authenticate::new(core, connected.clone(), routes, self.room.clone());
        match &self.guard {
            // Clients over loopback cannot authenticate, and only this machine's processes get
            // there.
            Some(guard) if !matches!(client.caller, Caller::Loopback) => {
                let peer = Peer::new(client.remote, client.tls.clone());
                let enforced = PolicyEnforced::new(guard, peer, authenticate);
                self.drive(client, connected.ending, stream, enforced).await;
            }
            Some(_) | None => self.drive(client, connected.ending, stream, authenticate).await,
        }
    }
}

/// Plaintext is for the machine's own loopback: both ends of the connection have to be there.
fn over_loopback(stream: &ListenerStream, remote: SocketAddr) -> Caller {
    let local = stream.tcp().local_addr().map(|local| policy_core::fold_mapped(local.ip()));
    let client = policy_core::fold_mapped(remote.ip());
    let loopback = client.is_loopback() && local.is_ok_and(|local| local.is_loopback());
    if loopback { Caller::Loopback } else { Caller::Anonymous }
}

impl PolicyPort {
    /// Serves until the connection ends: by its client, its age, what its client proved, or
    /// shutdown.
    async fn drive<S>(
        &self,
        client: AuthenticatedClient,
        ending: CancellationToken,
        stream: ListenerStream,
        service: S,
    ) where
        S: Service<http::Request<RequestBody>, Response = http::Response<Body>, Error = Infallible>
            + Clone
            + Send
            + Unpin
            + 'static,
        S::Future: Send + 'static,
    {
        let (config, remote) = (&self.core.config, client.remote);
        // Whatever ends it, its streams must not outlive it.
        let _ended = ending.clone().drop_guard();
        let mut connection = pin!(Http2Connection::new(stream, &settings(config), service));
        let driven = client.end.drive(connection.as_mut(), config.drain_timeout, |connection| {
            // GOAWAY first: a stream that ends is not opened again on this connection.
            connection.get_mut().end_gracefully();
            ending.cancel();
        });
        match driven.await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::debug!(%remote, error = &error as &dyn Error, "connection ended");
            }
            None => tracing::debug!(%remote, "connection did not end in time and was closed"),
        }
    }
}

/// Size of the headers of a request.
const HEAD_BYTES: u32 = 16 * 1024;

/// Most bytes that a stream writes ahead of its connection, beside the message that crosses this bound.
/// Small, so that the answers that thousands of clients wait for after a start do not lie in memory at
/// once; a slow client skips the more states.
const SEND_BUFFER: usize = 4096;

fn settings(config: &ServeConfig) -> Http2Settings {
    Http2Settings {
        window_bytes: config.window_bytes,
        streams: config.max_concurrent_streams,
        head_bytes: HEAD_BYTES,
        send_buffer: SEND_BUFFER,
        ping_after: config.keepalive_interval,
        ping_timeout: config.keepalive_timeout,
    }
}

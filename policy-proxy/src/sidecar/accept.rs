//! Accept loop: looks up each connection's original destination and dispatches it.

use super::accepted::AcceptedConnection;
use super::copy::HttpWatch;
use super::detect::Detection;
use super::direct::{self, DirectConnection};
use super::dispatch;
use super::io::ClientIo;
use super::listen::BoundListener;
use super::opaque;
use super::original_dst::{fold, original_dst};
use super::outbound;
use super::server_first::ServerFirst;
use super::settings::{Listener, Target};
use super::tls::{self, InboundPath, TlsDetection};
use super::worker::Worker;
use crate::admin::Admin;
use policy_core::{Protocol, fold_mapped};
use policy_enforce::error::ErrorKind;
use policy_tls::peer::{Peer, PeerTls};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

/// Accepts until the task is aborted. Without free descriptors or memory it backs off before it
/// tries again; any other error concerns one connection.
pub(super) async fn run(worker: Rc<Worker>, bound: BoundListener) {
    let BoundListener { socket, address, target } = bound;
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%address, %error, "cannot register the listening socket");
            return;
        }
    };
    let mut backoff = MIN_BACKOFF;
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                backoff = MIN_BACKOFF;
                worker.shared.store.telemetry().transport.accepted.inc();
                let worker = Rc::clone(&worker);
                if target.is_outbound() {
                    spawn_local(outbound::accept(worker, target, stream, from));
                } else {
                    accept(&worker, target, stream, from);
                }
            }
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                tracing::warn!(%address, %error, "cannot accept");
                tokio::time::sleep(backoff).await;
                backoff = backoff.saturating_mul(2).min(MAX_BACKOFF);
            }
        }
    }
}

fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    [K::ConnectionAborted, K::ConnectionReset, K::ConnectionRefused, K::Interrupted]
        .contains(&error.kind())
}

/// Takes a place for a connection and serves it in a task of its own, which is aborted if it has to give
/// its place to another before it is known what it speaks.
fn accept(worker: &Rc<Worker>, target: Target, stream: TcpStream, from: SocketAddr) {
    let client = worker.client(from);
    let Some(destination) = destination(&worker.shared.listening, target, &stream, from) else {
        return worker.tcp_error(ErrorKind::Destination, client);
    };
    if let Some(admin) = destination.captured(worker, target) {
        // An error concerns the client alone. A probe must not delay draining.
        spawn_local(async move { admin.serve_captured(stream, client).await });
        return;
    }
    let Some(permit) = worker.acquire_connection(destination.port(), client) else {
        return worker.tcp_error(ErrorKind::TooManyConnections, client);
    };
    let (place, at) = (permit.place(), SystemTime::now());
    let worker = Rc::clone(worker);
    let task = match destination {
        Destination::Application { port, upstream } => {
            let handle = worker.shared.store.port_for(port, client.ip());
            let accepted = AcceptedConnection { worker, permit, handle, client, upstream, at };
            spawn_local(arrive(accepted, target, stream))
        }
        Destination::Direct { own } => {
            let direct = DirectConnection { worker, permit, client, own, at };
            spawn_local(direct::accept(direct, stream))
        }
    };
    place.arrives_in(task.abort_handle());
}

/// Finds out what a redirected connection speaks.
async fn arrive(accepted: AcceptedConnection, target: Target, stream: TcpStream) {
    let client = accepted.client;
    accepted.wait_for_policy().await;
    if target == Target::Original {
        let local = stream.local_addr().ok().map(|local| fold_mapped(local.ip()));
        if !accepted.is_for_this_pod(local) {
            return accepted.worker.tcp_error(ErrorKind::Destination, client);
        }
    }
    if accepted.protocol() == Protocol::Opaque {
        let peer = Peer::new(client, PeerTls::Absent);
        let io = ClientIo::plain(bytes::Bytes::new(), stream);
        spawn_local(opaque::forward(accepted, peer, io, HttpWatch::Off, None));
        return;
    }
    let mut server = accepted.server_first();
    if accepted.would_carry_bytes(&Peer::new(client, PeerTls::Absent)) {
        // Boxed: larger than everything else, and over with the client's first byte.
        if Box::pin(server.precedes(&stream, &accepted.worker.shared)).await {
            return serve_first(accepted, stream, server);
        }
    }
    let mut bounds = tls::Bounds::of(&accepted.worker.shared.config);
    bounds.detect = bounds.detect.saturating_sub(server.elapsed());
    let identity = &accepted.worker.shared.identity;
    let TlsDetection { io, tls, proof } =
        match tls::detect(stream, identity, InboundPath::Application, bounds).await {
            Ok(detection) => detection,
            Err(kind) => return accepted.worker.tcp_error(kind, accepted.client),
        };
    let peer = Peer::new(accepted.client, tls).proved_by(proof);
    dispatch::dispatch(accepted, peer, io, None, server).await;
}

/// Serves a stranger whose application spoke first.
fn serve_first(accepted: AcceptedConnection, stream: TcpStream, server: Box<ServerFirst>) {
    let stranger = Peer::new(accepted.client, PeerTls::Absent);
    let io = ClientIo::plain(bytes::Bytes::new(), stream);
    accepted.record_detection(Detection::ServerFirst, server.elapsed());
    dispatch::serve_detected(accepted, stranger, io, Detection::ServerFirst, server);
}

/// The destination of an inbound connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// The application, under the policy of `port`.
    Application { port: NonZeroU16, upstream: SocketAddr },
    /// The sidecar's own port, where the client names the port that it wants.
    Direct { own: SocketAddr },
}

impl Destination {
    /// The port whose connection limit applies for now.
    fn port(self) -> NonZeroU16 {
        match self {
            Self::Application { port, .. } => port,
            Self::Direct { own } => NonZeroU16::new(own.port()).unwrap_or(NonZeroU16::MIN),
        }
    }

    /// The admin server, if the connection was redirected from the port that proves it.
    fn captured(self, worker: &Worker, target: Target) -> Option<Admin> {
        let config = &worker.shared.config;
        let probed = config.capture.as_ref().filter(|_| target == Target::Original)?.port();
        config
            .admin
            .clone()
            .filter(|_| matches!(self, Self::Application { port, .. } if port == probed))
    }
}

/// The destination of a connection; `None` if it must not be forwarded, whatever the pod's
/// addresses are.
fn destination(
    listening: &[Listener],
    target: Target,
    stream: &TcpStream,
    from: SocketAddr,
) -> Option<Destination> {
    let local = || stream.local_addr().ok().map(fold);
    match target {
        Target::Fixed { port, upstream } => Some(Destination::Application { port, upstream }),
        Target::Direct => local().map(|own| Destination::Direct { own }),
        Target::Outbound | Target::OutboundTo(_) => None,
        Target::Original => {
            // A connection without an entry in connection tracking was not redirected: its
            // destination is the address that it arrived at.
            let original = original_dst(stream, from).ok().or_else(local)?;
            redirected(original, local()?, listening)
        }
    }
}

/// The destination of a redirected connection: one to the listener itself is direct; none for
/// loopback and for other listeners of the sidecar.
fn redirected(
    original: SocketAddr,
    local: SocketAddr,
    listening: &[Listener],
) -> Option<Destination> {
    if original.port() == local.port() {
        return Some(Destination::Direct { own: original });
    }
    let loops = listening.iter().any(|own| own.address.port() == original.port());
    let local = original.ip().is_loopback() || original.ip().is_unspecified();
    let port = NonZeroU16::new(original.port()).filter(|_| !loops && !local)?;
    Some(Destination::Application { port, upstream: original })
}

const MIN_BACKOFF: Duration = Duration::from_millis(10);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Size of the future of [`arrive`], for the test that bounds it.
#[cfg(test)]
pub(super) fn size_of_arrive() -> usize {
    fn size<F>(_: fn(AcceptedConnection, Target, TcpStream) -> F) -> usize {
        size_of::<F>()
    }
    size(arrive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_itself_is_the_direct_path_and_loopback_and_other_listeners_lead_nowhere() {
        let to = |original: &str| {
            let address = |port| SocketAddr::from(([0, 0, 0, 0], port));
            let listening = [
                Listener { address: address(4143), target: Target::Original },
                Listener { address: address(9080), target: Target::Direct },
            ];
            let local = "10.1.2.3:4143".parse().unwrap();
            redirected(original.parse().unwrap(), local, &listening)
        };
        for forwarded in ["10.1.2.3:80", "[fd00::3]:80"] {
            let upstream = forwarded.parse().unwrap();
            let port = NonZeroU16::new(80).unwrap();
            assert_eq!(to(forwarded), Some(Destination::Application { port, upstream }));
        }
        let own = "10.1.2.3:4143".parse().unwrap();
        assert_eq!(to("10.1.2.3:4143"), Some(Destination::Direct { own }));
        for refused in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "0.0.0.0:80", "10.1.2.3:9080"] {
            assert_eq!(to(refused), None, "{refused}");
        }
    }
}

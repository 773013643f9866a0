//! Accepts connections, finds out where they were going, and hands them to what carries them.

use super::arrival::Arrival;
use super::detect::{self, Detected, Spoken};
use super::hello::Scan;
use super::io::ClientIo;
use super::listen::Bound;
use super::tls::{self, Recognised};
use super::worker::Worker;
use super::{Target, http, opaque};
use crate::peer::{Peer, PeerTls};
use crate::record::ErrorKind;
use crate::store::Live;
use policy_core::{Denied, Protocol, fold_mapped};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

/// Accepts until the task is aborted. Out of descriptors or memory, it waits before it tries again;
/// any other error concerns one connection.
pub(super) async fn run(worker: Rc<Worker>, bound: Bound) {
    let Bound { socket, address, target } = bound;
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%address, %error, "cannot watch the listening socket");
            return;
        }
    };
    let mut pause = FIRST_PAUSE;
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                pause = FIRST_PAUSE;
                worker.shared.store.telemetry().transport.opened.inc();
                spawn_local(arrive(Rc::clone(&worker), target, stream, from));
            }
            Err(error) if concerns_one(&error) => {}
            Err(error) => {
                tracing::warn!(%address, %error, "cannot accept");
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(LAST_PAUSE);
            }
        }
    }
}

fn concerns_one(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    [K::ConnectionAborted, K::ConnectionReset, K::ConnectionRefused, K::Interrupted]
        .contains(&error.kind())
}

async fn arrive(worker: Rc<Worker>, target: Target, stream: TcpStream, from: SocketAddr) {
    let client = worker.client(from);
    let (port, upstream) = match destination(&worker.shared.listening, target, &stream, from) {
        Some(known) => known,
        None => {
            worker.shared.store.telemetry().transport.closed.inc();
            return worker.tcp_error(ErrorKind::Destination, client);
        }
    };
    let Some(seat) = worker.seat(port) else {
        worker.shared.store.telemetry().transport.closed.inc();
        return worker.tcp_error(ErrorKind::TooManyConnections, client);
    };
    // Without it, small writes wait for acknowledgements; a socket that refuses is already dead.
    let _ = stream.set_nodelay(true);
    let handle = worker.shared.store.port(port);
    let at = SystemTime::now();
    let arrival = Arrival { worker, seat, handle, client, upstream, at };
    if matches!(**arrival.handle.live(), Live::Waiting) {
        // Still waiting afterwards is decided like any other state: as `policy_pending`.
        let _ = arrival.handle.ready(arrival.worker.shared.config.timeouts.pending_policy).await;
    }
    if target == Target::Original && !arrival.is_ours(&stream) {
        return arrival.worker.tcp_error(ErrorKind::Destination, client);
    }
    if arrival.protocol() == Protocol::Opaque {
        let peer = Peer::new(client, PeerTls::Absent);
        let io = ClientIo::plain(bytes::Bytes::new(), stream);
        spawn_local(opaque::carry(arrival, peer, io, false));
        return;
    }
    recognise(arrival, stream).await;
}

async fn recognise(arrival: Arrival, stream: TcpStream) {
    let config = &arrival.worker.shared.config;
    let bounds = tls::Bounds {
        detect: config.timeouts.detect,
        handshake: config.timeouts.handshake,
        buffer: config.limits.tls_buffer,
    };
    let Recognised { io, tls } =
        match tls::recognise(stream, &arrival.worker.shared.identity, bounds).await {
            Ok(recognised) => recognised,
            Err(kind) => return arrival.worker.tcp_error(kind, arrival.client),
        };
    let peer = Peer::new(arrival.client, tls);
    match (arrival.protocol(), peer.tls()) {
        (Protocol::Opaque, _) | (_, PeerTls::Passthrough) => {
            spawn_local(opaque::carry(arrival, peer, io, false));
        }
        (Protocol::Tls, PeerTls::Absent) => arrival.refuse(&peer, Denied::TlsRequired),
        (Protocol::Tls, PeerTls::Terminated(_)) => inner_tls(arrival, peer, io).await,
        (Protocol::Detect { timeout }, _) => speak(arrival, peer, io, timeout).await,
        (Protocol::Http1 | Protocol::Http2 | Protocol::Grpc, _) => {
            let bound = arrival.worker.shared.config.timeouts.detect;
            speak(arrival, peer, io, bound).await;
        }
    }
}

/// A Server whose protocol is TLS wants a ClientHello of the workload's own, inside a mesh
/// connection too.
async fn inner_tls(arrival: Arrival, peer: Peer, mut io: ClientIo) {
    let bound = arrival.worker.shared.config.timeouts.detect;
    let read = tokio::time::timeout(bound, tls::read_hello(&mut io)).await;
    match read {
        Ok(Ok((seen, Scan::Hello(_)))) => {
            io.unread(seen);
            spawn_local(opaque::carry(arrival, peer, io, false));
        }
        Ok(Ok((_, Scan::NotTls | Scan::Partial))) => arrival.refuse(&peer, Denied::TlsRequired),
        Ok(Err(_)) => arrival.worker.tcp_error(ErrorKind::Io, arrival.client),
        Err(_) => arrival.worker.tcp_error(ErrorKind::TlsDetectTimeout, arrival.client),
    }
}

/// Looks for HTTP, and carries what is found if the Server declares it.
async fn speak(arrival: Arrival, peer: Peer, mut io: ClientIo, bound: Duration) {
    let begun = Instant::now();
    let detected = match detect::detect(&mut io, bound).await {
        Ok(detected) => detected,
        Err(_) => return arrival.worker.tcp_error(ErrorKind::Io, arrival.client),
    };
    let protocol = arrival.protocol();
    let transport = &arrival.worker.shared.store.telemetry().transport;
    transport.detect_seconds.observe(begun.elapsed().as_secs_f64());
    arrival.count_detected(detected);
    let spoken = match detected {
        Detected::Ended => return,
        Detected::Told(spoken) => spoken,
        Detected::Silent if protocol == Protocol::Http1 => Spoken::Http1,
        Detected::Silent => Spoken::Other,
    };
    let meshed = matches!(peer.tls(), PeerTls::Terminated(_));
    match (spoken, protocol) {
        (_, Protocol::Opaque | Protocol::Tls) | (Spoken::Other, Protocol::Detect { .. }) => {
            // A client that was silent may still turn out to speak HTTP.
            let late = detected == Detected::Silent;
            spawn_local(opaque::carry(arrival, peer, io, late));
        }
        (Spoken::Http1, Protocol::Detect { .. } | Protocol::Http1) => {
            spawn_local(http::serve(arrival, peer, io, false));
        }
        (Spoken::Http2, Protocol::Detect { .. } | Protocol::Http2 | Protocol::Grpc) => {
            spawn_local(http::serve(arrival, peer, io, true));
        }
        // A meshed peer may carry HTTP/1 in HTTP/2 (proxy-semantics 1.7).
        (Spoken::Http2, Protocol::Http1) if meshed => {
            spawn_local(http::serve(arrival, peer, io, true));
        }
        (Spoken::Http1 | Spoken::Other, Protocol::Http2 | Protocol::Grpc)
        | (Spoken::Http2 | Spoken::Other, Protocol::Http1) => {
            arrival.refuse(&peer, Denied::ProtocolMismatch);
        }
    }
}

/// The workload's port and the application's address; `None` if the connection must not be forwarded
/// whatever the pod's addresses are.
fn destination(
    listening: &[SocketAddr],
    target: Target,
    stream: &TcpStream,
    from: SocketAddr,
) -> Option<(NonZeroU16, SocketAddr)> {
    match target {
        Target::Fixed { port, upstream } => Some((port, upstream)),
        Target::Original => {
            let original = original(stream, from).ok()?;
            forwardable(original, listening).map(|port| (port, original))
        }
    }
}

/// The port, unless this is redirected loopback traffic or a loop through ourselves.
fn forwardable(original: SocketAddr, listening: &[SocketAddr]) -> Option<NonZeroU16> {
    let loops = listening.iter().any(|own| own.port() == original.port());
    let local = original.ip().is_loopback() || original.ip().is_unspecified();
    NonZeroU16::new(original.port()).filter(|_| !loops && !local)
}

/// Where netfilter says the connection was going. The option depends on the family that the client
/// really uses, not on the listener's.
fn original(stream: &TcpStream, from: SocketAddr) -> io::Result<SocketAddr> {
    let socket = SockRef::from(stream);
    let address = match fold_mapped(from.ip()) {
        std::net::IpAddr::V4(_) => socket.original_dst_v4()?,
        std::net::IpAddr::V6(_) => socket.original_dst_v6()?,
    };
    let address = address.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(SocketAddr::new(fold_mapped(address.ip()), address.port()))
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// For the test that bounds it.
#[cfg(test)]
pub(super) fn size_of_arrive() -> usize {
    fn size<F>(_: fn(Rc<Worker>, Target, TcpStream, SocketAddr) -> F) -> usize {
        size_of::<F>()
    }
    size(arrive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_the_listener_itself_are_not_forwarded_to() {
        let port = |original: &str| {
            let listening = ["0.0.0.0:4143".parse().unwrap()];
            forwardable(original.parse().unwrap(), &listening).map(NonZeroU16::get)
        };
        assert_eq!(port("10.1.2.3:80"), Some(80));
        assert_eq!(port("[fd00::3]:80"), Some(80));
        for refused in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "0.0.0.0:80", "10.1.2.3:4143"] {
            assert_eq!(port(refused), None, "{refused}");
        }
    }
}

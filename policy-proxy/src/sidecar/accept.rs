//! Accepts connections, finds out where they were going, and hands them to what carries them.

use super::detect::{self, Detected, Spoken};
use super::handle::StartError;
use super::hello::Scan;
use super::io::ClientIo;
use super::tls::{self, Recognised};
use super::worker::{Seat, Worker};
use super::{Listener, Target, http, opaque};
use crate::peer::{Peer, PeerTls};
use crate::record::{Decided, ErrorKind};
use crate::store::{Live, PortHandle};
use policy_core::{Denial, Denied, Protocol, fold_mapped};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

/// A listening socket of one worker.
pub(super) struct Bound {
    socket: std::net::TcpListener,
    address: SocketAddr,
    target: Target,
}

/// A connection whose destination is known.
pub(super) struct Arrival {
    pub(super) worker: Rc<Worker>,
    pub(super) seat: Seat,
    pub(super) handle: PortHandle,
    pub(super) client: SocketAddr,
    pub(super) upstream: SocketAddr,
    pub(super) at: SystemTime,
}

impl Bound {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Binds every listener once per worker.
pub(super) fn bind(
    listeners: &[Listener],
    workers: NonZeroUsize,
) -> Result<Vec<Vec<Bound>>, StartError> {
    let mut all: Vec<Vec<Bound>> = (0..workers.get()).map(|_| Vec::new()).collect();
    for listener in listeners {
        let failed = |error| StartError::Listen { address: listener.address, error };
        let shared = workers.get() > 1;
        if shared && listener.address.port() != 0 {
            // With SO_REUSEPORT alone, another process of the same user would go unnoticed.
            listen(listener.address, false).map_err(failed)?;
        }
        let mut address = listener.address;
        for own in &mut all {
            let socket = listen(address, shared).map_err(failed)?;
            address = socket.local_addr().map_err(failed)?;
            own.push(Bound { socket, address, target: listener.target });
        }
    }
    Ok(all)
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // Connections inherit it: a client that vanished without a word does not stay for ever.
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(QUIET).with_interval(ASKED_AGAIN))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

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

impl Arrival {
    /// How the connection is to be read now. Without a policy to say, HTTP is looked for, so that
    /// the refusal can be told.
    fn protocol(&self) -> Protocol {
        let timeout = self.worker.shared.config.timeouts.detect;
        let live = self.handle.live();
        live.in_force()
            .map_or(Protocol::Detect { timeout }, |policy| policy.evaluator.policy().protocol)
    }

    /// Whether the connection was going to the pod. Asked once policy is there, or will not be, since
    /// the facts beside it state the pod's addresses.
    fn is_ours(&self, stream: &TcpStream) -> bool {
        let live = self.handle.live();
        let facts: &[IpAddr] = live.in_force().map_or(&[], |policy| &policy.facts.pod_addresses);
        let configured: &[IpAddr] = &self.worker.shared.config.pod_addresses;
        let local = stream.local_addr().ok().map(|local| fold_mapped(local.ip()));
        is_one_of(self.upstream.ip(), [facts, configured], local)
    }

    /// Closes a connection that is not of the kind that the Server declares.
    fn refuse(&self, peer: &Peer, reason: Denied) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        let worker = &self.worker;
        if let Some(policy) = policy {
            let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
            policy.counters.tcp_denied(worker.index, caller, reason);
        }
        let decided = Decided {
            at: self.at,
            port: self.handle.port(),
            peer,
            policy: policy.map(|policy| &**policy),
            decision: Err(Denial { reason, route: None }),
        };
        worker.record(&decided, None);
        if reason == Denied::ProtocolMismatch {
            worker.tcp_error(ErrorKind::ProtocolMismatch, self.client);
        }
    }

    fn count_detected(&self, detected: Detected) {
        use crate::telemetry::Detected as Counted;
        let counted = match detected {
            Detected::Told(Spoken::Http1) => Counted::Http1,
            Detected::Told(Spoken::Http2) => Counted::Http2,
            Detected::Told(Spoken::Other) => Counted::NotHttp,
            Detected::Silent => Counted::Timeout,
            Detected::Ended => Counted::Error,
        };
        if let Ok(policy) = self.handle.live().in_force() {
            policy.counters.detected(self.worker.index, counted);
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

/// What is stated of the pod's addresses decides alone. Where nothing is, the pod is reached at the
/// address that this end of the connection has.
fn is_one_of(address: IpAddr, stated: [&[IpAddr]; 2], local: Option<IpAddr>) -> bool {
    if stated.iter().all(|stated| stated.is_empty()) {
        return local == Some(address);
    }
    stated.iter().any(|stated| stated.iter().any(|ip| fold_mapped(*ip) == address))
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

const BACKLOG: i32 = 1024;
/// After this long without a byte a client is asked whether it is still there.
const QUIET: Duration = Duration::from_secs(60);
const ASKED_AGAIN: Duration = Duration::from_secs(10);
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

    #[test]
    fn stated_addresses_decide_alone_and_the_sockets_own_only_without_them() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (pod, other) = (ip("10.1.2.3"), ip("10.1.2.4"));
        assert!(is_one_of(pod, [&[pod], &[]], None));
        assert!(is_one_of(pod, [&[], &[ip("::ffff:10.1.2.3")]], None));
        assert!(!is_one_of(other, [&[pod], &[]], Some(other)), "an address of the host's");
        assert!(is_one_of(other, [&[], &[]], Some(other)));
        assert!(!is_one_of(other, [&[], &[]], Some(pod)));
        assert!(!is_one_of(other, [&[], &[]], None));
    }
}

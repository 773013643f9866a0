//! The direct path: a meshed client connects to our own port and says in a transport header which port
//! of the workload it wants (proxy-semantics 1.6).
//!
//! The port's policy decides as it does on a redirected connection. What the header says of the protocol
//! spares looking for it and grants nothing: where it says nothing, HTTP is looked for, so that nobody
//! passes by HTTP policy by keeping silent.

use super::arrival::Arrival;
use super::carry;
use super::first_line::Spoken;
use super::io::ClientIo;
use super::settings::{Listener, Target};
use super::tls::{self, Face, Recognised};
use super::worker::{Seat, Worker};
use bytes::BytesMut;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use policy_enforce::error::ErrorKind;
use policy_enforce::respond;
use policy_enforce::respond::{Answer, ResponseFormat};
use policy_proto::transport::{self, Header, Session};
use policy_tls::peer::{Peer, PeerTls};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::time::SystemTime;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// A connection to our own port.
pub(super) struct Direct {
    pub(super) worker: Rc<Worker>,
    pub(super) seat: Seat,
    pub(super) client: SocketAddr,
    /// The address that the client connected to.
    pub(super) own: SocketAddr,
    pub(super) at: SystemTime,
}

/// Finds out who the client is and which port it wants, and hands the connection on.
pub(super) async fn arrive(direct: Direct, stream: TcpStream) {
    let (peer, io, header) = match introduce(&direct, stream).await {
        Ok(introduced) => introduced,
        Err(kind) => return direct.worker.tcp_error(kind, direct.client),
    };
    let protocol = match header.session {
        Some(Session::Http1) => "http/1",
        Some(Session::Http2) => "http/2",
        None => "",
    };
    let telemetry = direct.worker.shared.store.telemetry();
    telemetry.transport_header(protocol, header.port, telemetry.caller(&peer.as_tls()));
    if header.name.is_some() {
        direct.worker.tcp_error(ErrorKind::Gateway, direct.client);
        return refuse_gateway(&direct, &peer, io, header.session).await;
    }
    let Direct { worker, mut seat, client, own, at } = direct;
    let port = header.port;
    if worker.leads_back(port) {
        return worker.tcp_error(ErrorKind::Loop, client);
    }
    if !seat.move_to(port) {
        return worker.tcp_error(ErrorKind::TooManyConnections, client);
    }
    let fixed = worker.fixed(port);
    let redirected = worker.is_redirected().then(|| SocketAddr::new(own.ip(), port.get()));
    let Some(upstream) = fixed.or(redirected) else {
        return worker.tcp_error(ErrorKind::Destination, client);
    };
    let handle = worker.shared.store.port_for(port, client.ip());
    let arrival = Arrival { worker, seat, handle, client, upstream, at };
    arrival.policy_there().await;
    if fixed.is_none() && !arrival.is_ours(not_loopback(own.ip())) {
        return arrival.worker.tcp_error(ErrorKind::Destination, client);
    }
    let admin = arrival.worker.shared.config.admin.clone();
    if let Some(admin) = admin.filter(|admin| admin.port() == port.get()) {
        // A scraper that keeps its connection open does not hold up draining.
        drop(arrival);
        spawn_local(async move {
            // Whatever goes wrong on an admin connection concerns its client alone.
            let _ = admin.carry(io, peer).await;
        });
        return;
    }
    let said = header.session.map(|session| match session {
        Session::Http1 => Spoken::Http1,
        Session::Http2 => Spoken::Http2,
    });
    carry::recognised(arrival, peer, io, said).await;
}

/// Loopback is the pod's only where that is stated.
fn not_loopback(address: IpAddr) -> Option<IpAddr> {
    (!address.is_loopback()).then_some(address)
}

/// Terminates TLS, which has to prove an identity, and reads the header.
async fn introduce(
    direct: &Direct,
    stream: TcpStream,
) -> Result<(Peer, ClientIo, Header), ErrorKind> {
    let shared = &direct.worker.shared;
    let bounds = tls::Bounds::of(&shared.config);
    let Recognised { mut io, tls, proof } =
        tls::recognise(stream, &shared.identity, Face::Direct, bounds).await?;
    match &tls {
        PeerTls::Terminated(Some(_)) => {}
        PeerTls::Terminated(None) | PeerTls::Absent | PeerTls::Passthrough => {
            return Err(ErrorKind::DirectUnauthenticated);
        }
    }
    match timeout(bounds.detect, read_header(&mut io)).await {
        Ok(Ok(header)) => Ok((Peer::new(direct.client, tls).proved_by(proof), io, header)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(ErrorKind::TransportHeader)
        }
        Ok(Err(_)) => Err(ErrorKind::Io),
        Err(_) => Err(ErrorKind::TransportHeader),
    }
}

/// Reads the header, bounded in bytes; what follows it is put back.
async fn read_header(io: &mut ClientIo) -> io::Result<Header> {
    let mut seen = BytesMut::with_capacity(FIRST_READ);
    loop {
        let read = io.read_buf(&mut seen).await?;
        match transport::scan(&seen) {
            Ok(Some((header, length))) => {
                let _ = seen.split_to(length.min(seen.len()));
                io.unread(seen.freeze());
                return Ok(header);
            }
            Ok(None) if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(None) => seen.reserve(FIRST_READ),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}

/// HTTP is told that there is no gateway here; everything else is closed.
async fn refuse_gateway(direct: &Direct, peer: &Peer, io: ClientIo, session: Option<Session>) {
    let Some(session) = session else { return };
    let meshed = peer.is_meshed();
    let service = service_fn(move |request: Request<Incoming>| async move {
        let (head, _) = request.into_parts();
        let answer = respond::respond(&Answer::Gateway, &ResponseFormat::of(&head, meshed));
        Ok::<Response<_>, Infallible>(answer.map(Full::new))
    });
    let (io, bound) = (TokioIo::new(io), direct.worker.shared.config.timeouts.request_head);
    // What goes wrong meanwhile concerns a client that is refused anyway.
    match session {
        Session::Http1 => {
            let mut builder = http1::Builder::new();
            builder.keep_alive(false);
            let _ = timeout(bound, builder.serve_connection(io, service)).await;
        }
        Session::Http2 => {
            let mut builder = http2::Builder::new(LocalExecutor);
            builder.timer(TokioTimer::new()).max_concurrent_streams(REFUSED_STREAMS);
            let _ = timeout(bound, builder.serve_connection(io, service)).await;
        }
    }
}

/// Runs the tasks of a connection that is refused on the worker's thread.
#[derive(Clone, Copy, Debug)]
struct LocalExecutor;

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}

impl Worker {
    /// Whether a connection to `port` would come back to us.
    fn leads_back(&self, port: NonZeroU16) -> bool {
        self.shared.listening.iter().any(|own| match own.target {
            Target::Original | Target::Direct => own.address.port() == port.get(),
            Target::Fixed { .. } => false,
        })
    }

    /// The application of `port`, where a listener states it.
    fn fixed(&self, port: NonZeroU16) -> Option<SocketAddr> {
        self.shared.listening.iter().find_map(|own| match own.target {
            Target::Fixed { port: of, upstream } if of == port => Some(upstream),
            Target::Fixed { .. } | Target::Original | Target::Direct => None,
        })
    }

    fn is_redirected(&self) -> bool {
        self.shared.listening.iter().any(|Listener { target, .. }| *target == Target::Original)
    }
}

/// Holds a usual header and the head of a request behind it.
const FIRST_READ: usize = 2048;
/// Streams of one client that are refused at a time.
const REFUSED_STREAMS: u32 = 16;

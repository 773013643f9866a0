//! The direct path: a meshed client connects to the proxy's own port and names the workload's port
//! in a transport header (docs/spec/proxy.md 1.6).
//!
//! The port's policy decides as it does on a redirected connection. The protocol in the header
//! saves its detection and grants nothing: without it HTTP is detected, so that a client cannot
//! evade HTTP policy by leaving it out.

use super::accepted::AcceptedConnection;
use super::dispatch;
use super::first_line::WireProtocol;
use super::io::ClientIo;
use super::settings::{Listener, Target};
use super::tls::{self, InboundPath, TlsDetection};
use super::worker::{ConnectionPermit, Worker};
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

/// A connection to the proxy's own port.
pub(super) struct DirectConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) permit: ConnectionPermit,
    pub(super) client: SocketAddr,
    /// The address that the client connected to.
    pub(super) own: SocketAddr,
    pub(super) at: SystemTime,
}

/// Authenticates the client, reads the transport header, and dispatches the connection.
pub(super) async fn accept(direct: DirectConnection, stream: TcpStream) {
    let (peer, io, header) = match authenticate(&direct, stream).await {
        Ok(authenticated) => authenticated,
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
    let DirectConnection { worker, mut permit, client, own, at } = direct;
    let port = header.port;
    if worker.is_own_listener(port) {
        return worker.tcp_error(ErrorKind::Loop, client);
    }
    if !permit.move_to(port) {
        return worker.tcp_error(ErrorKind::TooManyConnections, client);
    }
    let fixed = worker.fixed_upstream(port);
    let redirected = worker.is_redirected().then(|| SocketAddr::new(own.ip(), port.get()));
    let Some(upstream) = fixed.or(redirected) else {
        return worker.tcp_error(ErrorKind::Destination, client);
    };
    let handle = worker.shared.store.port_for(port, client.ip());
    let accepted = AcceptedConnection { worker, permit, handle, client, upstream, at };
    accepted.wait_for_policy().await;
    if fixed.is_none() && !accepted.is_for_this_pod(not_loopback(own.ip())) {
        return accepted.worker.tcp_error(ErrorKind::Destination, client);
    }
    let admin = accepted.worker.shared.config.admin.clone();
    if let Some(admin) = admin.filter(|admin| admin.port() == port.get()) {
        // An idle connection of a scraper must not delay draining.
        drop(accepted);
        spawn_local(async move {
            // An error on an admin connection concerns its client alone.
            let _ = admin.serve_connection(io, peer).await;
        });
        return;
    }
    let hint = header.session.map(|session| match session {
        Session::Http1 => WireProtocol::Http1,
        Session::Http2 => WireProtocol::Http2,
    });
    let server = accepted.server_first();
    dispatch::dispatch(accepted, peer, io, hint, server).await;
}

/// The address, unless it is loopback: loopback belongs to the pod only where it is stated.
fn not_loopback(address: IpAddr) -> Option<IpAddr> {
    (!address.is_loopback()).then_some(address)
}

/// Terminates TLS, which must authenticate the client, and reads the transport header.
async fn authenticate(
    direct: &DirectConnection,
    stream: TcpStream,
) -> Result<(Peer, ClientIo, Header), ErrorKind> {
    let shared = &direct.worker.shared;
    let bounds = tls::Bounds::of(&shared.config);
    let TlsDetection { mut io, tls, proof } =
        tls::detect(stream, &shared.identity, InboundPath::Direct, bounds).await?;
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

/// Reads the transport header, bounded in bytes, and puts the bytes behind it back.
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

/// Refuses a connection for a gateway: with an HTTP response if HTTP follows, else by closing.
async fn refuse_gateway(
    direct: &DirectConnection,
    peer: &Peer,
    io: ClientIo,
    session: Option<Session>,
) {
    let Some(session) = session else { return };
    let meshed = peer.is_meshed();
    let detail = direct.worker.shared.config.refusal_detail;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let (head, _) = request.into_parts();
        let answer = respond::respond(&Answer::Gateway, &ResponseFormat::of(&head, meshed, detail));
        Ok::<Response<_>, Infallible>(answer.map(Full::new))
    });
    let (io, bound) = (TokioIo::new(io), direct.worker.shared.config.timeouts.request_head);
    // Errors concern a client that is refused anyway.
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

/// Spawns the tasks of a refused connection on the worker's thread.
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
    /// True if a connection to `port` would come back to the proxy.
    fn is_own_listener(&self, port: NonZeroU16) -> bool {
        self.shared.listening.iter().any(|own| match own.target {
            Target::Original | Target::Direct => own.address.port() == port.get(),
            Target::Outbound | Target::OutboundTo(_) => own.address.port() == port.get(),
            Target::Fixed { .. } => false,
        })
    }

    /// The fixed upstream of `port`, if a listener states one.
    fn fixed_upstream(&self, port: NonZeroU16) -> Option<SocketAddr> {
        self.shared.listening.iter().find_map(|own| match own.target {
            Target::Fixed { port: of, upstream } if of == port => Some(upstream),
            Target::Fixed { .. }
            | Target::Original
            | Target::Direct
            | Target::Outbound
            | Target::OutboundTo(_) => None,
        })
    }

    fn is_redirected(&self) -> bool {
        self.shared.listening.iter().any(|Listener { target, .. }| *target == Target::Original)
    }
}

/// Bytes that hold a usual header and the request head behind it.
const FIRST_READ: usize = 2048;
/// Concurrent streams of a refused client.
const REFUSED_STREAMS: u32 = 16;

//! Connections and requests that are decided on without a layer in front.

use http::{Request, StatusCode};
use policy_core::evaluator::Memo;
use policy_core::target::canonical_target;
use policy_core::{Decision, Denied, RequestView};
use policy_enforce::PortHandle;
use policy_server::TlsHandle;
use policy_tls::peer::{Peer, PeerTls};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Timeout of a client's first byte.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// The type of a record that begins a TLS connection (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Bytes to and from a client of the admin port, whatever is below.
pub type AdminStream = Pin<Box<dyn Duplex>>;

/// Both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// The answer to a request that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its text: the reason.
    pub text: &'static str,
}

impl Refusal {
    pub(super) fn of(reason: Denied) -> Self {
        Self { status: policy_enforce::respond::status_of(reason), text: reason.as_str() }
    }
}

/// Authenticates a client: one that begins with TLS may prove an identity, if there
/// are credentials to answer with; any other is known by its address.
///
/// # Errors
/// The client sent nothing in time, or the handshake failed.
pub async fn arrive(
    stream: TcpStream,
    client: SocketAddr,
    tls: Option<&TlsHandle>,
) -> io::Result<(AdminStream, Arc<Peer>)> {
    let mut first = [0; 1];
    tokio::time::timeout(FIRST_BYTE, stream.peek(&mut first)).await??;
    let Some(tls) = tls.filter(|_| first == [TLS_HANDSHAKE]) else {
        return Ok((Box::pin(stream), Arc::new(Peer::new(client, PeerTls::Absent))));
    };
    let (stream, identity) = tls.accept_any(stream).await?;
    let peer = Peer::new(client, PeerTls::Terminated(identity));
    Ok((Box::pin(stream), Arc::new(peer)))
}

/// Decides on a connection without reading its bytes.
pub(super) fn connection(handle: &PortHandle, peer: &Peer) -> Result<(), Denied> {
    let live = handle.live();
    let policy = live.in_force()?;
    match policy.evaluator.decide_connection(&peer.connection(&policy.facts)) {
        Decision::Permit(_) => Ok(()),
        Decision::Deny(denial) => Err(denial.reason),
    }
}

/// Decides on a request.
pub(super) fn request<B>(
    handle: &PortHandle,
    peer: &Peer,
    request: &Request<B>,
) -> Result<(), Denied> {
    let live = handle.live();
    let policy = live.in_force()?;
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let handling = policy.evaluator.policy().paths;
    let target = canonical_target(method, uri, request.version(), headers, handling);
    let target = target.map_err(Denied::Target)?;
    let view = RequestView {
        method,
        host: target.host.as_deref(),
        path: &target.path,
        query: target.query,
        headers,
    };
    let connection = peer.connection(&policy.facts);
    match policy.evaluator.decide_request(&connection, &mut Memo::new(), &view) {
        Decision::Permit(_) => Ok(()),
        Decision::Deny(denial) => Err(denial.reason),
    }
}

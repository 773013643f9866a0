//! Detects a ClientHello, terminates TLS for the proxy's server name, and passes all other TLS
//! through.

use super::client_hello::{self, Scan};
use super::io::{ClientIo, Prefixed};
use super::settings::SidecarConfig;
use bytes::{Bytes, BytesMut};
use policy_enforce::error::ErrorKind;
use policy_http::backlog;
use policy_tls::identity::{
    DIRECT_ALPN, HandshakeFailure, IdentityHandle, Proof, TlsIdentity, identity_of,
};
use policy_tls::peer::PeerTls;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Result of the detection: the stream, and its TLS.
pub(super) struct TlsDetection {
    pub(super) io: ClientIo,
    pub(super) tls: PeerTls,
    /// Certificate chain that authenticated the client.
    pub(super) proof: Option<Arc<Proof>>,
}

impl TlsDetection {
    /// A connection without an authenticated client.
    fn unauthenticated(io: ClientIo, tls: PeerTls) -> Self {
        Self { io, tls, proof: None }
    }
}

/// Bounds of [`detect`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) detect: Duration,
    pub(super) handshake: Duration,
    pub(super) buffer: usize,
}

impl Bounds {
    pub(super) fn of(config: &SidecarConfig) -> Self {
        let (timeouts, limits) = (&config.timeouts, &config.limits);
        let (detect, handshake) = (timeouts.detect, timeouts.handshake);
        Self { detect, handshake, buffer: limits.tls_buffer }
    }
}

/// The way by which a connection reached the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboundPath {
    /// Its destination is the application: a client certificate is requested but optional, and no
    /// ALPN protocol is negotiated.
    Application,
    /// Its destination is the proxy: a client certificate and the transport header's ALPN protocol
    /// are required.
    Direct,
}

/// Reads until a ClientHello is complete or ruled out. TLS for the proxy's server name is
/// terminated; other TLS, and TLS without a name, is passed through; anything else is plaintext. A
/// client that sends nothing before the timeout is refused; a server that speaks first precedes this
/// ([`super::server_first`]).
pub(super) async fn detect(
    mut stream: TcpStream,
    identity: &IdentityHandle,
    path: InboundPath,
    bounds: Bounds,
) -> Result<TlsDetection, ErrorKind> {
    let (seen, scan) = match timeout(bounds.detect, read_client_hello(&mut stream)).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => return Err(ErrorKind::Io),
        Err(_) => return Err(ErrorKind::TlsDetectTimeout),
    };
    match scan {
        Scan::Partial | Scan::NotTls => {
            Ok(TlsDetection::unauthenticated(ClientIo::plain(seen, stream), PeerTls::Absent))
        }
        Scan::ClientHello(name) => {
            let current = identity.current();
            let ours = current.as_ref().filter(|own| name.as_deref() == Some(own.server_name()));
            match ours {
                Some(own) => {
                    let own = Arc::clone(own);
                    drop(current);
                    terminate(Prefixed::new(seen, stream), &own, path, bounds).await
                }
                None => Ok(TlsDetection::unauthenticated(
                    ClientIo::plain(seen, stream),
                    PeerTls::Passthrough,
                )),
            }
        }
    }
}

/// Reads bytes until a ClientHello is complete or ruled out, and returns them with the result.
/// [`Scan::Partial`]: the client closed in the middle.
pub(super) async fn read_client_hello<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> std::io::Result<(Bytes, Scan)> {
    let mut seen = BytesMut::with_capacity(FIRST_READ);
    loop {
        let read = stream.read_buf(&mut seen).await?;
        let scan = client_hello::scan(&seen);
        let decided = !matches!(scan, Scan::Partial);
        if decided || read == 0 {
            return Ok((seen.freeze(), scan));
        }
        if seen.len() >= client_hello::MAX_SCAN {
            return Ok((seen.freeze(), Scan::NotTls));
        }
        if seen.len() == seen.capacity() {
            seen.reserve(FIRST_READ);
        }
    }
}

async fn terminate(
    stream: Prefixed<TcpStream>,
    own: &TlsIdentity,
    path: InboundPath,
    bounds: Bounds,
) -> Result<TlsDetection, ErrorKind> {
    let acceptor = TlsAcceptor::from(Arc::clone(match path {
        InboundPath::Application => own.server(),
        InboundPath::Direct => own.direct(),
    }));
    let accept = acceptor.accept_with(stream, |connection| {
        connection.set_buffer_limit(Some(backlog::bounded(bounds.buffer)));
    });
    let stream = match timeout(bounds.handshake, Box::pin(accept)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(handshake_error(&error)),
        Err(_) => return Err(ErrorKind::TlsHandshake),
    };
    let (_, connection) = stream.get_ref();
    if path == InboundPath::Direct && connection.alpn_protocol() != Some(DIRECT_ALPN) {
        return Err(ErrorKind::TransportHeader);
    }
    let chain = connection.peer_certificates();
    let identity = chain.and_then(<[_]>::first).and_then(|leaf| identity_of(leaf));
    // Without an identity there is nothing to reverify.
    let proof = identity.as_ref().and_then(|_| Proof::of(own, chain));
    let io = ClientIo::Tls(Box::new(Prefixed::new(Bytes::new(), stream)));
    Ok(TlsDetection { io, tls: PeerTls::Terminated(identity), proof })
}

fn handshake_error(error: &std::io::Error) -> ErrorKind {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    // Both happen on the direct path alone.
    match cause {
        Some(rustls::Error::NoCertificatesPresented) => return ErrorKind::DirectUnauthenticated,
        Some(rustls::Error::NoApplicationProtocol) => return ErrorKind::TransportHeader,
        Some(_) | None => {}
    }
    match HandshakeFailure::of(error) {
        HandshakeFailure::Version => ErrorKind::TlsVersion,
        HandshakeFailure::Expired => ErrorKind::TlsCertificateExpired,
        HandshakeFailure::Untrusted => ErrorKind::TlsCertificateUntrusted,
        HandshakeFailure::Other => ErrorKind::TlsHandshake,
    }
}

/// Holds a usual ClientHello or request head.
const FIRST_READ: usize = 2048;

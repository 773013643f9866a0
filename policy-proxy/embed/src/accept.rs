//! From a TCP connection to a client: TLS is terminated, and the identity taken from its certificate.

use crate::mesh_tls::MeshTls;
use crate::stream::Transport;
use policy_tls::identity::{Proof, TlsIdentity, identity_of};
use policy_tls::peer::{Peer, PeerTls};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// First byte of a TLS record that has a ClientHello (RFC 8446 section 5.1). No method of HTTP begins
/// with it.
const HANDSHAKE: u8 = 22;

/// A client's connection.
pub(crate) struct Arrival {
    pub(crate) transport: Transport,
    pub(crate) peer: Arc<Peer>,
}

/// Identifies the client of a connection. Without `tls`, every connection is plaintext. `bound` is that of
/// the first byte, and of a handshake.
pub(crate) async fn identify(
    stream: TcpStream,
    remote: SocketAddr,
    tls: Option<&MeshTls>,
    bound: Duration,
) -> io::Result<Arrival> {
    let Some(tls) = tls else { return Ok(plaintext(stream, remote)) };
    let mut first = [0];
    let read = timeout(bound, stream.peek(&mut first)).await.map_err(late)??;
    if read == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first != [HANDSHAKE] {
        return Ok(plaintext(stream, remote));
    }
    let own = tls.identity().current().clone();
    let missing = || io::Error::new(io::ErrorKind::NotConnected, "there is no certificate yet");
    let own = own.ok_or_else(missing)?;
    let accept = TlsAcceptor::from(Arc::new(config(&own))).accept(stream);
    let stream = timeout(bound, Box::pin(accept)).await.map_err(late)??;
    let chain = stream.get_ref().1.peer_certificates();
    let identity = chain.and_then(<[_]>::first).and_then(|leaf| identity_of(leaf));
    // Without an identity there is nothing to verify again.
    let proof = identity.as_ref().and_then(|_| Proof::of(&own, chain));
    let named = stream.get_ref().1.server_name() == Some(own.server_name());
    let tls = match identity {
        // A sidecar would pass it on unread, as TLS for the application: the kubelet's probes are.
        None if !named => PeerTls::Passthrough,
        identity => PeerTls::Terminated(identity),
    };
    let peer = Peer::new(remote, tls).proved_by(proof);
    Ok(Arrival { transport: Transport::Tls(Box::new(stream)), peer: Arc::new(peer) })
}

fn plaintext(stream: TcpStream, remote: SocketAddr) -> Arrival {
    let peer = Arc::new(Peer::new(remote, PeerTls::Absent));
    Arrival { transport: Transport::Plain(stream), peer }
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// Both versions of HTTP, for clients that ask. Sidecars ask for none.
fn config(own: &TlsIdentity) -> ServerConfig {
    let mut config = ServerConfig::clone(own.server());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

//! The destination of a connection before netfilter redirected it.

use policy_core::fold_mapped;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Returns the original destination from netfilter (`SO_ORIGINAL_DST`). The option depends on the
/// address family of the client, not of the listener.
pub(super) fn original_dst(stream: &TcpStream, from: SocketAddr) -> io::Result<SocketAddr> {
    let socket = SockRef::from(stream);
    let address = match fold_mapped(from.ip()) {
        std::net::IpAddr::V4(_) => socket.original_dst_v4()?,
        std::net::IpAddr::V6(_) => socket.original_dst_v6()?,
    };
    let address = address.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(fold(address))
}

/// An address in its one form: IPv4 mapped into IPv6 is IPv4.
pub(super) fn fold(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(fold_mapped(address.ip()), address.port())
}

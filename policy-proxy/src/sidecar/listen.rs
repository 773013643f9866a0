//! Listening sockets: each address once per worker.

use super::limits::SocketOptions;
use super::settings::{Listener, Target};
use rustix::io::Errno;
use socket2::{Domain, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

/// A listening socket of one worker.
pub(super) struct BoundListener {
    pub(super) socket: std::net::TcpListener,
    pub(super) address: SocketAddr,
    pub(super) target: Target,
}

/// Error of starting a sidecar.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("cannot listen on `{address}`: {error}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// A worker's thread or runtime cannot be created.
    #[error("cannot start a worker: {0}")]
    Worker(#[source] io::Error),
}

/// Binds every listener once per worker.
pub(super) fn bind(
    listeners: &[Listener],
    workers: NonZeroUsize,
    sockets: &SocketOptions,
) -> Result<Vec<Vec<BoundListener>>, StartError> {
    let mut all: Vec<Vec<BoundListener>> = (0..workers.get()).map(|_| Vec::new()).collect();
    for listener in listeners {
        let failed = |error| StartError::Listen { address: listener.address, error };
        let shared = workers.get() > 1;
        let sockets = match listener.target.is_outbound() {
            true => SocketOptions { accept_keepalive: OUTBOUND_KEEPALIVE, ..*sockets },
            false => *sockets,
        };
        let mut address = available(listener.address);
        if shared && address.port() != 0 && !lacks_family(address) {
            // With SO_REUSEPORT alone, another process of the same user on the same port would go
            // unnoticed.
            listen(address, false, &sockets).map_err(failed)?;
        }
        if listener.target.is_outbound() && lacks_family(address) {
            tracing::info!(%address, "not listened on: this host has no such address");
            continue;
        }
        for own in &mut all {
            let socket = listen(address, shared, &sockets).map_err(failed)?;
            address = socket.local_addr().map_err(failed)?;
            own.push(BoundListener { socket, address, target: listener.target });
        }
    }
    Ok(all)
}

fn listen(
    address: SocketAddr,
    shared: bool,
    sockets: &SocketOptions,
) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // Accepted connections inherit these. Small writes do not wait for acknowledgements, and a
    // client that vanished without closing is detected.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&keepalive(sockets.accept_keepalive))?;
    if let Some(bound) = sockets.accept_user_timeout {
        socket.set_tcp_user_timeout(Some(bound))?;
    }
    socket.listen(sockets.backlog)?;
    Ok(socket.into())
}

/// TCP keepalive after `quiet` without a byte, then at a fixed interval.
pub(super) fn keepalive(quiet: Duration) -> TcpKeepalive {
    TcpKeepalive::new().with_time(quiet).with_interval(KEEPALIVE_INTERVAL)
}

/// Returns the address to listen on: on a host without IPv6, every address of IPv4 in place of `[::]`,
/// which stands for those of both families.
pub(crate) fn available(address: SocketAddr) -> SocketAddr {
    available_if(address, lacks_family(address))
}

fn available_if(address: SocketAddr, lacks_family: bool) -> SocketAddr {
    if !lacks_family || address.ip() != IpAddr::from(Ipv6Addr::UNSPECIFIED) {
        return address;
    }
    let instead = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
    tracing::info!(%address, %instead, "listening on IPv4 alone: this host has no IPv6");
    instead
}

/// True if an address of IPv6 cannot be had because the host has no IPv6.
fn lacks_family(address: SocketAddr) -> bool {
    let bind = || -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(address.ip(), 0).into())
    };
    let missing = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(|errno| Some(errno.raw_os_error()));
    address.is_ipv6() && bind().is_err_and(|error| missing.contains(&error.raw_os_error()))
}

/// Below 60 s, after which connection tracking forgets a redirected connection that one side has
/// closed.
const OUTBOUND_KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_ipv6_every_address_is_every_address_of_ipv4() {
        let of = |address: &str, lacks| available_if(address.parse().unwrap(), lacks).to_string();
        assert_eq!(of("[::]:4143", true), "0.0.0.0:4143");
        assert_eq!(of("[::]:4143", false), "[::]:4143");
        // A stated address is meant: listening elsewhere would reach others.
        assert_eq!(of("[::1]:4191", true), "[::1]:4191");
        assert_eq!(available("127.0.0.1:4191".parse().unwrap()).to_string(), "127.0.0.1:4191");
    }
}

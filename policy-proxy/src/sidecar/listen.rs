//! Listening sockets: each address once per worker.

use super::limits::SocketOptions;
use super::settings::{Listener, Target};
use rustix::io::Errno;
use socket2::{Domain, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
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
        if shared && listener.address.port() != 0 {
            // With SO_REUSEPORT alone, another process of the same user on the same port would go
            // unnoticed.
            listen(listener.address, false, &sockets).map_err(failed)?;
        }
        let mut address = listener.address;
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

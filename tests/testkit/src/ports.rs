//! Ports of loopback that stay free until a test listens on them, and while it listens on them again.

use anyhow::{Result, bail};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// First port that is given out.
const FIRST: u16 = 16_000;

/// Number of ports that are given out. They end below the range that Linux takes the ports of
/// outgoing connections from (`net.ipv4.ip_local_port_range`, 32768 and up): a port of that range can
/// become the source of anybody's connection before the test listens on it.
const COUNT: u16 = 14_000;

/// Reservations of this process. The kernel drops them when the process ends.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port of 127.0.0.1 that nobody listens on and that no other call returns, in this process or in
/// another one of this network namespace, before this process ends.
///
/// # Errors
/// If 100 random ports are all taken.
pub fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let random = u16::try_from(RandomState::new().build_hasher().finish() % u64::from(COUNT))?;
        let port = FIRST.saturating_add(random);
        // An abstract name exists once in a network namespace, as a port does.
        let name = SocketAddr::from_abstract_name(format!("portcullis-test-port-{port}"))?;
        let Ok(reservation) = UnixListener::bind_addr(&name) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST.saturating_add(COUNT));
}

//! Selection of a part of 127.0.0.0/8, so that two local meshes on one machine do not collide.

use super::addresses::SUBNET;
use ipnet::Ipv4Net;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};

/// A subnet, locked until dropped.
#[derive(Debug)]
pub(crate) struct SubnetLock {
    /// The subnet.
    pub(crate) subnet: Ipv4Net,
    _socket: Option<UdpSocket>,
}

/// Locks `wanted`. If another process holds it, a collision is reported when a port cannot be
/// bound.
pub(crate) fn lock(wanted: Ipv4Net) -> SubnetLock {
    SubnetLock { subnet: wanted, _socket: bind(wanted).ok() }
}

/// Locks the first free subnet, beginning with the default one. Returns the default subnet if none
/// is free.
pub(crate) fn lock_any() -> SubnetLock {
    let [first, second, ..] = SUBNET.network().octets();
    let subnet = |second| Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), 16);
    for candidate in (second..=249).map(subnet) {
        match bind(candidate) {
            Ok(held) => return SubnetLock { subnet: candidate, _socket: Some(held) },
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            // A system without these addresses: starting a pod reports what to do.
            Err(_) => break,
        }
    }
    lock(SUBNET)
}

/// Binds a socket on an address that is never allocated. The kernel releases it when the process
/// ends, however it ends.
fn bind(subnet: Ipv4Net) -> io::Result<UdpSocket> {
    const PORT: u16 = 4190;
    let last = Ipv4Addr::from_bits(subnet.broadcast().to_bits().saturating_sub(1));
    UdpSocket::bind((last, PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_worlds_never_choose_the_same_subnet() {
        let (one, other) = (lock_any(), lock_any());
        assert_ne!(one.subnet, other.subnet);
        let again = one.subnet;
        drop(one);
        let held = lock(again);
        assert_ne!(lock_any().subnet, held.subnet);
    }
}

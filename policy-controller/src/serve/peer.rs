//! Who is connected, and how much one peer may hold open.
//!
//! A peer is an address. Where a sidecar stands in front of the controller every client has the
//! sidecar's address, and the bounds must be set for all of them together.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What is known of the connection that a request arrived on; in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// The client's address, IPv4-mapped IPv6 folded.
    pub(crate) peer: IpAddr,
    /// Cancelled when the connection is to end: its age, or shutdown. Streams end with OK then.
    pub(crate) ending: CancellationToken,
}

/// Counts what peers hold open and refuses what is over the bound.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    limit: u32,
    held: Arc<Mutex<HashMap<IpAddr, u32>>>,
}

/// One thing held open by a peer; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    peer: IpAddr,
    held: Arc<Mutex<HashMap<IpAddr, u32>>>,
}

impl Allowance {
    /// Allows each peer `limit` at once.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, held: Arc::default() }
    }

    /// The bound.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes one for `peer`; `None` if it holds as many as it may.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<Held> {
        let mut held = self.held.lock();
        let count = held.get(&peer).copied().unwrap_or(0);
        if count >= self.limit {
            return None;
        }
        held.insert(peer, count.saturating_add(1));
        Some(Held { peer, held: self.held.clone() })
    }

    #[cfg(test)]
    fn peers(&self) -> usize {
        self.held.lock().len()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        let left = held.get(&self.peer).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            held.remove(&self.peer);
        } else {
            held.insert(self.peer, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_its_limit_and_no_more_and_nothing_is_kept_of_peers_that_left() {
        let allowance = Allowance::new(2);
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = allowance.take(a).unwrap();
        let second = allowance.take(a).unwrap();
        assert!(allowance.take(a).is_none());
        assert!(allowance.take(b).is_some(), "another peer is not affected");
        drop(first);
        let third = allowance.take(a).expect("one was given back");
        drop((second, third));
        assert_eq!(allowance.peers(), 0);
    }

    #[test]
    fn a_limit_of_zero_allows_nothing() {
        assert!(Allowance::new(0).take(IpAddr::from([10, 0, 0, 1])).is_none());
    }
}

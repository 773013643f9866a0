//! Quotas of peers: how much one peer may hold open.
//!
//! A peer is an address, and the identity that was proved from it, if any: clients behind one NAT
//! do not use up each other's share, nor do the pods of one ServiceAccount. Clients without an
//! identity share their address's quota.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The peer that a quota applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// The address; IPv4-mapped IPv6 is folded.
    pub address: IpAddr,
    /// The proved identity, if any.
    pub identity: Option<Arc<str>>,
}

impl Peer {
    /// Creates a peer without an identity.
    pub fn at(address: IpAddr) -> Self {
        Self { address: policy_core::fold_mapped(address), identity: None }
    }
}

/// Counts what each peer holds open, and refuses what exceeds the limit.
#[derive(Clone, Debug)]
pub struct Allowance {
    limit: u32,
    held: Arc<Mutex<HashMap<Peer, u32>>>,
}

/// One unit held by a peer, returned when dropped.
#[derive(Debug)]
pub struct AllowancePermit {
    peer: Peer,
    held: Arc<Mutex<HashMap<Peer, u32>>>,
}

impl Allowance {
    /// Creates an allowance of `limit` units for each peer.
    pub fn new(limit: u32) -> Self {
        Self { limit, held: Arc::default() }
    }

    /// Returns the limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes a unit for `peer`; `None` if it has reached the limit.
    pub fn take(&self, peer: &Peer) -> Option<AllowancePermit> {
        let mut held = self.held.lock();
        let count = held.get(peer).copied().unwrap_or(0);
        if count >= self.limit {
            return None;
        }
        held.insert(peer.clone(), count.saturating_add(1));
        Some(AllowancePermit { peer: peer.clone(), held: self.held.clone() })
    }

    #[cfg(test)]
    fn peers(&self) -> usize {
        self.held.lock().len()
    }
}

impl Drop for AllowancePermit {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        let left = held.get(&self.peer).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            held.remove(&self.peer);
        } else {
            held.insert(self.peer.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_its_limit_and_no_more_and_nothing_is_kept_of_peers_that_left() {
        let allowance = Allowance::new(2);
        let (a, b) = (Peer::at([10, 0, 0, 1].into()), Peer::at([10, 0, 0, 2].into()));
        let first = allowance.take(&a).unwrap();
        let second = allowance.take(&a).unwrap();
        assert!(allowance.take(&a).is_none());
        assert!(allowance.take(&b).is_some(), "another peer is not affected");
        let known = Peer { identity: Some("web".into()), ..a.clone() };
        assert!(allowance.take(&known).is_some(), "nor is an identity at the same address");
        drop(first);
        let third = allowance.take(&a).expect("one was given back");
        drop((second, third));
        assert_eq!(allowance.peers(), 0);
    }

    #[test]
    fn a_limit_of_zero_allows_nothing() {
        assert!(Allowance::new(0).take(&Peer::at([10, 0, 0, 1].into())).is_none());
    }
}

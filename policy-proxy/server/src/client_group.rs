//! Groups of clients that count together where capacity is short.

use crate::allowance::Peer;
use crate::client_network::first_of_64;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The group that a client counts in: all holders of its identity, or without one its /24 (IPv4) or
/// /64 (IPv6), so that many clients of one network that hold little each count together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientGroup {
    /// The first address of a /24 or /64.
    Network(IpAddr),
    /// A proved identity.
    Identity(Arc<str>),
}

impl ClientGroup {
    /// Returns the group of a client.
    pub fn of(peer: &Peer) -> Self {
        match &peer.identity {
            Some(identity) => Self::Identity(identity.clone()),
            None => Self::Network(match peer.address {
                IpAddr::V4(address) => {
                    let [a, b, c, _] = address.octets();
                    Ipv4Addr::new(a, b, c, 0).into()
                }
                IpAddr::V6(address) => first_of_64(address),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_count_together_and_holders_of_an_identity_wherever_they_are() {
        let group = |text: &str| ClientGroup::of(&Peer::at(text.parse().unwrap()));
        assert_eq!(group("10.0.0.1"), group("::ffff:10.0.0.254"));
        assert_ne!(group("10.0.0.1"), group("10.0.1.1"));
        assert_eq!(group("2001:db8::1"), group("2001:db8::ffff:1:2"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:0:1::1"));
        let web = |text: &str| {
            let peer = Peer::at(text.parse().unwrap());
            ClientGroup::of(&Peer { identity: Some("web".into()), ..peer })
        };
        assert_eq!(web("10.0.0.1"), web("10.9.0.1"));
        assert_ne!(web("10.0.0.1"), group("10.0.0.1"));
    }
}

//! Keys of clients that decisions are aggregated by.

use policy_core::{Identity, fold_mapped};
use policy_tls::peer::Peer;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Key that decisions are aggregated by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// A client with this identity.
    Identity(Identity),
    /// The /24 or /64 of an address without an identity, by its first address.
    Network(IpAddr),
}

impl ClientKey {
    /// Returns the key of a client.
    pub fn of(peer: &Peer) -> Self {
        match peer.identity() {
            Some(identity) => Self::Identity(identity.clone()),
            None => Self::Network(network(peer.ip())),
        }
    }

    /// Returns true for a client without an identity.
    pub fn is_anonymous(&self) -> bool {
        matches!(self, Self::Network(_))
    }
}

/// Returns the first address of the /24 or /64.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match fold_mapped(address) {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(identity) => f.write_str(identity.as_str()),
            Self::Network(first @ IpAddr::V4(_)) => write!(f, "{first}/24"),
            Self::Network(first @ IpAddr::V6(_)) => write!(f, "{first}/64"),
        }
    }
}

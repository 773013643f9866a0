//! Networks of clients without an identity.

use std::net::{IpAddr, Ipv6Addr};

/// The network that a client counts as: an IPv4 address, or the /64 of an IPv6 address, because one
/// host has all its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// Returns the network of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(match policy_core::fold_mapped(address) {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => first_of_64(address),
        })
    }
}

/// Returns the first address of the /64 of an IPv6 address.
pub(crate) fn first_of_64(address: Ipv6Addr) -> IpAddr {
    let [a, b, c, d, ..] = address.segments();
    Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_many_ipv6_addresses_is_one_client() {
        let network = |text: &str| ClientNetwork::of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1:2"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}

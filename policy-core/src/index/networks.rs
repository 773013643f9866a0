//! Blocks of addresses found by the address: one look-up per prefix length that occurs.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use ipnet::IpNet;
use std::hash::BuildHasher;
use std::net::IpAddr;

/// A map from blocks to values.
#[derive(Debug)]
pub(crate) struct Networks<T> {
    /// Blocks by their first address and prefix length.
    table: HashTable<(IpNet, T)>,
    /// The prefix lengths that occur, for IPv4 and IPv6.
    v4: Vec<u8>,
    v6: Vec<u8>,
}

impl<T> Default for Networks<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), v4: Vec::new(), v6: Vec::new() }
    }
}

impl<T> Networks<T> {
    /// Returns the value of `net`, inserting it if it is missing.
    pub(crate) fn entry(&mut self, net: IpNet, new: impl FnOnce() -> T) -> &mut T {
        let net = net.trunc();
        let lengths = match net {
            IpNet::V4(_) => &mut self.v4,
            IpNet::V6(_) => &mut self.v6,
        };
        if let Err(place) = lengths.binary_search(&net.prefix_len()) {
            lengths.insert(place, net.prefix_len());
        }
        let entry = self.table.entry(hash(&net), |(known, _)| *known == net, |(n, _)| hash(n));
        &mut entry.or_insert_with(|| (net, new())).into_mut().1
    }

    /// Returns the value of each block that contains `address`.
    pub(crate) fn containing(&self, address: IpAddr) -> impl Iterator<Item = &T> {
        let lengths = match address {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        };
        lengths.iter().filter_map(move |length| {
            let net = IpNet::new(address, *length).ok()?.trunc();
            self.table.find(hash(&net), |(known, _)| *known == net).map(|(_, value)| value)
        })
    }
}

fn hash(net: &IpNet) -> u64 {
    let length = u64::from(net.prefix_len());
    let bits = match net.addr() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    FixedState::default().hash_one((bits, length))
}

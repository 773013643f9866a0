//! Loopback addresses that stand for real ones.

use super::address_at;
use ipnet::{IpNet, Ipv4Net};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};

/// Default subnet of `up`.
pub(crate) const SUBNET: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(127, 10, 0, 0), 16);

/// Key of an allocated address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// The node, as the kubelet probes from it.
    Node,
    /// A client inside the cluster without an identity.
    InCluster,
    /// A client outside of all networks.
    External,
    /// A ServiceAccount: namespace, name.
    Account(Arc<str>, Arc<str>),
    /// A client with this identity, which is no ServiceAccount's.
    Identity(Arc<str>),
    /// A pod: namespace, name.
    Pod(Arc<str>, Arc<str>),
    /// A client at this real address.
    Address(IpAddr),
    /// What stands for a Service to a client: the client's identity, the Service's namespace and name.
    Call(Arc<str>, Arc<str>, Arc<str>),
}

/// Offsets of the blocks in the subnet. The lower half of the subnet is the cluster.
impl Peer {
    fn block(&self) -> u32 {
        match self {
            Self::Node => 1,
            Self::InCluster => 2,
            Self::Account(..) | Self::Identity(_) => 256,
            Self::Pod(..) => 64 * 256,
            Self::External => 128 * 256,
            Self::Address(_) => 129 * 256,
            Self::Call(..) => 192 * 256,
        }
    }
}

/// Allocates loopback addresses. The same peer always gets the same address.
#[derive(Debug)]
pub(crate) struct AddressPool {
    subnet: Ipv4Net,
    allocated: BTreeMap<Peer, Ipv4Addr>,
    next: HashMap<u32, u32>,
    real: AddressMap,
}

/// Map of loopback addresses to the real addresses that they stand for. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressMap(Arc<RwLock<HashMap<IpAddr, IpAddr>>>);

impl AddressMap {
    /// Returns the real address. An unmapped address is returned unchanged.
    pub(crate) fn resolve(&self, address: IpAddr) -> IpAddr {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&address).copied().unwrap_or(address)
    }

    fn insert(&self, loopback: Ipv4Addr, real: IpAddr) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(loopback.into(), real);
    }
}

impl AddressPool {
    /// Creates a pool of `subnet`, a part of 127.0.0.0/8.
    pub(crate) fn new(subnet: Ipv4Net) -> Self {
        Self {
            subnet,
            allocated: BTreeMap::new(),
            next: HashMap::new(),
            real: AddressMap::default(),
        }
    }

    /// The subnet of the addresses.
    pub(crate) fn subnet(&self) -> Ipv4Net {
        self.subnet
    }

    /// The map of the allocated addresses.
    pub(crate) fn address_map(&self) -> AddressMap {
        self.real.clone()
    }

    /// Allocates the loopback address of `peer`, which stands for `real`. `None`: the subnet is
    /// exhausted.
    pub(crate) fn allocate(&mut self, peer: Peer, real: IpAddr) -> Option<Ipv4Addr> {
        let address = self.address(peer)?;
        self.real.insert(address, real);
        Some(address)
    }

    /// Allocates the loopback address of `peer`, which stands for an address in `cluster`.
    pub(crate) fn allocate_in_cluster(
        &mut self,
        peer: Peer,
        cluster: &[IpNet],
    ) -> Option<Ipv4Addr> {
        let address = self.address(peer)?;
        let network = cluster.iter().find(|net| net.addr().is_ipv4()).or(cluster.first());
        let offset = address.to_bits() & !self.subnet.netmask().to_bits();
        let real = network.map_or(IpAddr::V4(address), |network| address_at(network, offset));
        self.real.insert(address, real);
        Some(address)
    }

    fn address(&mut self, peer: Peer) -> Option<Ipv4Addr> {
        if let Some(address) = self.allocated.get(&peer) {
            return Some(*address);
        }
        let block = peer.block();
        let next = self.next.entry(block).or_insert(block);
        // The last byte is between 1 and 254, as in addresses of hosts.
        while matches!(*next & 0xff, 0 | 255) {
            *next = next.checked_add(1)?;
        }
        let address = Ipv4Addr::from_bits(self.subnet.network().to_bits().checked_add(*next)?);
        if !self.subnet.contains(&address) {
            return None;
        }
        *next = next.checked_add(1)?;
        self.allocated.insert(peer, address);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(number: u32) -> Peer {
        Peer::Pod("shop".into(), format!("web-{number}").into())
    }

    #[test]
    fn everybody_keeps_their_address() {
        let mut addresses = AddressPool::new(SUBNET);
        let real: IpAddr = "10.1.2.3".parse().unwrap();
        let first = addresses.allocate(pod(0), real).unwrap();
        let second = addresses.allocate(pod(1), real).unwrap();
        assert_ne!(first, second);
        assert_eq!(addresses.allocate(pod(0), real), Some(first));
        assert_eq!(addresses.allocate(Peer::Node, real), Some(Ipv4Addr::new(127, 10, 0, 1)));
    }

    #[test]
    fn addresses_look_like_those_of_hosts() {
        let mut addresses = AddressPool::new(SUBNET);
        let real: IpAddr = "10.1.2.3".parse().unwrap();
        let allocated: Vec<_> =
            (0..600).map(|n| addresses.allocate(pod(n), real).unwrap()).collect();
        assert!(allocated.iter().all(|address| !matches!(address.octets()[3], 0 | 255)));
        assert_eq!(allocated[0], Ipv4Addr::new(127, 10, 64, 1));
        assert_eq!(allocated[254], Ipv4Addr::new(127, 10, 65, 1));
    }

    #[test]
    fn a_full_subnet_says_so() {
        let mut addresses = AddressPool::new("127.10.0.0/24".parse().unwrap());
        let real: IpAddr = "10.1.2.3".parse().unwrap();
        assert!(addresses.allocate(Peer::Node, real).is_some());
        assert_eq!(addresses.allocate(pod(0), real), None);
    }

    #[test]
    fn the_cluster_is_another_network() {
        let mut addresses = AddressPool::new(SUBNET);
        let cluster = ["10.0.0.0/8".parse().unwrap()];
        let allocated = addresses.allocate_in_cluster(pod(0), &cluster).unwrap();
        assert_eq!(addresses.address_map().resolve(allocated.into()).to_string(), "10.0.64.1");
    }

    #[test]
    fn an_unknown_address_stands_for_itself() {
        let mut addresses = AddressPool::new(SUBNET);
        let real: IpAddr = "2001:db8::1".parse().unwrap();
        let allocated = addresses.allocate(Peer::Address(real), real).unwrap();
        let address_map = addresses.address_map();
        assert_eq!(address_map.resolve(allocated.into()), real);
        let other: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(address_map.resolve(other), other);
    }
}

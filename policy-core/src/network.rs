//! Client networks: blocks with exceptions, and symbols that each workload resolves for itself.

use crate::logs::Logs;
use ipnet::IpNet;
use std::net::IpAddr;

/// One entry of a network list: a client matches if it is inside `term` and inside no exception.
/// IPv4 and IPv6 never match each other; IPv4-mapped IPv6 client addresses are folded to IPv4
/// before they get here (see [`fold_mapped`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkMatch {
    /// The block that must contain the client.
    pub term: NetworkTerm,
    /// The blocks that must not. Empty means no exceptions.
    pub except: Vec<IpNet>,
}

/// A block of addresses, literally or by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkTerm {
    /// A literal block.
    Net(IpNet),
    /// A block that the workload's [`Facts`] stand for. A symbol keeps equal policies equal across
    /// pods of different nodes.
    Symbol(NetworkSymbol),
}

/// The symbols a network condition may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkSymbol {
    /// The addresses that the pod's own node sends probes from.
    NodeLocal,
    /// The cluster's networks.
    Cluster,
}

/// Facts that differ per workload and are therefore not part of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The pod's own addresses. Empty: not known (yet), so a redirected connection cannot be
    /// checked against them.
    pub pod_addresses: Vec<IpAddr>,
    /// The networks of `NodeLocal`. Empty: it matches no client.
    pub node_local: Vec<IpNet>,
    /// Addresses that are the node's only if they are default gateways of the workload itself.
    /// `NodeLocal` stands for none of them before [`Facts::settled`], because another allocator of
    /// addresses may give them to any pod.
    pub pod_gateways: Vec<IpAddr>,
    /// The networks of `Cluster`. Empty: it matches no client.
    pub cluster: Vec<IpNet>,
    /// Log settings of the workload's proxy. No decision depends on them.
    pub logs: Logs,
}

impl Facts {
    /// The blocks that `symbol` stands for.
    pub fn resolve(&self, symbol: NetworkSymbol) -> &[IpNet] {
        match symbol {
            NetworkSymbol::NodeLocal => &self.node_local,
            NetworkSymbol::Cluster => &self.cluster,
        }
    }

    /// The facts with each of `pod_gateways` decided: `NodeLocal` stands for those that
    /// `is_default_gateway` knows, and the others are the node's no more than any address is.
    #[must_use]
    pub fn settled(mut self, is_default_gateway: impl Fn(&IpAddr) -> bool) -> Self {
        for address in std::mem::take(&mut self.pod_gateways) {
            let known = self.node_local.iter().any(|network| network.contains(&address));
            if !known && is_default_gateway(&address) {
                self.node_local.push(address.into());
            }
        }
        self
    }
}

impl NetworkMatch {
    /// Every address of a literal block.
    pub fn net(net: IpNet) -> Self {
        Self { term: NetworkTerm::Net(net), except: Vec::new() }
    }

    /// Every address the symbol stands for.
    pub fn symbol(symbol: NetworkSymbol) -> Self {
        Self { term: NetworkTerm::Symbol(symbol), except: Vec::new() }
    }

    /// Returns true if this entry admits `client`, an address already folded by [`fold_mapped`].
    pub fn admits(&self, client: IpAddr, facts: &Facts) -> bool {
        let inside = match self.term {
            NetworkTerm::Net(net) => net.contains(&client),
            NetworkTerm::Symbol(symbol) => {
                facts.resolve(symbol).iter().any(|net| net.contains(&client))
            }
        };
        inside && !self.except.iter().any(|net| net.contains(&client))
    }
}

/// The address that policy sees: `::ffff:a.b.c.d` is `a.b.c.d` (RFC 4291 section 2.5.5.2), so that a
/// dual-stack listener and an IPv4 one decide alike.
pub fn fold_mapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

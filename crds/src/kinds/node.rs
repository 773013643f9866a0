//! Node: its addresses and the first address of each pod network.

use crate::parse::input::Input;
use crate::reader::{AllowedFields, Fields};
use crate::resource::{Node, Resource};
use std::net::IpAddr;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let section =
        |name: &str| input.root.get(name).and_then(|node| node.fields(AllowedFields::Any));
    let addresses = section("status").map(|status| addresses(&status)).unwrap_or_default();
    let pod_gateways = section("spec").map(|spec| gateways(&spec)).unwrap_or_default();
    Some(Resource::Node(Node { addresses, pod_gateways }))
}

/// Every address that is not a name.
fn addresses(status: &Fields<'_>) -> Vec<IpAddr> {
    let list = status.get("addresses").and_then(|node| node.list()).unwrap_or_default();
    let mut addresses: Vec<IpAddr> = Vec::new();
    for node in list {
        let Some(fields) = node.fields(AllowedFields::Any) else { continue };
        let Some(text) = fields.get("address").and_then(|node| node.text()) else { continue };
        match text.parse() {
            Ok(address) if !addresses.contains(&address) => addresses.push(address),
            Ok(_) | Err(_) => {}
        }
    }
    addresses
}

/// The first address after the network's own: the bridge from which the node reaches its pods.
fn gateways(spec: &Fields<'_>) -> Vec<IpAddr> {
    let networks = match spec.get("podCIDRs") {
        Some(node) => node.list().unwrap_or_default(),
        None => spec.get("podCIDR").into_iter().collect(),
    };
    networks
        .iter()
        .filter_map(|node| crate::parse::network::cidr(node).and_then(first_host))
        .collect()
}

fn first_host(net: ipnet::IpNet) -> Option<IpAddr> {
    match net {
        ipnet::IpNet::V4(net) => {
            let next = u32::from(net.network()).checked_add(1)?;
            Some(IpAddr::from(std::net::Ipv4Addr::from(next)))
        }
        ipnet::IpNet::V6(net) => {
            let next = u128::from(net.network()).checked_add(1)?;
            Some(IpAddr::from(std::net::Ipv6Addr::from(next)))
        }
    }
}

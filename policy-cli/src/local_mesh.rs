//! A mesh on one machine: manifests completed with a cluster's defaults, loopback addresses that
//! stand for real ones, an ephemeral certificate authority, and a sidecar with an echo application
//! for every pod.
//!
//! `portcullis up` runs it interactively, and expectations run in it.

pub(crate) mod addresses;
pub(crate) mod authority;
pub(crate) mod callers;
pub(crate) mod decision_log;
pub(crate) mod mesh;
pub(crate) mod pods;
pub(crate) mod services;
pub(crate) mod source;
pub(crate) mod subnet;

use ipnet::IpNet;
use policy_crds::{Body, Object, Resource};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Default node of pods.
pub(crate) const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 255, 255, 254));

/// Offset in a cluster network of clients without an address of their own.
const INSIDE: u32 = 0x0001_4d02;

/// Applies a cluster's defaults: a pod without a node runs on [`NODE`].
pub(crate) fn apply_defaults(mut object: Object) -> Object {
    if let Body::Valid(Resource::Pod(pod)) = &mut object.body {
        schedule(pod);
    } else if let Body::Valid(Resource::Workload(workload)) = &mut object.body {
        schedule(&mut workload.pod);
    }
    object
}

fn schedule(pod: &mut policy_crds::resource::Pod) {
    if pod.node.is_none() && pod.host_addresses.is_empty() {
        pod.host_addresses.push(NODE);
    }
}

/// Address inside the cluster, IPv4 if possible; `None` without networks.
pub(crate) fn cluster_address(cluster: &[IpNet]) -> Option<IpAddr> {
    let network = cluster.iter().find(|net| net.addr().is_ipv4()).or(cluster.first())?;
    Some(address_at(network, INSIDE))
}

/// Address at `offset` in a network, or its first address if the network is smaller.
pub(crate) fn address_at(network: &IpNet, offset: u32) -> IpAddr {
    let first = network.network();
    let shifted: IpAddr = match first {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(offset)).into(),
        IpAddr::V6(first) => {
            Ipv6Addr::from_bits(first.to_bits().wrapping_add(offset.into())).into()
        }
    };
    if network.contains(&shifted) { shifted } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_stay_inside_their_network() {
        let address_at =
            |network: &str, offset| address_at(&network.parse().unwrap(), offset).to_string();
        assert_eq!(address_at("10.0.0.0/8", 0x0001_4d02), "10.1.77.2");
        assert_eq!(address_at("10.0.0.0/24", 0x0001_4d02), "10.0.0.0");
        assert_eq!(address_at("255.255.255.255/32", 9), "255.255.255.255");
        assert_eq!(address_at("fd00::/8", 9), "fd00::9");
    }
}

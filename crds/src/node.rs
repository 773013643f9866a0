//! Nodes as typed values.

use std::net::IpAddr;

/// The parts of a node that probe exemptions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Addresses of the node.
    pub addresses: Vec<IpAddr>,
    /// First address of each `podCIDR`.
    pub pod_gateways: Vec<IpAddr>,
}

//! The addresses of the workload's own node: those that a controller states, and those of its
//! proposals that are default gateways of the workload.

use policy_core::Facts;
use policy_server::DefaultGateways;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Decides on the addresses that a controller proposes, and logs the result.
#[derive(Debug)]
pub struct NodeAddresses {
    gateways: DefaultGateways,
    /// The last logged result: each proposed address, and whether it is the node's.
    logged: BTreeSet<(IpAddr, bool)>,
}

impl NodeAddresses {
    /// Creates a resolver for a workload with these default gateways.
    pub fn new(gateways: DefaultGateways) -> Self {
        Self { gateways, logged: BTreeSet::new() }
    }

    /// Returns the facts with their proposals decided. The gateways are read again only if anything
    /// is proposed.
    #[must_use]
    pub fn settle(&mut self, facts: Facts) -> Facts {
        if facts.pod_gateways.is_empty() {
            return facts;
        }
        let own = self.gateways.read();
        self.log_changes(&facts, &own);
        facts.settled(|address| own.contains(address))
    }

    /// Logs changes.
    fn log_changes(&mut self, facts: &Facts, own: &BTreeSet<IpAddr>) {
        let proposed = facts.pod_gateways.iter();
        let decided = proposed.map(|address| (*address, own.contains(address))).collect();
        if self.logged == decided {
            return;
        }
        for (address, is_gateway) in &decided {
            if *is_gateway {
                tracing::info!(%address, "default gateway of this pod, added to node-local");
            } else {
                tracing::info!(
                    %address,
                    gateways = ?own,
                    "not a default gateway of this pod, not added to node-local"
                );
            }
        }
        self.logged = decided;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn facts(proposed: &[&str]) -> Facts {
        Facts {
            node_local: vec!["172.18.0.2/32".parse().unwrap()],
            pod_gateways: proposed.iter().map(|address| address.parse().unwrap()).collect(),
            ..Facts::default()
        }
    }

    /// A folder whose table names one gateway.
    fn gateway(address: [u8; 4]) -> (tempfile::TempDir, DefaultGateways) {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, address);
        let gateways = DefaultGateways::in_folder(folder.path());
        (folder, gateways)
    }

    fn write(folder: &tempfile::TempDir, address: [u8; 4]) {
        let number = u32::from_ne_bytes(address);
        let line = format!("eth0\t00000000\t{number:08X}\t0003\t0\t0\t0\t00000000\n");
        std::fs::write(folder.path().join("route"), line).unwrap();
    }

    fn local(facts: &Facts) -> Vec<String> {
        assert_eq!(facts.pod_gateways, Vec::<IpAddr>::new(), "all are decided");
        facts.node_local.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_proposed_address_is_the_nodes_where_it_is_a_default_gateway() {
        let (folder, gateways) = gateway([10, 42, 1, 1]);
        let mut node = NodeAddresses::new(gateways);
        let proposed = facts(&["10.42.1.1", "10.42.2.1", "fd00::1"]);
        assert_eq!(local(&node.settle(proposed.clone())), ["172.18.0.2/32", "10.42.1.1/32"]);
        // As routes are when facts come.
        write(&folder, [10, 42, 2, 1]);
        assert_eq!(local(&node.settle(proposed)), ["172.18.0.2/32", "10.42.2.1/32"]);
        let mut elsewhere = NodeAddresses::new(DefaultGateways::none());
        assert_eq!(local(&elsewhere.settle(facts(&["10.42.2.1"]))), ["172.18.0.2/32"]);
    }

    #[test]
    fn a_gateway_that_nobody_proposes_is_not_the_nodes() {
        let (_folder, gateways) = gateway([10, 42, 1, 1]);
        let mut node = NodeAddresses::new(gateways);
        assert_eq!(local(&node.settle(facts(&[]))), ["172.18.0.2/32"]);
        // Nor twice where it is stated already.
        assert_eq!(local(&node.settle(facts(&["172.18.0.2"]))), ["172.18.0.2/32"]);
    }
}

//! Flags about the other replicas.

use super::value::{List, Optional, ParseResult, ip, items, label, name, optional};
use clap::Args;
use policy_discovery::peers::Replica;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Flags about the other replicas, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replicas")]
pub struct ReplicaArgs {
    /// Headless Service in the control plane's namespace whose endpoints are the replicas; empty:
    /// there are no others.
    #[arg(long, value_name = "NAME", default_value = "portcullis-policy", value_parser = optional(label::<Arc<str>>))]
    pub replicas_service: Optional<Arc<str>>,

    /// Addresses of the other replicas' policy ports, separated by commas, instead of a Service.
    #[arg(long, value_name = "ADDRS", conflicts_with = "replicas_service", value_parser = peers)]
    pub replica_peers: Option<List<SocketAddr>>,

    /// Seconds of silence of another replica after which Programmed becomes unknown.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub replica_timeout: u64,

    /// Name of this replica: of its pod [default: $HOSTNAME].
    #[arg(long, value_name = "NAME", env = "POD_NAME", value_parser = optional(name::<Arc<str>>))]
    pub replica_name: Option<Optional<Arc<str>>>,

    /// Address of this replica's pod, so that it does not take itself for another.
    #[arg(long, value_name = "IP", env = "POD_IP", value_parser = optional(ip))]
    pub replica_address: Option<Optional<IpAddr>>,
}

/// Settings about the other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// Name of this replica.
    pub name: Arc<str>,
    /// Address of its pod, if known.
    pub address: Option<IpAddr>,
    /// Discovery of the other replicas.
    pub discovery: PeerDiscovery,
    /// Time after which a silent replica counts as unreachable.
    pub timeout: Duration,
}

/// Discovery of the other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerDiscovery {
    /// There are no others.
    Off,
    /// The endpoints of this Service in the control plane's namespace.
    Service(Arc<str>),
    /// These addresses.
    Fixed(BTreeSet<Replica>),
}

impl ReplicaArgs {
    /// Returns the settings.
    pub fn settings(&self) -> ReplicaSettings {
        let host = || std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        let name = self.name().map(str::to_owned).or_else(host);
        ReplicaSettings {
            name: name.map_or("policy-controller".into(), Into::into),
            address: self.replica_address.flatten(),
            discovery: self.discovery(),
            timeout: Duration::from_secs(self.replica_timeout),
        }
    }

    /// The name of this replica's pod, if there is one.
    pub(super) fn name(&self) -> Option<&str> {
        self.replica_name.as_ref()?.as_deref()
    }

    fn discovery(&self) -> PeerDiscovery {
        let peer = |address: &SocketAddr| Replica { address: *address, name: None };
        match (&self.replica_peers, &self.replicas_service) {
            (Some(peers), _) => PeerDiscovery::Fixed(peers.iter().map(peer).collect()),
            (None, Some(service)) => PeerDiscovery::Service(service.clone()),
            (None, None) => PeerDiscovery::Off,
        }
    }
}

fn peers(list: &str) -> ParseResult<List<SocketAddr>> {
    let peer = |item: &str| {
        let address = item.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        address.ok_or_else(|| {
            format!("`{item}` is not an address and port (for example `10.1.2.3:8090`)")
        })
    };
    items(list).map(peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(flags: &[&str]) -> Result<ReplicaSettings, String> {
        let flags = [&["--replica-name=me"], flags].concat();
        parsed(&flags).map(|args: ReplicaArgs| args.settings())
    }

    #[test]
    fn flags_become_settings() {
        let expected = ReplicaSettings {
            name: "me".into(),
            address: None,
            discovery: PeerDiscovery::Service("portcullis-policy".into()),
            timeout: Duration::from_secs(10),
        };
        assert_eq!(settings(&[]), Ok(expected.clone()));
        let peers = ["10.0.0.1:8090", "[fd00::1]:1"]
            .map(|address| Replica { address: address.parse().unwrap(), name: None });
        assert_eq!(
            settings(&["--replica-peers=10.0.0.1:8090, [fd00::1]:1", "--replica-timeout=5"]),
            Ok(ReplicaSettings {
                discovery: PeerDiscovery::Fixed(peers.into()),
                timeout: Duration::from_secs(5),
                ..expected.clone()
            })
        );
        assert_eq!(
            settings(&["--replicas-service=", "--replica-address=10.0.0.9"]),
            Ok(ReplicaSettings {
                discovery: PeerDiscovery::Off,
                address: Some([10, 0, 0, 9].into()),
                ..expected
            })
        );
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refusal = |flag| settings(&[flag]).unwrap_err();
        let refused = refusal("--replica-peers=10.0.0.1");
        assert!(refused.contains("'--replica-peers <ADDRS>': `10.0.0.1` is not an"), "{refused}");
        assert!(refusal("--replica-peers=10.0.0.1:0").contains("is not an address and port"));
        let refused = refusal("--replica-address=here");
        assert!(
            refused.contains("'--replica-address <IP>': `here` is not an address"),
            "{refused}"
        );
        assert!(refusal("--replica-timeout=4").contains("4 is not in 5..=600"));
        assert!(refusal("--replicas-service=Policy").contains("`Policy` is not a name"));
    }
}

//! Flags of a cluster as the source of objects.

use super::connection::ClusterArgs;
use super::value::{ParseResult, addresses, hosts, name, some_labels};
use clap::Args;
use policy_core::HostPattern;
use policy_kube::cluster::ClusterError;
use policy_kube::source::{Freshness, KubernetesConfig, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The addresses from which nodes reach their pods.
type Nodes = BTreeMap<Arc<str>, Vec<IpAddr>>;

/// Flags of a cluster as the source of objects.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct KubernetesArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Watch these namespaces alone, separated by commas: Roles in them suffice, and nothing
    /// outside is requested [default: the whole cluster].
    #[arg(long, value_name = "NAMESPACES", value_parser = some_labels)]
    pub watch_namespace: Option<BTreeSet<Arc<str>>>,

    /// Seconds of silence after which a watch is stale: it is reported, and streams end once so
    /// that clients look for a current replica. The API server sends a bookmark at least every 60.
    #[arg(long, value_name = "S", default_value_t = 150, value_parser = clap::value_parser!(u64).range(61..=86_400))]
    pub watch_freshness: u64,

    /// With --watch-namespace: the addresses from which each node reaches its pods, as
    /// NODE=ADDRESS,ADDRESS;NODE=ADDRESS.
    #[arg(long, value_name = "NODES", requires = "watch_namespace", value_parser = node_addresses)]
    pub node_addresses: Option<Nodes>,

    /// With --watch-namespace: hosts, separated by commas, that InboundRoutes may claim although
    /// claims of other namespaces are not known [default: none].
    #[arg(long, value_name = "HOSTS", requires = "watch_namespace", value_parser = hosts)]
    pub assume_claims: Option<BTreeSet<HostPattern>>,

    /// Objects of one page of a list.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub list_page_size: u32,
}

impl KubernetesArgs {
    /// Returns the settings.
    pub fn settings(&self, control_plane_namespace: Arc<str>) -> KubernetesConfig {
        KubernetesConfig {
            scope: self.watch_namespace.clone().map_or(Scope::Cluster, Scope::Namespaces),
            freshness: Freshness { bound: Duration::from_secs(self.watch_freshness) },
            page_size: self.list_page_size,
            nodes: self.node_addresses.clone().unwrap_or_default(),
            control_plane_namespace,
            ..KubernetesConfig::default()
        }
    }

    /// Creates a client for the source. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClusterError`]: what names the cluster is absent or cannot be read.
    pub async fn connect(&self) -> Result<kube::Client, ClusterError> {
        self.cluster.cluster().connect_once().await
    }
}

/// `NODE=ADDRESS,ADDRESS;NODE=ADDRESS`.
fn node_addresses(list: &str) -> ParseResult<Nodes> {
    let mut nodes = Nodes::new();
    for item in list.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        let named = item.split_once('=').and_then(|(node, listed)| {
            let node: Arc<str> = name(node.trim()).ok()?;
            Some((node, listed))
        });
        let (node, listed) = named.ok_or_else(|| {
            format!("`{item}` is not NODE=ADDRESS,ADDRESS (several nodes: separated by `;`)")
        })?;
        let listed = addresses(listed).map_err(|error| format!("{error} (of node {node})"))?;
        nodes.entry(node).or_default().extend(listed);
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(flags: &[&str]) -> Result<KubernetesConfig, String> {
        parsed(flags).map(|args: KubernetesArgs| args.settings("linkerd".into()))
    }

    #[test]
    fn without_flags_the_whole_cluster_is_watched() {
        assert_eq!(settings(&[]), Ok(KubernetesConfig::default()));
    }

    #[test]
    fn namespaces_and_nodes_are_read() {
        let flags = ["--watch-namespace", "b, a", "--node-addresses", "n-1.x=10.0.0.1,fd00::1;n2="];
        let config = settings(&flags).unwrap();
        assert_eq!(config.scope, Scope::Namespaces(["a".into(), "b".into()].into()));
        let addresses: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let nodes = BTreeMap::from([("n-1.x".into(), addresses), ("n2".into(), vec![])]);
        assert_eq!(config.nodes, nodes);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_flag_value_and_what_is_allowed() {
        for (flags, want) in [
            (&["--watch-namespace=a,B"][..], "`B` is not a name: up to 63 lower-case"),
            (&["--watch-namespace= ,"], "'--watch-namespace <NAMESPACES>': no name is given"),
            (&["--watch-namespace=-a"], "`-a` is not a name"),
            (&["--node-addresses=a=::1"], "not provided:\n  --watch-namespace <NAMESPACES>"),
            (&["--watch-namespace=a", "--node-addresses=a"], "`a` is not NODE=ADDRESS"),
            (&["--watch-namespace=a", "--node-addresses=A=::1"], "`A=::1` is not NODE=ADDRESS"),
            (
                &["--watch-namespace=a", "--node-addresses=a=x"],
                "`x` is not an address such as `10.1.2.3` or `fd00::1` (of node a)",
            ),
            (&["--watch-freshness=60"], "60 is not in 61..=86400"),
            (&["--list-page-size=0"], "0 is not in 1..=10000"),
        ] {
            let refused = settings(flags).unwrap_err();
            assert!(refused.contains(want), "{flags:?}: {refused}");
        }
    }
}

//! Flags of a cluster as the source of objects.

use super::connection::ClusterArgs;
use clap::Args;
use policy_kube::cluster::ClusterError;
use policy_kube::source::{Freshness, KubernetesConfig, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Flags of a cluster as the source of objects.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct KubernetesArgs {
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Watch these namespaces alone, separated by commas: Roles in them suffice, and nothing
    /// outside is asked for [default: the whole cluster].
    #[arg(long, value_name = "NAMESPACES")]
    pub watch_namespace: Option<String>,

    /// Seconds of silence after which a watch is stale: it is told, and streams end once to look for a
    /// replica that is current. The API server sends something every 60.
    #[arg(long, value_name = "S", default_value_t = 150, value_parser = clap::value_parser!(u64).range(61..=86_400))]
    pub watch_freshness: u64,

    /// With --watch-namespace: the addresses from which each node reaches its pods, as
    /// NODE=ADDRESS,ADDRESS;NODE=ADDRESS.
    #[arg(long, value_name = "NODES")]
    pub node_addresses: Option<String>,

    /// Objects of one page of a list.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub list_page_size: u32,
}

/// A flag whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubernetesArgsError {
    /// Not a namespace.
    #[error(
        "--watch-namespace: `{0}` is not a namespace: up to 63 lower-case letters, digits and `-` \
         are allowed, separated by commas"
    )]
    Namespace(String),
    /// No namespace at all.
    #[error("--watch-namespace: no namespace is named; leave the flag out for the whole cluster")]
    NoNamespace,
    /// Not a node with addresses.
    #[error(
        "--node-addresses: `{0}` is not NODE=ADDRESS,ADDRESS (several nodes: separated by `;`)"
    )]
    Node(String),
    /// Not an address.
    #[error("--node-addresses: `{address}` of node {node} is not an IP address")]
    NodeAddress {
        /// Which node.
        node: String,
        /// What was written.
        address: String,
    },
    /// Nodes are asked of the API server.
    #[error("--node-addresses: only with --watch-namespace; otherwise the cluster's Nodes say it")]
    NodesAreWatched,
}

impl KubernetesArgs {
    /// What the flags mean.
    ///
    /// # Errors
    /// [`KubernetesArgsError`] names the flag, its value and what is allowed.
    pub fn settings(
        &self,
        control_plane_namespace: Arc<str>,
    ) -> Result<KubernetesConfig, KubernetesArgsError> {
        let scope = match &self.watch_namespace {
            Some(names) => Scope::Namespaces(namespaces(names)?),
            None => Scope::Cluster,
        };
        let nodes = match &self.node_addresses {
            Some(_) if scope == Scope::Cluster => return Err(KubernetesArgsError::NodesAreWatched),
            Some(nodes) => node_addresses(nodes)?,
            None => BTreeMap::new(),
        };
        Ok(KubernetesConfig {
            scope,
            freshness: Freshness { bound: Duration::from_secs(self.watch_freshness) },
            page_size: self.list_page_size,
            nodes,
            control_plane_namespace,
            ..KubernetesConfig::default()
        })
    }

    /// Makes a client for the source. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClusterError`]: what names the cluster is absent or cannot be read.
    pub async fn connect(&self) -> Result<kube::Client, ClusterError> {
        self.cluster.cluster().connect_once().await
    }
}

fn namespaces(list: &str) -> Result<BTreeSet<Arc<str>>, KubernetesArgsError> {
    let mut names = BTreeSet::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if !is_label(name) {
            return Err(KubernetesArgsError::Namespace(name.to_owned()));
        }
        names.insert(Arc::from(name));
    }
    if names.is_empty() { Err(KubernetesArgsError::NoNamespace) } else { Ok(names) }
}

/// A DNS label (RFC 1123), as namespaces are.
fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63 && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

fn node_addresses(list: &str) -> Result<BTreeMap<Arc<str>, Vec<IpAddr>>, KubernetesArgsError> {
    let mut nodes: BTreeMap<Arc<str>, Vec<IpAddr>> = BTreeMap::new();
    for item in list.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        let wrong = || KubernetesArgsError::Node(item.to_owned());
        let (node, addresses) = item.split_once('=').ok_or_else(wrong)?;
        let node = node.trim();
        if node.len() > 253 || !node.split('.').all(|label| !label.is_empty() && is_label(label)) {
            return Err(wrong());
        }
        let known = nodes.entry(node.into()).or_default();
        for address in addresses.split(',').map(str::trim).filter(|a| !a.is_empty()) {
            known.push(address.parse().map_err(|_| KubernetesArgsError::NodeAddress {
                node: node.to_owned(),
                address: address.to_owned(),
            })?);
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        args: KubernetesArgs,
    }

    fn settings(flags: &[&str]) -> Result<KubernetesConfig, KubernetesArgsError> {
        let flags = [&["x"], flags].concat();
        Flags::try_parse_from(flags).unwrap().args.settings("linkerd".into())
    }

    fn message(flags: &[&str]) -> String {
        settings(flags).unwrap_err().to_string()
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
        let wrong = [
            (["--watch-namespace", "a,B"], "--watch-namespace: `B` is not a namespace"),
            (["--watch-namespace", " ,"], "--watch-namespace: no namespace is named"),
            (["--watch-namespace", "-a"], "--watch-namespace: `-a` is not a namespace"),
            (["--node-addresses", "a=::1"], "--node-addresses: only with --watch-namespace"),
        ];
        for (flags, beginning) in wrong {
            let flag = format!("{}={}", flags[0], flags[1]);
            let flags = [flag.as_str()];
            let message = message(&flags);
            assert!(message.starts_with(beginning), "{message}");
        }
        for (flag, want) in [
            ("--watch-freshness=60", "60 is not in 61..=86400"),
            ("--list-page-size=0", "0 is not in 1..=10000"),
        ] {
            let Err(error) = Flags::try_parse_from(["x", flag]) else { panic!("{flag}") };
            assert!(error.to_string().contains(want), "{error}");
        }
        let nodes = |nodes| message(&["--watch-namespace", "a", "--node-addresses", nodes]);
        assert!(nodes("a").contains("`a` is not NODE=ADDRESS"));
        assert!(nodes("A=::1").contains("`A=::1` is not NODE=ADDRESS"));
        assert!(nodes("a=x").contains("`x` of node a is not an IP address"));
    }
}

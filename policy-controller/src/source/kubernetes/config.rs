//! What of a cluster is watched, and the flags that say so.

use super::freshness::Freshness;
use crate::cluster::{ClusterArgs, ClusterError};
use clap::Args;
use policy_crds::{Kind, Object};
use policy_engine::kinds::{REGISTRY, Scope as Lives, Watched};
use policy_engine::source::WatchKey;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The shortest bound: a watch without changes is heard of once a minute.
const MIN_FRESHNESS: u64 = 61;

/// The largest page: more than that is no page any more.
const MAX_PAGE: u32 = 10_000;

/// Which part of a cluster is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    #[default]
    Cluster,
    /// These namespaces, and nothing else is asked for.
    Namespaces(BTreeSet<Arc<str>>),
}

impl Scope {
    /// Every watch there is, with whether the controller can do without the kind.
    pub(super) fn watches(&self) -> Vec<(WatchKey, bool)> {
        let rows = REGISTRY.iter().filter(|row| row.watched != Watched::Never);
        let keys = rows.flat_map(|row| {
            let optional = row.watched == Watched::IfPresent;
            let places: Vec<Option<Arc<str>>> = match self {
                Self::Cluster => vec![None],
                Self::Namespaces(_)
                    if row.scope == Lives::Cluster && row.kind != Kind::Namespace =>
                {
                    Vec::new()
                }
                Self::Namespaces(names) => names.iter().cloned().map(Some).collect(),
            };
            let key = move |namespace| (WatchKey { kind: row.kind, namespace }, optional);
            places.into_iter().map(key)
        });
        keys.collect()
    }

    /// What does not work for lack of the rest of the cluster.
    pub fn lost_functions(&self) -> Vec<String> {
        let Self::Namespaces(names) = self else { return Vec::new() };
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let scope = names.join(", ");
        [
            format!("workloads outside {scope} have no policy here: watches of them find nothing"),
            format!("references to objects outside {scope} find nothing"),
            "Nodes are not watched: probes come from --node-addresses alone".to_owned(),
            "Namespaces are asked for every 10 s: a new annotation there takes as long".to_owned(),
        ]
        .into()
    }
}

/// How a cluster is watched.
#[derive(Clone, Debug, PartialEq)]
pub struct KubernetesConfig {
    /// Which part.
    pub scope: Scope,
    /// How long a watch may be silent.
    pub freshness: Freshness,
    /// Objects of one page of a list.
    pub page_size: u32,
    /// The nodes, where they are not watched.
    pub nodes: BTreeMap<Arc<str>, Vec<IpAddr>>,
    /// Namespace of the control plane, where the Lease is.
    pub control_plane_namespace: Arc<str>,
    /// Name of the Lease that names the numbering of revisions.
    pub lease_name: Arc<str>,
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            scope: Scope::Cluster,
            freshness: Freshness { bound: Duration::from_secs(150) },
            page_size: 500,
            nodes: BTreeMap::new(),
            control_plane_namespace: "linkerd".into(),
            lease_name: "portcullis-policy-controller".into(),
        }
    }
}

impl KubernetesConfig {
    /// The nodes as objects; none where the cluster is asked for them.
    pub(super) fn node_objects(&self) -> Vec<Object> {
        if self.scope == Scope::Cluster {
            return Vec::new();
        }
        let node = |(name, addresses): (&Arc<str>, &Vec<IpAddr>)| {
            let addresses: Vec<_> = addresses
                .iter()
                .map(|address| json!({ "type": "InternalIP", "address": address.to_string() }))
                .collect();
            let node = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": { "name": &**name },
                "status": { "addresses": addresses },
            });
            // Names have been checked when the flag was read.
            policy_crds::parse(&node).ok()
        };
        self.nodes.iter().filter_map(node).collect()
    }
}

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

    /// Seconds of silence after which a watch is stale and the controller not ready; the API server
    /// sends something every 60.
    #[arg(long, value_name = "S", default_value_t = 150)]
    pub watch_freshness: u64,

    /// With --watch-namespace: the addresses from which each node reaches its pods, as
    /// NODE=ADDRESS,ADDRESS;NODE=ADDRESS.
    #[arg(long, value_name = "NODES")]
    pub node_addresses: Option<String>,

    /// Objects of one page of a list.
    #[arg(long, value_name = "N", default_value_t = 500)]
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
    /// A number out of range.
    #[error("--{flag}: `{value}` is out of range; {allowed}")]
    Range {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
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
        let range = |flag, value, allowed| KubernetesArgsError::Range { flag, value, allowed };
        if !(MIN_FRESHNESS..=86_400).contains(&self.watch_freshness) {
            let allowed = "61 to 86400 seconds are, as the API server may be silent for 60";
            return Err(range("watch-freshness", self.watch_freshness, allowed));
        }
        if !(1..=MAX_PAGE).contains(&self.list_page_size) {
            return Err(range("list-page-size", self.list_page_size.into(), "1 to 10000 are"));
        }
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
        let mut config = self.cluster.config().await?;
        // The source waits and asks again by itself, and says what went wrong meanwhile.
        config.default_retry = false;
        kube::Client::try_from(config).map_err(ClusterError::Client)
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
    use policy_crds::Body;
    use policy_crds::Resource;

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
        let watches = Scope::Cluster.watches();
        assert!(watches.iter().all(|(key, _)| key.namespace.is_none()));
        let optional: Vec<String> =
            watches.iter().filter(|(_, optional)| *optional).map(|(k, _)| k.to_string()).collect();
        assert_eq!(
            optional,
            [
                "httproutes.gateway.networking.k8s.io",
                "grpcroutes.gateway.networking.k8s.io",
                "referencegrants.gateway.networking.k8s.io",
                "externalworkloads.workload.linkerd.io"
            ]
        );
        assert_eq!(watches.len(), 15);
        assert_eq!(Scope::Cluster.lost_functions(), Vec::<String>::new());
    }

    #[test]
    fn namespaces_are_watched_alone_and_nodes_are_told() {
        let flags = ["--watch-namespace", "b, a", "--node-addresses", "n-1.x=10.0.0.1,fd00::1;n2="];
        let config = settings(&flags).unwrap();
        assert_eq!(config.scope, Scope::Namespaces(["a".into(), "b".into()].into()));
        let watches = config.scope.watches();
        assert!(watches.iter().all(|(key, _)| key.namespace.is_some() && key.kind != Kind::Node));
        assert_eq!(watches.len(), 28);
        let nodes: Vec<(String, Vec<IpAddr>)> = config
            .node_objects()
            .into_iter()
            .map(|object| {
                let Body::Valid(Resource::Node(node)) = object.body else { panic!("no Node") };
                (object.meta.key.to_string(), node.addresses)
            })
            .collect();
        let addresses: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(nodes, [("Node n-1.x".into(), addresses), ("Node n2".into(), vec![])]);
        assert_eq!(config.scope.lost_functions().len(), 4);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_flag_value_and_what_is_allowed() {
        let wrong = [
            (["--watch-namespace", "a,B"], "--watch-namespace: `B` is not a namespace"),
            (["--watch-namespace", " ,"], "--watch-namespace: no namespace is named"),
            (["--watch-namespace", "-a"], "--watch-namespace: `-a` is not a namespace"),
            (["--node-addresses", "a=::1"], "--node-addresses: only with --watch-namespace"),
            (["--watch-freshness", "60"], "--watch-freshness: `60` is out of range; 61 to 86400"),
            (["--list-page-size", "0"], "--list-page-size: `0` is out of range; 1 to 10000"),
        ];
        for (flags, beginning) in wrong {
            let flag = format!("{}={}", flags[0], flags[1]);
            let flags = [flag.as_str()];
            let message = message(&flags);
            assert!(message.starts_with(beginning), "{message}");
        }
        let nodes = |nodes| message(&["--watch-namespace", "a", "--node-addresses", nodes]);
        assert!(nodes("a").contains("`a` is not NODE=ADDRESS"));
        assert!(nodes("A=::1").contains("`A=::1` is not NODE=ADDRESS"));
        assert!(nodes("a=x").contains("`x` of node a is not an IP address"));
    }
}

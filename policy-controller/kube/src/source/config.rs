//! The part of a cluster that is watched.

use super::freshness::Freshness;
use policy_crds::spec::Watched;
use policy_crds::{Kind, Object};
use policy_engine::source::WatchKey;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The part of a cluster that is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The whole cluster.
    #[default]
    Cluster,
    /// These namespaces; nothing else is requested.
    Namespaces(BTreeSet<Arc<str>>),
}

impl Scope {
    /// The features that this scope takes away because the rest of the cluster is not watched.
    pub fn limitations(&self) -> Vec<String> {
        let Self::Namespaces(names) = self else { return Vec::new() };
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let scope = names.join(", ");
        [
            format!("workloads outside {scope} have no policy here: watches of them find nothing"),
            format!("references to objects outside {scope} are not resolved"),
            "Nodes are not watched: probes come from --node-addresses alone".to_owned(),
            "Namespaces are polled every 10 s: a new annotation there takes as long".to_owned(),
            "InboundRoutes claim only the hosts of --assume-claims: claims elsewhere are unknown"
                .to_owned(),
        ]
        .into()
    }
}

/// Settings of the watches of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct KubernetesConfig {
    /// The part of the cluster.
    pub scope: Scope,
    /// True if what outbound discovery alone reads is watched too, where the whole cluster is.
    pub discovery: bool,
    /// The staleness bound of a watch.
    pub freshness: Freshness,
    /// Page size of lists.
    pub page_size: u32,
    /// The nodes, where they are not watched.
    pub nodes: BTreeMap<Arc<str>, Vec<IpAddr>>,
    /// Namespace of the control plane, where the Lease is.
    pub control_plane_namespace: Arc<str>,
    /// Name of the Lease that names the epoch of revisions.
    pub lease_name: Arc<str>,
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            scope: Scope::Cluster,
            discovery: true,
            freshness: Freshness { bound: Duration::from_secs(150) },
            page_size: 500,
            nodes: BTreeMap::new(),
            control_plane_namespace: "linkerd".into(),
            lease_name: "portcullis-policy-controller".into(),
        }
    }
}

impl KubernetesConfig {
    /// All watches. The flag marks kinds that are optional.
    pub(super) fn watches(&self) -> Vec<(WatchKey, bool)> {
        let discovered = Kind::watched_for_discovery().filter(|_| self.discovery);
        let discovered = discovered.filter(|_| self.scope == Scope::Cluster);
        let keys = Kind::watched().chain(discovered).flat_map(|kind| {
            let optional = kind.spec().watched == Watched::IfPresent;
            let places: Vec<Option<Arc<str>>> = match &self.scope {
                Scope::Cluster => vec![None],
                Scope::Namespaces(_) if !kind.is_namespaced() && kind != Kind::Namespace => {
                    Vec::new()
                }
                Scope::Namespaces(names) => names.iter().cloned().map(Some).collect(),
            };
            let key = move |namespace| (WatchKey { kind, namespace }, optional);
            places.into_iter().map(key)
        });
        keys.collect()
    }

    /// The nodes as objects; empty where the cluster's own are watched.
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
            // Names were validated when the flag was parsed.
            policy_crds::parse(&node).ok()
        };
        self.nodes.iter().filter_map(node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Body;
    use policy_crds::Resource;

    #[test]
    fn the_whole_cluster_is_watched_unless_namespaces_are_named() {
        let watches = KubernetesConfig::default().watches();
        assert!(watches.iter().all(|(key, _)| key.namespace.is_none()));
        let optional: Vec<String> =
            watches.iter().filter(|(_, optional)| *optional).map(|(k, _)| k.to_string()).collect();
        assert_eq!(
            optional,
            [
                "httproutes.gateway.networking.k8s.io",
                "grpcroutes.gateway.networking.k8s.io",
                "referencegrants.gateway.networking.k8s.io",
                "inboundroutes.portcullis.dev",
                "routeadmissionpolicies.portcullis.dev",
                "httproutegroups.portcullis.dev",
                "httproutebindings.portcullis.dev",
                "httprouteclasses.portcullis.dev",
                "grpcservices.portcullis.dev",
                "grpcservicebindings.portcullis.dev",
                "grpcserviceclasses.portcullis.dev",
                "timeoutpolicies.portcullis.dev",
                "headerrewritepolicies.portcullis.dev",
                "traffictargets.access.smi-spec.io",
                "httproutegroups.specs.smi-spec.io",
                "tcproutes.specs.smi-spec.io",
                "identitybindings.access.smi-spec.io",
                "externalworkloads.workload.linkerd.io"
            ]
        );
        assert_eq!(watches.len(), 31);
        assert_eq!(Scope::Cluster.limitations(), Vec::<String>::new());
    }

    #[test]
    fn what_discovery_alone_reads_is_watched_while_it_is_on() {
        let watches = |config: &KubernetesConfig| -> Vec<String> {
            config.watches().iter().map(|(key, _)| key.to_string()).collect()
        };
        let on = KubernetesConfig::default();
        let off = KubernetesConfig { discovery: false, ..on.clone() };
        let of_discovery: Vec<String> = watches(&on)[watches(&off).len()..].to_vec();
        assert_eq!(of_discovery, ["services", "endpointslices.discovery.k8s.io"]);
        let scope = Scope::Namespaces(["a".into()].into());
        let (on, off) =
            (KubernetesConfig { scope: scope.clone(), ..on }, KubernetesConfig { scope, ..off });
        assert_eq!(watches(&on), watches(&off));
    }

    #[test]
    fn namespaces_are_watched_alone_and_nodes_are_told() {
        let addresses: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let config = KubernetesConfig {
            scope: Scope::Namespaces(["a".into(), "b".into()].into()),
            nodes: [("n-1.x".into(), addresses.clone()), ("n2".into(), vec![])].into(),
            ..KubernetesConfig::default()
        };
        let watches = config.watches();
        assert!(watches.iter().all(|(key, _)| key.namespace.is_some() && key.kind != Kind::Node));
        assert_eq!(watches.len(), 54);
        let nodes: Vec<(String, Vec<IpAddr>)> = config
            .node_objects()
            .into_iter()
            .map(|object| {
                let Body::Valid(Resource::Node(node)) = object.body else { panic!("no Node") };
                (object.meta.key.to_string(), node.addresses)
            })
            .collect();
        assert_eq!(nodes, [("Node n-1.x".into(), addresses), ("Node n2".into(), vec![])]);
        assert_eq!(config.scope.limitations().len(), 5);
    }
}

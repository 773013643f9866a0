//! Sample clients: every kind of client that the manifests distinguish.

use crate::local_mesh::addresses::Peer;
use crate::local_mesh::{NODE, address_at, cluster_address};
use ipnet::IpNet;
use policy_core::{IdentityMatch, NetworkMatch, NetworkTerm};
use policy_crds::resource::{NamespacedName, ServerAuthorization};
use policy_crds::spec::Client as NamedBy;
use policy_crds::{Body, Object, Resource};
use policy_engine::{ControllerConfig, WorkloadState};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// A sample client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampleClient {
    /// Key of its address.
    pub(crate) who: Peer,
    /// Name for people.
    pub(crate) name: String,
    /// The real address; `None`: one inside the cluster.
    pub(crate) real: Option<IpAddr>,
    /// The identity that it proves.
    pub(crate) identity: Option<Arc<str>>,
}

/// Returns a sample of every kind of client that the manifests distinguish: one outside, one inside
/// the cluster, the nodes, one inside each named network, and every ServiceAccount.
pub(crate) fn clients(
    objects: &[Arc<Object>],
    states: &[Arc<WorkloadState>],
    config: &ControllerConfig,
) -> Vec<SampleClient> {
    let networks = networks(objects);
    let mut clients = vec![plain(Peer::External, "outside", Some(outside(&networks, config)))];
    if let Some(address) = cluster_address(&config.cluster_networks) {
        clients.push(plain(Peer::InCluster, "inside the cluster", Some(address)));
    }
    clients.extend(nodes(states));
    for (address, name) in network_members(&networks) {
        clients.push(plain(Peer::Address(address), &name, Some(address)));
    }
    clients.extend(identities(objects, config));
    clients
}

fn plain(who: Peer, name: &str, real: Option<IpAddr>) -> SampleClient {
    SampleClient { who, name: name.to_owned(), real, identity: None }
}

/// Nodes of the pods. The default node is called `node`.
fn nodes(states: &[Arc<WorkloadState>]) -> Vec<SampleClient> {
    let local = states.iter().filter_map(|state| state.facts.node_local.first());
    let addresses: BTreeSet<IpAddr> = local.map(|network| network.addr()).collect();
    let client = |(number, address): (usize, IpAddr)| match (number, address) {
        (0, NODE) => plain(Peer::Node, "node", Some(address)),
        _ => plain(Peer::Address(address), &format!("node {address}"), Some(address)),
    };
    addresses.into_iter().enumerate().map(client).collect()
}

/// Networks in manifests with their exceptions, and the objects that contain them.
fn networks(objects: &[Arc<Object>]) -> Vec<(NetworkMatch, String)> {
    let mut found = Vec::new();
    for object in objects {
        let networks = match &object.body {
            Body::Valid(Resource::NetworkAuthentication(authentication)) => {
                &authentication.networks
            }
            Body::Valid(Resource::ServerAuthorization(ServerAuthorization {
                networks: Some(networks),
                ..
            })) => networks,
            Body::Valid(_) | Body::Invalid(_) => continue,
        };
        let name = object.meta.key.to_string();
        found.extend(networks.iter().map(|network| (network.clone(), name.clone())));
    }
    found
}

/// One client inside each network, and inside each exception.
fn network_members(networks: &[(NetworkMatch, String)]) -> BTreeMap<IpAddr, String> {
    let mut found = BTreeMap::new();
    for (network, _) in networks {
        let NetworkTerm::Net(block) = network.term else { continue };
        // Every client is inside this network: the other samples represent it.
        if block.prefix_len() == 0 {
            continue;
        }
        if let Some(address) = member(&block, &network.except) {
            found.entry(address).or_insert_with(|| format!("inside {block}"));
        }
        for except in &network.except {
            let address = address_at(except, 1);
            found.entry(address).or_insert_with(|| format!("inside {except}, excepted"));
        }
    }
    found
}

/// Address of a network that no exception covers.
fn member(network: &IpNet, except: &[IpNet]) -> Option<IpAddr> {
    let beside = except.iter().flat_map(|net| [address_after(net), address_at(network, 7)]);
    [address_at(network, 1), network.network()]
        .into_iter()
        .chain(beside)
        .chain((8..200).map(|offset| address_at(network, offset)))
        .find(|address| {
            network.contains(address) && !except.iter().any(|net| net.contains(address))
        })
}

/// The address after the last of a network.
fn address_after(network: &IpNet) -> IpAddr {
    match network.broadcast() {
        IpAddr::V4(last) => Ipv4Addr::from_bits(last.to_bits().wrapping_add(1)).into(),
        IpAddr::V6(last) => std::net::Ipv6Addr::from_bits(last.to_bits().wrapping_add(1)).into(),
    }
}

/// An address outside of every named network.
fn outside(networks: &[(NetworkMatch, String)], config: &ControllerConfig) -> IpAddr {
    let named = networks.iter().filter_map(|(network, _)| match network.term {
        NetworkTerm::Net(net) if net.prefix_len() > 0 => Some(net),
        NetworkTerm::Net(_) | NetworkTerm::Symbol(_) => None,
    });
    let taken: Vec<IpNet> = named.chain(config.cluster_networks.iter().copied()).collect();
    let free = |address: &Ipv4Addr| !taken.iter().any(|net| net.contains(&IpAddr::V4(*address)));
    // Documentation and benchmarking addresses first (RFC 5737, RFC 2544), then any other.
    let known = [[203, 0, 113, 77], [192, 0, 2, 77], [198, 51, 100, 77], [198, 18, 0, 77]];
    let any = (1..=223_u8).map(|first| [first, 99, 99, 77]);
    let candidate = known.into_iter().chain(any).map(Ipv4Addr::from).find(free);
    candidate.unwrap_or(Ipv4Addr::new(203, 0, 113, 77)).into()
}

/// Clients with an identity that manifests name or imply.
fn identities(objects: &[Arc<Object>], config: &ControllerConfig) -> Vec<SampleClient> {
    let mut accounts = BTreeSet::new();
    let mut others = BTreeSet::new();
    for object in objects {
        let mut named = IdentityCollector { config, accounts: &mut accounts, others: &mut others };
        named.collect(object);
    }
    let accounts = accounts.into_iter().map(|(namespace, name)| SampleClient {
        name: format!("{namespace}/{name}"),
        real: None,
        identity: Some(config.service_account_identity(&namespace, &name)),
        who: Peer::Account(namespace, name),
    });
    let others = others.into_iter().map(|identity| SampleClient {
        name: identity.to_string(),
        real: None,
        identity: Some(Arc::clone(&identity)),
        who: Peer::Identity(identity),
    });
    accounts.chain(others).collect()
}

struct IdentityCollector<'a> {
    config: &'a ControllerConfig,
    accounts: &'a mut BTreeSet<(Arc<str>, Arc<str>)>,
    others: &'a mut BTreeSet<Arc<str>>,
}

impl IdentityCollector<'_> {
    fn collect(&mut self, object: &Object) {
        let key = &object.meta.key;
        let own = match &object.body {
            Body::Valid(Resource::ServiceAccount) => Some(&key.name),
            Body::Valid(Resource::Pod(pod)) => Some(&pod.service_account),
            Body::Valid(_) | Body::Invalid(_) => None,
        };
        self.accounts.extend(own.map(|name| (key.namespace.clone(), name.clone())));
        for named in object.clients() {
            match named.client {
                NamedBy::Account(name) => self.account(key, &name),
                NamedBy::Identity(identity) => self.identity(&identity),
                // Its accounts are known by objects of their own.
                NamedBy::Namespace(_) => {}
            }
        }
    }

    fn account(&mut self, by: &policy_crds::ObjectKey, name: &NamespacedName) {
        let namespace = name.namespace.clone().unwrap_or_else(|| by.namespace.clone());
        self.accounts.insert((namespace, name.name.clone()));
    }

    fn identity(&mut self, identity: &IdentityMatch) {
        let IdentityMatch::Exact(name) = identity else { return };
        match self.config.service_account_of(name) {
            Some((name, namespace)) => {
                self.accounts.insert((namespace.into(), name.into()));
            }
            None => {
                self.others.insert(Arc::clone(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Vec<Arc<Object>> {
        let documents = policy_crds::document::read(text);
        let values = documents.into_iter().map(|document| document.value.unwrap());
        values.map(|value| Arc::new(policy_crds::parse(&value).unwrap())).collect()
    }

    fn names(text: &str) -> Vec<String> {
        let objects = objects(text);
        let clients = clients(&objects, &[], &ControllerConfig::default());
        clients.into_iter().map(|client| client.name).collect()
    }

    #[test]
    fn networks_and_their_exceptions_have_somebody_inside() {
        let text = "apiVersion: policy.linkerd.io/v1alpha1\n\
                    kind: NetworkAuthentication\n\
                    metadata: {name: office, namespace: shop}\n\
                    spec: {networks: [{cidr: 203.0.113.0/24, except: [203.0.113.0/25]}]}\n";
        let objects = objects(text);
        let clients = clients(&objects, &[], &ControllerConfig::default());
        let at = |name: &str| {
            clients.iter().find(|client| client.name == name).unwrap().real.unwrap().to_string()
        };
        assert_eq!(at("inside 203.0.113.0/24"), "203.0.113.128");
        assert_eq!(at("inside 203.0.113.0/25, excepted"), "203.0.113.1");
        assert_eq!(at("outside"), "192.0.2.77");
    }

    #[test]
    fn service_accounts_are_known_by_object_and_by_reference() {
        let text = "apiVersion: v1\n\
                    kind: ServiceAccount\n\
                    metadata: {name: web, namespace: shop}\n\
                    ---\n\
                    apiVersion: policy.linkerd.io/v1alpha1\n\
                    kind: MeshTLSAuthentication\n\
                    metadata: {name: m, namespace: shop}\n\
                    spec: {identities: [prometheus.monitoring.serviceaccount.identity.linkerd.cluster.local, \
                    'spiffe://example.org/x', '*.shop.example']}\n";
        let names = names(text);
        for expected in ["shop/web", "monitoring/prometheus", "spiffe://example.org/x"] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
        assert_eq!(names.len(), 5, "{names:?}");
    }

    #[test]
    fn everywhere_needs_nobody_of_its_own() {
        let text = "apiVersion: policy.linkerd.io/v1alpha1\n\
                    kind: NetworkAuthentication\n\
                    metadata: {name: all, namespace: shop}\n\
                    spec: {networks: [{cidr: 0.0.0.0/0}, {cidr: '::/0'}]}\n";
        assert_eq!(names(text), ["outside", "inside the cluster"]);
    }
}

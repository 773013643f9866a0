//! Configuration of outbound discovery: whose workloads and machines count as in the mesh.

use ipnet::IpNet;
use policy_crds::is_dns_name;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Configuration of outbound discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundConfig {
    /// Other control planes whose pods are reached in mesh TLS. Pods of all others are reached in
    /// plaintext.
    pub peers: BTreeSet<OutboundPeer>,
    /// Namespaces whose ExternalWorkloads count by their addresses, outside the cluster networks.
    /// All others count as endpoints of Services of their own namespace alone.
    pub external_workload_namespaces: BTreeSet<Arc<str>>,
    /// Networks whose addresses sidecars look up; empty: the cluster networks.
    pub networks: Vec<IpNet>,
    /// Former trust domains of this mesh, which the marks of pods from before the change still state.
    pub former_trust_domains: BTreeSet<Arc<str>>,
}

/// Another control plane, whose roots of trust this one shares. It is a pledge of the operator:
/// without shared roots every connection to its pods would fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboundPeer {
    /// The namespace of the control plane, which its pods are labelled with.
    pub namespace: Arc<str>,
    /// Trust domain; ends every mesh identity of its pods.
    pub trust_domain: Arc<str>,
}

/// `namespace=linkerd,trust-domain=cluster.local,shared-roots=true`.
impl fmt::Display for OutboundPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, trust_domain } = self;
        write!(f, "namespace={namespace},trust-domain={trust_domain},shared-roots=true")
    }
}

impl OutboundConfig {
    /// The first name that is not a DNS name, if there is any.
    pub(crate) fn not_a_name(&self) -> Option<(&'static str, &Arc<str>)> {
        let peers = self.peers.iter().flat_map(|peer| [&peer.namespace, &peer.trust_domain]);
        let peers = peers.map(|name| ("outbound peers", name));
        let external = self.external_workload_namespaces.iter();
        let external = external.map(|name| ("external workload namespaces", name));
        let former = self.former_trust_domains.iter().map(|name| ("former trust domains", name));
        peers.chain(external).chain(former).find(|(_, name)| !is_dns_name(name))
    }

    /// The trust domains of other meshes and of former times.
    pub(crate) fn trust_domains(&self) -> impl Iterator<Item = &Arc<str>> {
        self.peers.iter().map(|peer| &peer.trust_domain).chain(&self.former_trust_domains)
    }

    /// The first namespace that several peers state, if there is any.
    pub(crate) fn stated_twice(&self) -> Option<&Arc<str>> {
        let following = self.peers.iter().zip(self.peers.iter().skip(1));
        let mut twice = following.filter(|(one, next)| one.namespace == next.namespace);
        twice.next().map(|(one, _)| &one.namespace)
    }

    /// The peer whose control plane is in `namespace`.
    pub(crate) fn peer(&self, namespace: &str) -> Option<&OutboundPeer> {
        self.peers.iter().find(|peer| &*peer.namespace == namespace)
    }
}

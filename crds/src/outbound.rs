//! What outbound discovery reads, as typed values: Services, their endpoints, and the sidecars of
//! pods.

use crate::ports::PortRef;
use crate::sidecar_mark::SidecarMark;
use policy_core::AddressFamily;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its addresses in the cluster; none: it is headless, or an ExternalName.
    pub cluster_addresses: Vec<IpAddr>,
    /// Its other addresses that nodes answer as well: `externalIPs`, and those of its load balancer
    /// unless that is a proxy. None where it has no address in the cluster: nodes then answer no
    /// address of it.
    pub external_addresses: Vec<IpAddr>,
    /// The TCP ports that it declares.
    pub ports: Vec<ServicePort>,
    /// True if clients that dial an address in the cluster may use endpoints of their own node alone.
    pub is_local: bool,
    /// Time for which a client keeps its endpoint; absent: each connection chooses anew.
    pub affinity: Option<Duration>,
    /// True if it is another name of a host outside of the cluster.
    pub is_external_name: bool,
    /// The labels of its pods; empty: others state its endpoints. Where there is no cluster, its
    /// endpoints are found by them.
    pub selector: BTreeMap<Arc<str>, Arc<str>>,
}

impl Service {
    /// True if pods with these labels are its pods.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        let has = |(label, value): (_, &Arc<str>)| labels.get::<Arc<str>>(label) == Some(value);
        !self.selector.is_empty() && self.selector.iter().all(has)
    }

    /// The port of its pods behind this port of its own; `None`: it declares no such port.
    #[must_use]
    pub fn target_of(&self, port: NonZeroU16) -> Option<PortRef> {
        let declared = self.ports.iter().find(|declared| declared.port == port)?;
        Some(declared.pod_port())
    }
}

/// A declared TCP port of a [`Service`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Name, by which slices call it; empty: none.
    pub name: Arc<str>,
    /// Number.
    pub port: NonZeroU16,
    /// The port of its pods; absent: the same number.
    pub target: Option<PortRef>,
}

impl ServicePort {
    /// The port of its pods.
    #[must_use]
    pub fn pod_port(&self) -> PortRef {
        self.target.clone().unwrap_or(PortRef::Number(self.port))
    }
}

/// EndpointSlice: some endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The API server's version of this state of it, if it comes from one.
    pub version: Option<u64>,
    /// Name of the Service, in its namespace; absent: of none.
    pub service: Option<Arc<str>>,
    /// The family of its addresses; absent: its endpoints are names of hosts, and none is kept.
    pub family: Option<AddressFamily>,
    /// The TCP ports of each endpoint.
    pub ports: Vec<SlicePort>,
    /// The endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// A TCP port of the endpoints of an [`EndpointSlice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Name of the Service's port; empty: the one without a name.
    pub name: Arc<str>,
    /// Number; absent: not restricted, which nodes cannot use.
    pub port: Option<NonZeroU16>,
}

/// The pod that an endpoint is said to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodTarget {
    /// Its namespace; that of the slice where none is stated.
    pub namespace: Arc<str>,
    /// Its name; empty if it is not stated or cannot be read.
    pub name: Arc<str>,
    /// Its uid, if it is stated.
    pub uid: Option<Arc<str>>,
}

/// An endpoint of an [`EndpointSlice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its first address, the only one that nodes use.
    pub address: IpAddr,
    /// True if it is ready, or does not say.
    pub is_ready: bool,
    /// True if it can serve, even while it ends; also if it does not say.
    pub is_serving: bool,
    /// True if it is ending.
    pub is_terminating: bool,
    /// The pod that its author says it is, if any. Who holds an address is known from the pods
    /// themselves; one that another pod holds by now is no endpoint.
    pub pod: Option<Arc<PodTarget>>,
    /// Its node, if known.
    pub node: Option<Arc<str>>,
    /// The zones whose clients are to use it; empty: it carries no such hint.
    pub zones: Vec<Arc<str>>,
    /// The nodes whose clients are to use it; empty: it carries no such hint.
    pub nodes: Vec<Arc<str>>,
}

/// The sidecar of a pod, by which clients reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodSidecar {
    /// None of ours.
    #[default]
    None,
    /// One from before the mark: the inbound half at [`SidecarMark::INBOUND_PORT`], the ports that the
    /// init container skips, the identity of the ServiceAccount.
    Unmarked,
    /// As its mark says.
    Marked(Arc<SidecarMark>),
    /// Its mark cannot be read: the pod is in the mesh, and no client can reach it, because its
    /// identity is not known.
    Unreadable,
}

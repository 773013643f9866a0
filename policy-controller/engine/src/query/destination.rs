//! What an address and port lead to, and the answers that it is made from.

use super::workload::{Ports, WorkloadShape};
use crate::publish::destination::{DestinationQuestion, DestinationScope};
use policy_core::{AddressFamily, PlaintextReason, ServiceName};
use policy_crds::ObjectKey;
use policy_crds::resource::PodTarget;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The answer to a question about a destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DestinationOf(pub(crate) DestinationQuestion);

/// The owners of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnersOf(pub(crate) IpAddr);

/// See [`OwnersOf`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressOwners {
    /// The Service whose cluster address it is.
    pub(crate) service: Option<ObjectKey>,
    /// The Services that have it as another address, by the ports that they declare. They may share
    /// it; a port that several declare is the oldest one's.
    pub(crate) fronts: BTreeMap<NonZeroU16, ObjectKey>,
    /// The oldest of them, which answers for the ports that none declares.
    pub(crate) front: Option<ObjectKey>,
    /// The live pod that holds it.
    pub(crate) pod: Option<ObjectKey>,
    /// The ExternalWorkloads that state it, oldest first. They count for Services of their own
    /// namespace.
    pub(crate) stated: Vec<ObjectKey>,
    /// The one of them that counts for everybody.
    pub(crate) external: Option<ObjectKey>,
    /// True if it is an address of a node.
    pub(crate) is_node: bool,
}

/// The addresses and ports of the API server itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ApiServer;

/// The way into a workload, whatever the port; of a Pod or ExternalWorkload that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryOf(pub(crate) ObjectKey);

/// See [`EntryOf`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadEntry {
    /// The owner in metrics and logs; empty: not known.
    pub(crate) owner: Arc<str>,
    /// How its ports are reached.
    pub(crate) mesh: WorkloadMesh,
}

/// How the ports of a workload are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadMesh {
    /// All in plaintext.
    Plaintext(PlaintextReason),
    /// In mesh TLS.
    Meshed {
        /// The identity that it must present.
        identity: Arc<str>,
        /// The server name that clients send.
        server_name: Arc<str>,
        /// The port of its sidecar.
        inbound_port: NonZeroU16,
        /// The ports that the sidecar does not get, which are reached in plaintext.
        skipped: Ports,
    },
}

/// True if a port of every workload of a shape is opaque.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct IsOpaque {
    /// The shape.
    pub(crate) shape: Arc<WorkloadShape>,
    /// The port.
    pub(crate) port: NonZeroU16,
}

/// The endpoint at an address and port; none if a slice says that it is a pod, and that pod is not
/// known there, or if nodes would lead a connection on to another Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EndpointAt {
    /// Its address and port.
    pub(crate) address: SocketAddr,
    /// The Service that it is an endpoint of; absent: it was dialled itself.
    pub(crate) of: Option<ServiceName>,
    /// The pod that a slice says it is.
    pub(crate) pod: Option<Arc<PodTarget>>,
}

/// The zone of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ZoneOf(pub(crate) Arc<str>);

/// What a port of a Service leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServicePortOf {
    /// The Service.
    pub(crate) service: ObjectKey,
    /// The port.
    pub(crate) port: NonZeroU16,
    /// The family of the address that clients dial.
    pub(crate) family: AddressFamily,
    /// The kind of the address that clients dial.
    pub(crate) front: Front,
    /// The place of the clients.
    pub(crate) scope: DestinationScope,
}

/// The kinds of addresses of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Front {
    /// Its address in the cluster.
    Cluster,
    /// One that is reachable from outside, too. `internalTrafficPolicy` does not concern it.
    External,
}

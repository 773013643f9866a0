//! Destinations of outbound connections: what an address and port lead to, and which of the
//! endpoints are in the mesh.
//!
//! The controller makes these values from Services, pods and machines. The sidecar reaches
//! endpoints by them. They name no Kubernetes type: a Service is a name and a port.

use crate::network::fold_mapped;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// What an address and port lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The address belongs to nobody known.
    Unknown,
    /// The address of a node. It never means a pod on that node.
    Node,
    /// The address of a Service, and a port that the Service does not declare.
    UndeclaredPort(ServiceName),
    /// The address of a Service, and a port that it declares.
    Service(ServiceDestination),
    /// The address of a pod or of a machine outside the cluster.
    Workload(Endpoint),
}

/// The name of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name within its namespace.
    pub name: Arc<str>,
}

/// `name.namespace`, as the Service is called inside its cluster.
impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name, self.namespace)
    }
}

/// A declared port of a Service, and the endpoints that its clients may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDestination {
    /// The Service.
    pub service: ServiceName,
    /// The declared port.
    pub port: NonZeroU16,
    /// Time for which a client keeps its endpoint; absent: each connection chooses anew.
    pub affinity: Option<Duration>,
    /// The endpoints that one client may use, ordered by address, each address once. Empty: no
    /// endpoint can serve.
    pub endpoints: Arc<[Endpoint]>,
}

/// One address that serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address and port.
    pub address: SocketAddr,
    /// The owner in metrics and logs, such as `deployment/web`; empty: not known.
    pub owner: Arc<str>,
    /// The namespace of its workload; empty: not known.
    pub namespace: Arc<str>,
    /// How it is reached.
    pub mesh: EndpointMesh,
}

/// How an endpoint is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointMesh {
    /// In mesh TLS, and never otherwise.
    Meshed(MeshEndpoint),
    /// In plaintext.
    Plaintext(PlaintextReason),
}

/// The sidecar of an endpoint in the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeshEndpoint {
    /// The identity that it must present.
    pub identity: Arc<str>,
    /// The server name (SNI) that the client sends.
    pub server_name: Arc<str>,
    /// The port of the sidecar itself, which reads a transport header. Absent: the sidecar has
    /// none.
    pub inbound_port: Option<NonZeroU16>,
    /// True if the workload's port is opaque: the connection goes to `inbound_port`, and a transport
    /// header names the workload's port.
    pub opaque: bool,
}

/// The reasons for plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlaintextReason {
    /// The endpoint has no sidecar.
    Unmeshed,
    /// The endpoint's sidecar skips the port.
    Skipped,
    /// The endpoint has the sidecar of another mesh.
    ForeignMesh,
    /// The API server, which is in no mesh.
    ApiServer,
    /// A node's address.
    NodePort,
    /// An address that nobody is known to hold.
    Unknown,
    /// An address outside the networks that are looked up.
    External,
}

impl PlaintextReason {
    /// Every reason, in the order of the variants.
    pub const ALL: [Self; 7] = [
        Self::Unmeshed,
        Self::Skipped,
        Self::ForeignMesh,
        Self::ApiServer,
        Self::NodePort,
        Self::Unknown,
        Self::External,
    ];

    /// The reason as metrics and logs name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unmeshed => "unmeshed",
            Self::Skipped => "skipped",
            Self::ForeignMesh => "foreign_mesh",
            Self::ApiServer => "api_server",
            Self::NodePort => "node_port",
            Self::Unknown => "unknown",
            Self::External => "external",
        }
    }
}

impl fmt::Display for PlaintextReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The IP family of an address that an application dialled. Endpoints are of the same family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl AddressFamily {
    /// The family of an address. An IPv4 address mapped into IPv6 is IPv4.
    pub fn of(address: IpAddr) -> Self {
        match fold_mapped(address) {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl Destination {
    /// The endpoints, in order; none where no endpoint is known.
    pub fn endpoints(&self) -> &[Endpoint] {
        match self {
            Self::Service(service) => &service.endpoints,
            Self::Workload(endpoint) => std::slice::from_ref(endpoint),
            Self::Unknown | Self::Node | Self::UndeclaredPort(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_of_the_family_that_it_maps() {
        let family = |text: &str| AddressFamily::of(text.parse().unwrap());
        assert_eq!(family("10.0.0.1"), AddressFamily::V4);
        assert_eq!(family("::ffff:10.0.0.1"), AddressFamily::V4);
        assert_eq!(family("fd00::1"), AddressFamily::V6);
    }

    #[test]
    fn each_reason_has_a_name_of_its_own() {
        let names = PlaintextReason::ALL.map(PlaintextReason::as_str);
        assert_eq!(
            names,
            [
                "unmeshed",
                "skipped",
                "foreign_mesh",
                "api_server",
                "node_port",
                "unknown",
                "external"
            ]
        );
    }
}

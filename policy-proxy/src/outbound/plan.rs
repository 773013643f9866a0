//! What happens to a connection, by its destination and what is known of it.

use super::settings::{OutboundMode, OutboundSettings, Unanswered};
use super::table::Knowledge;
use policy_core::{
    Destination, Endpoint, EndpointMesh, PlaintextReason, ServiceDestination, ServiceName,
};
use std::net::IpAddr;
use std::time::Duration;

/// The next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// To the address that the application dialled, in plaintext.
    Straight(PlaintextReason),
    /// To one of the destination's endpoints.
    Endpoint(Candidates),
    /// Wait for another answer, at most this long.
    Wait(Duration),
    /// The connection is reset.
    Refuse(Refusal),
}

/// The endpoints that a connection may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// All of them.
    All,
    /// Those in the mesh.
    Meshed,
}

/// The reasons for which a connection is reset before its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The Service does not declare the port.
    UndeclaredPort,
    /// A node's address, in mesh-only.
    NodePort,
    /// The controller did not tell the destination.
    DiscoveryUnavailable,
    /// The destination is the sidecar itself.
    Loop,
    /// Only plaintext leads there, in mesh-only.
    MeshOnly,
    /// As many destinations as allowed have connections.
    TooManyDestinations,
    /// As many connections as allowed are open.
    TooManyConnections,
    /// The Service has no endpoint that serves.
    NoEndpoint,
    /// No endpoint accepted the connection.
    Connect,
    /// No source port is free for a connection to the endpoint.
    SourcePorts,
    /// No endpoint proved the identity that is expected of it.
    Identity,
    /// The sidecar has no certificate yet.
    NoIdentity,
}

impl Refusal {
    /// Every reason, in the order of the variants.
    pub const ALL: [Self; 12] = [
        Self::UndeclaredPort,
        Self::NodePort,
        Self::DiscoveryUnavailable,
        Self::Loop,
        Self::MeshOnly,
        Self::TooManyDestinations,
        Self::TooManyConnections,
        Self::NoEndpoint,
        Self::Connect,
        Self::SourcePorts,
        Self::Identity,
        Self::NoIdentity,
    ];

    /// The reason in words, with what would mend it.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::UndeclaredPort => "the Service does not declare the port",
            Self::NodePort => "it is an address of a node, which the mesh-only mode does not call",
            Self::DiscoveryUnavailable => {
                "the controller did not answer what the address leads to; `portcullis health` says why"
            }
            Self::Loop => "the address leads to the sidecar itself",
            Self::MeshOnly => {
                "only plaintext leads there, which the mesh-only mode does not send: the other end has no \
                 sidecar, or its sidecar skips the port"
            }
            Self::TooManyDestinations => "as many destinations as allowed have connections",
            Self::TooManyConnections => "as many connections as allowed are open",
            Self::NoEndpoint => "no pod of the Service is ready",
            Self::Connect => "no endpoint accepted the connection",
            Self::SourcePorts => "no source port is free for a connection to the endpoint",
            Self::Identity => {
                "no endpoint proved the identity that is expected of it: its certificate has expired, is of \
                 other roots, or of another identity"
            }
            Self::NoIdentity => {
                "the sidecar has no certificate that is valid; `portcullis identity` and its log say why"
            }
        }
    }

    /// The reason as metrics and logs name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UndeclaredPort => "undeclared_port",
            Self::NodePort => "node_port",
            Self::DiscoveryUnavailable => "discovery_unavailable",
            Self::Loop => "loop",
            Self::MeshOnly => "mesh_only",
            Self::TooManyDestinations => "too_many_destinations",
            Self::TooManyConnections => "too_many_connections",
            Self::NoEndpoint => "no_endpoint",
            Self::Connect => "connect",
            Self::SourcePorts => "source_ports",
            Self::Identity => "identity",
            Self::NoIdentity => "no_identity",
        }
    }
}

/// The time that a connection has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Since it began.
    pub since_start: Duration,
    /// Since nobody is known to hold the address. Zero if somebody is.
    pub since_unknown: Duration,
}

/// Decides what happens to a connection to an address that is looked up.
pub fn plan(
    address: IpAddr,
    known: &Knowledge,
    waited: Waited,
    settings: &OutboundSettings,
) -> Plan {
    let question = Question { address, waited, settings };
    match known {
        Knowledge::Unanswered => question.wait_for_answer(None),
        Knowledge::Refused { .. } => question.without_answer(None),
        Knowledge::Known { destination, is_fresh } => question.known(destination, *is_fresh),
    }
}

struct Question<'a> {
    address: IpAddr,
    waited: Waited,
    settings: &'a OutboundSettings,
}

impl Question<'_> {
    fn known(&self, destination: &Destination, is_fresh: bool) -> Plan {
        match destination {
            Destination::UndeclaredPort(_) => Plan::Refuse(Refusal::UndeclaredPort),
            Destination::Service(service) => self.service(service, is_fresh),
            Destination::Workload(endpoint) => {
                self.endpoints(std::slice::from_ref(endpoint), None, is_fresh)
            }
            // Who holds an address may have changed since.
            Destination::Unknown | Destination::Node if !is_fresh => self.wait_for_answer(None),
            Destination::Unknown => {
                match self.left(self.settings.unknown, self.waited.since_unknown) {
                    Some(left) => Plan::Wait(left),
                    None => self.plaintext(PlaintextReason::Unknown, Refusal::MeshOnly, None),
                }
            }
            Destination::Node => self.plaintext(PlaintextReason::NodePort, Refusal::NodePort, None),
        }
    }

    fn service(&self, service: &ServiceDestination, is_fresh: bool) -> Plan {
        if service.endpoints.is_empty() {
            return Plan::Refuse(Refusal::NoEndpoint);
        }
        self.endpoints(&service.endpoints, Some(&service.service), is_fresh)
    }

    fn endpoints(
        &self,
        endpoints: &[Endpoint],
        service: Option<&ServiceName>,
        is_fresh: bool,
    ) -> Plan {
        let permitted = self.permits_plaintext(service) || endpoints.iter().all(is_api_server);
        if permitted && is_fresh {
            return Plan::Endpoint(Candidates::All);
        }
        if endpoints.iter().any(is_meshed) {
            return Plan::Endpoint(Candidates::Meshed);
        }
        if permitted { self.wait_for_answer(service) } else { Plan::Refuse(Refusal::MeshOnly) }
    }

    /// Waits for an answer as long as the bound allows.
    fn wait_for_answer(&self, service: Option<&ServiceName>) -> Plan {
        match self.left(self.settings.answer, self.waited.since_start) {
            Some(left) => Plan::Wait(left),
            None => self.without_answer(service),
        }
    }

    fn without_answer(&self, service: Option<&ServiceName>) -> Plan {
        match self.settings.unanswered {
            Unanswered::Refuse => Plan::Refuse(Refusal::DiscoveryUnavailable),
            Unanswered::Plaintext => {
                self.plaintext(PlaintextReason::Unknown, Refusal::MeshOnly, service)
            }
        }
    }

    fn plaintext(
        &self,
        reason: PlaintextReason,
        otherwise: Refusal,
        service: Option<&ServiceName>,
    ) -> Plan {
        if self.permits_plaintext(service) {
            Plan::Straight(reason)
        } else {
            Plan::Refuse(otherwise)
        }
    }

    fn permits_plaintext(&self, service: Option<&ServiceName>) -> bool {
        match self.settings.mode {
            OutboundMode::On => true,
            OutboundMode::MeshOnly => self.settings.is_exempt(self.address, service),
        }
    }

    fn left(&self, bound: Duration, waited: Duration) -> Option<Duration> {
        bound.checked_sub(waited).filter(|left| !left.is_zero())
    }
}

/// True if an endpoint is in the mesh.
pub fn is_meshed(endpoint: &Endpoint) -> bool {
    match endpoint.mesh {
        EndpointMesh::Meshed(_) => true,
        EndpointMesh::Plaintext(_) => false,
    }
}

/// True if an endpoint is the API server, which mesh-only does not concern.
fn is_api_server(endpoint: &Endpoint) -> bool {
    endpoint.mesh == EndpointMesh::Plaintext(PlaintextReason::ApiServer)
}

impl Candidates {
    /// True if the connection may use this endpoint.
    pub fn admit(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::All => true,
            Self::Meshed => is_meshed(endpoint),
        }
    }
}

#[cfg(test)]
mod tests;

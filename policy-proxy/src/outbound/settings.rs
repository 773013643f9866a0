//! Settings of the outbound half.

use super::table::TableSettings;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use policy_core::ServiceName;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Settings of the outbound half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundSettings {
    /// The networks whose addresses are looked up. Connections to all others go straight on.
    pub networks: Vec<IpNet>,
    /// Handling of connections whose destination the controller does not tell.
    pub unanswered: Unanswered,
    /// The port that a meshed endpoint is reached at.
    pub transport: Transport,
    /// Connections that may be made in plaintext.
    pub mode: OutboundMode,
    /// Destinations that may be reached in plaintext whatever the mode.
    pub plaintext_allowed: Vec<PlaintextAllowed>,
    /// Time that a connection waits for the first answer about its destination, and for the first
    /// certificate.
    pub answer: Duration,
    /// Time for which an address that nobody is known to hold is asked for again.
    pub unknown: Duration,
    /// Timeout of a connect to an endpoint.
    pub connect: Duration,
    /// Timeout of a connect to an address that goes straight on, for which there is no other endpoint.
    pub connect_straight: Duration,
    /// Timeout of a TLS handshake with an endpoint.
    pub handshake: Duration,
    /// Time for which bytes sent to an endpoint may stay unacknowledged. An endpoint that acknowledges
    /// and reads nothing may take any time.
    pub user_timeout: Duration,
    /// The address that connections are made from; absent: the system chooses.
    pub source: Option<IpAddr>,
    /// Bounds of the table of destinations.
    pub table: TableSettings,
}

/// Handling of destinations that the controller does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The connection is refused.
    Refuse,
    /// The connection goes on in plaintext.
    Plaintext,
}

/// The port that a meshed endpoint is reached at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The endpoint's own port. The sidecar's port with a transport header if the endpoint is opaque.
    Original,
    /// The sidecar's port, with a transport header.
    Header,
}

/// Connections that may be made in plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboundMode {
    /// Those to endpoints outside the mesh.
    On,
    /// Those to addresses that are not looked up, and no other.
    MeshOnly,
}

/// Destinations that mesh-only does not concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaintextAllowed {
    /// Addresses.
    Network(IpNet),
    /// A Service.
    Service(ServiceName),
}

impl Default for OutboundSettings {
    fn default() -> Self {
        Self {
            networks: private_networks(),
            unanswered: Unanswered::Refuse,
            transport: Transport::Original,
            mode: OutboundMode::On,
            plaintext_allowed: Vec::new(),
            answer: Duration::from_secs(3),
            unknown: Duration::from_secs(2),
            connect: Duration::from_secs(3),
            connect_straight: Duration::from_secs(10),
            handshake: Duration::from_secs(5),
            user_timeout: Duration::from_secs(30),
            source: None,
            table: TableSettings::default(),
        }
    }
}

impl OutboundSettings {
    /// True if `address` is looked up.
    pub fn is_looked_up(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// True if mesh-only does not concern this address or Service. The API server is exempt, because
    /// it is in no mesh; where its own address is dialled, the controller says so of the endpoint.
    pub(super) fn is_exempt(&self, address: IpAddr, service: Option<&ServiceName>) -> bool {
        let api = |name: &ServiceName| &*name.namespace == "default" && &*name.name == "kubernetes";
        service.is_some_and(api)
            || self.plaintext_allowed.iter().any(|allowed| match allowed {
                PlaintextAllowed::Network(network) => network.contains(&address),
                PlaintextAllowed::Service(name) => service == Some(name),
            })
    }
}

/// The private address blocks, which the controller takes for cluster networks unless it is told
/// others.
fn private_networks() -> Vec<IpNet> {
    let v4 = |a, b, length| Ipv4Net::new(Ipv4Addr::new(a, b, 0, 0), length).ok().map(IpNet::V4);
    let v6 = Ipv6Net::new(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 8).ok().map(IpNet::V6);
    [v4(10, 0, 8), v4(100, 64, 10), v4(172, 16, 12), v4(192, 168, 16), v6]
        .into_iter()
        .flatten()
        .collect()
}

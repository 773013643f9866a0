//! Settings of the outbound half that all injected pods share.

use ipnet::IpNet;
use std::fmt;

/// Settings of the outbound half that all injected pods share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundSettings {
    /// The way of mesh TLS to another pod.
    pub transport: OutboundTransport,
    /// Networks whose addresses are looked up; empty for the cluster's networks, which the controller
    /// tells each sidecar.
    pub networks: Vec<IpNet>,
    /// Handling of a connection whose lookup gets no answer.
    pub unanswered: Unanswered,
    /// Destinations that `mesh-only` lets pods reach in plaintext, besides the API server.
    pub plaintext_allowed: Vec<PlaintextAllowed>,
}

/// A destination that `mesh-only` lets pods reach in plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaintextAllowed {
    /// Addresses.
    Network(IpNet),
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for PlaintextAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(f),
            Self::Service { namespace, name } => write!(f, "{name}.{namespace}"),
        }
    }
}

/// The way of mesh TLS to another pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutboundTransport {
    /// To the port that the application asked for. Opaque ports are reached by the sidecar's own port.
    #[default]
    Original,
    /// To the sidecar's own port, with a header that names the application's port.
    Header,
}

/// Handling of a connection whose lookup gets no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unanswered {
    /// It is refused.
    #[default]
    Refuse,
    /// It goes on in plaintext.
    Plaintext,
}

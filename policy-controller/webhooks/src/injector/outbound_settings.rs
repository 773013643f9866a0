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
    /// True if sidecars get no answer to lookups, because outbound discovery is off.
    pub is_unanswered: bool,
}

/// The reasons why no pod can have the outbound half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hindrance {
    /// The sidecar is an ordinary container.
    NotNative,
    /// Nobody answers its lookups.
    NoDiscovery,
}

impl Hindrance {
    /// Returns the warning for a pod that is to have it.
    pub(super) fn left_out(self) -> &'static str {
        match self {
            Self::NotNative => {
                "the outbound half needs a native sidecar, and this one is an ordinary container, so \
                 that what the pod sends is left alone: init containers, which run before it, could \
                 reach nobody"
            }
            Self::NoDiscovery => {
                "the outbound half needs outbound discovery, which this controller has off \
                 (--outbound-discovery), so that what the pod sends is left alone: its connections \
                 would be refused"
            }
        }
    }

    /// Returns what is needed, and is not there.
    pub(super) fn needed(self) -> &'static str {
        match self {
            Self::NotNative => {
                "a native sidecar (Kubernetes 1.29), and this one is an ordinary container"
            }
            Self::NoDiscovery => {
                "outbound discovery, which this controller has off (--outbound-discovery)"
            }
        }
    }
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

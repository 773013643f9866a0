//! Settings of the outbound half that all injected pods share.

use policy_crds::ipnet::IpNet;

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
    /// Networks that `mesh-only` lets pods reach in plaintext.
    pub plaintext_allowed: Vec<IpNet>,
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

//! Groups of decisions: what they have in common, and samples of them. Facts only.

use super::super::client_key::ClientKey;
use super::super::entry::OutboundRefusal;
use policy_core::{DecisionId, Denied, Identity, Origin, RuleId, Source};
use policy_tls::peer::{Peer, PeerTls};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Decisions on one subject that have port, reason, route and revision in common.
#[derive(Clone, Debug)]
pub struct DecisionGroup {
    /// The id.
    pub id: DecisionId,
    /// Whom the decisions are about.
    pub subject: GroupSubject,
    /// The rest of what they have in common.
    pub key: GroupKey,
    /// The origin of the route, if one matched.
    pub origin: Option<Origin>,
    /// The route's name among those of its origin.
    pub http_route: Option<Box<str>>,
    /// The authorization that granted an audited permit.
    pub authorization: Option<Source>,
    /// The content hash of the policy's revision; absent: no policy was in force.
    pub revision: Option<u64>,
    /// Time of the first.
    pub first: SystemTime,
    /// Time of the last.
    pub last: SystemTime,
    /// Number of decisions.
    pub count: u64,
    /// The first, and the last two that are a second apart. Empty if samples are not kept.
    pub samples: Vec<DecisionSample>,
    /// The explanation, as JSON, once there is one.
    pub explanation: Option<Arc<str>>,
    /// The time of `last` by the clock that does not jump.
    pub(super) last_at: Instant,
    /// The time from which on the next sample is kept.
    pub(super) sample_due: Instant,
    /// True if the next group may take the place of this one.
    pub(super) is_churn: bool,
}

/// The subject of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupSubject {
    /// A client of the workload.
    Client(ClientKey),
    /// A Service that the workload's own connection was for.
    Service {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// The /24 or /64 of the address that the workload's own connection was for.
    Dialled(IpAddr),
}

/// The facts that the decisions of a group share beside their subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupKey {
    /// The workload's port; of the workload's own connections, the port that was dialled.
    pub port: u16,
    /// The reason.
    pub reason: GroupReason,
    /// The rule that matched, in the policy of this generation.
    pub route: Option<RuleId>,
    /// The generation of the policy; 0 without one.
    pub generation: u64,
    /// True for connections, false for requests.
    pub connection: bool,
}

/// The reason of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupReason {
    /// Denied for this reason.
    Denied(Denied),
    /// Permitted by an authorization that requests an audit.
    Audited,
    /// The workload's own connection was refused for this reason.
    Outbound(&'static str),
}

/// One decision of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionSample {
    /// Its time.
    pub at: SystemTime,
    /// The client's address; of the workload's own connections, the address that was dialled. `None`:
    /// it is not known.
    pub address: Option<SocketAddr>,
    /// The client's TLS.
    pub tls: SampleTls,
    /// The method; `None` for a connection.
    pub method: Option<Box<str>>,
    /// The host, visible and bounded.
    pub host: Option<Box<str>>,
    /// The path without its query, visible and bounded.
    pub path: Option<Box<str>>,
}

/// The TLS of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleTls {
    /// None that was seen.
    Absent,
    /// TLS that the workload terminates.
    Passthrough,
    /// Mesh TLS, with the identity that was proved.
    Mesh(Option<Identity>),
}

impl GroupReason {
    /// Returns the reason as logs and metrics name it; `audited` for a permit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied(reason) => reason.as_str(),
            Self::Audited => "audited",
            Self::Outbound(reason) => reason,
        }
    }
}

impl SampleTls {
    pub(super) fn of(peer: &Peer) -> Self {
        match peer.tls() {
            PeerTls::Absent => Self::Absent,
            PeerTls::Passthrough => Self::Passthrough,
            PeerTls::Terminated(identity) => Self::Mesh(identity.clone()),
        }
    }
}

impl GroupSubject {
    /// The class whose room the group takes.
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Client(ClientKey::Identity(_)) => Class::Identity,
            Self::Client(ClientKey::Network(_)) => Class::Anonymous,
            Self::Service { .. } | Self::Dialled(_) => Class::Outbound,
        }
    }
}

/// The identity, the network, or `name.namespace` of the Service.
impl fmt::Display for GroupSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(client) => client.fmt(f),
            Self::Service { namespace, name } => write!(f, "{name}.{namespace}"),
            Self::Dialled(network) => ClientKey::Network(*network).fmt(f),
        }
    }
}

/// Groups that share room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Identity,
    Anonymous,
    Outbound,
}

impl OutboundRefusal<'_> {
    pub(super) fn subject(&self) -> GroupSubject {
        let unknown = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        match self.service {
            Some((namespace, name)) => {
                GroupSubject::Service { namespace: Arc::clone(namespace), name: Arc::clone(name) }
            }
            None => {
                let address = self.address.map_or(unknown, |address| address.ip());
                GroupSubject::Dialled(super::super::client_key::network(address))
            }
        }
    }

    pub(super) fn key(&self) -> GroupKey {
        let port = self.address.map_or(0, |address| address.port());
        let reason = GroupReason::Outbound(self.reason);
        GroupKey { port, reason, route: None, generation: 0, connection: true }
    }
}

//! Lookups of destinations: what is asked, and the answers.

use policy_core::{Destination, ServiceName};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// An address and port that clients of one place connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DestinationKey {
    /// The address. An IPv4 address mapped into IPv6 means the IPv4 address.
    pub address: IpAddr,
    /// The port.
    pub port: NonZeroU16,
    /// The place of the clients.
    pub scope: DestinationScope,
}

/// The clients that share an answer. The fewer of their facts it depends on, the more share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DestinationScope {
    /// All clients.
    #[default]
    All,
    /// Clients in this zone.
    Zone(Arc<str>),
    /// Clients on this node.
    Node(Arc<str>),
}

impl DestinationScope {
    /// The kind of this scope.
    pub fn kind(&self) -> ScopeKind {
        match self {
            Self::All => ScopeKind::All,
            Self::Zone(_) => ScopeKind::Zone,
            Self::Node(_) => ScopeKind::Node,
        }
    }
}

/// The kinds of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeKind {
    /// The answer is the same for all clients.
    All,
    /// The answer depends on the client's zone.
    Zone,
    /// The answer depends on the client's node.
    Node,
}

/// What an address and port lead to, for the clients of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedDestination {
    /// The answer.
    pub destination: Destination,
    /// The kind of scope that the answer depends on. If it is not the kind that was asked for, the
    /// client's own place of this kind gives the answer that counts. A client that has no such
    /// place goes by the answer for all.
    pub needs: ScopeKind,
    /// True while the answer is not to be given: a slice says that the address is a pod's, and pods of
    /// that time are not known yet.
    pub is_pending: bool,
}

/// The place of a client, by which its scopes are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientPlace {
    /// Its node, if it is on one.
    pub node: Option<Arc<str>>,
    /// The zone of its node, if the node states one.
    pub zone: Option<Arc<str>>,
}

impl ClientPlace {
    /// The client's scope of a kind. A client without such a place has the scope of all.
    pub fn scope(&self, kind: ScopeKind) -> DestinationScope {
        let place = match kind {
            ScopeKind::All => None,
            ScopeKind::Zone => self.zone.clone().map(DestinationScope::Zone),
            ScopeKind::Node => self.node.clone().map(DestinationScope::Node),
        };
        place.unwrap_or_default()
    }
}

/// A question about a destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DestinationQuestion {
    /// What an address and port lead to.
    Address(DestinationKey),
    /// What a port of a Service leads to.
    Service(ServicePortKey),
}

/// A port of a Service by its name, that clients of one place connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePortKey {
    /// The Service.
    pub service: ServiceName,
    /// The port.
    pub port: NonZeroU16,
    /// The place of the clients.
    pub scope: DestinationScope,
}

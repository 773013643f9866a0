//! Authorizations: conjunctions of conditions, each with the object that set it.

use crate::identity::IdentityMatch;
use crate::name::{ObjectRef, Source};
use crate::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use crate::request::{Connection, Tls};
use std::sync::Arc;

/// Authorizations in the order they are tried and credited; the first that holds settles it.
/// An empty set grants nothing.
pub type AuthorizationSet = Arc<[Arc<Authorization>]>;

/// One grant: it holds when every condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authorization {
    /// The object that grants.
    pub source: Source,
    /// All must hold.
    pub requirement: Requirement,
    /// Whether a permit by this grant is logged as audited (Linkerd's `audit` policy).
    pub audit: bool,
}

/// What a grant asks for. Two variants, so that an empty list can never be mistaken for consent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// Asks for nothing: `requiredAuthenticationRefs: []`.
    Nothing,
    /// Every condition must hold. Empty is invalid and holds for nobody. Shared, for many grants ask
    /// for the same.
    All(Arc<[Condition]>),
}

/// One condition of a grant and the object that set it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// The object that set it: the grant itself, or the authentication it refers to.
    pub source: Source,
    /// What is asked.
    pub test: Test,
}

/// What a condition asks of the connection. An empty list holds for nobody.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Test {
    /// The client's address is admitted by one of these.
    Network(Vec<NetworkMatch>),
    /// Mesh TLS was terminated here; the client need not have an identity.
    MeshTls,
    /// Mesh TLS was terminated here and the client proved an identity named by one of these.
    Identity(Vec<IdentityMatch>),
    /// The connection carries TLS that is passed through unread (HTTPS probes).
    TlsPassthrough,
}

/// A grant that resolved to nothing; kept for explanation only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Withheld {
    /// The object that would have granted.
    pub source: ObjectRef,
    /// Why it does not, in words for people; names the missing or invalid object.
    pub reason: Arc<str>,
}

impl Authorization {
    /// Whether every condition holds for `connection`.
    pub fn holds(&self, connection: &Connection<'_>) -> bool {
        match &self.requirement {
            Requirement::Nothing => true,
            Requirement::All(conditions) => {
                !conditions.is_empty() && conditions.iter().all(|c| c.test.holds(connection))
            }
        }
    }
}

impl Test {
    /// Whether this condition holds for `connection`.
    pub fn holds(&self, connection: &Connection<'_>) -> bool {
        match self {
            Self::Network(networks) => {
                networks.iter().any(|n| n.admits(connection.client, connection.facts))
            }
            Self::MeshTls => matches!(connection.tls, Tls::Terminated(_)),
            Self::Identity(matches) => match connection.tls {
                Tls::Terminated(Some(identity)) => matches.iter().any(|m| m.admits(identity)),
                Tls::Terminated(None) | Tls::Passthrough | Tls::Absent => false,
            },
            Self::TlsPassthrough => matches!(connection.tls, Tls::Passthrough),
        }
    }

    /// Every address, IPv4 and IPv6.
    pub fn all_networks() -> Self {
        Self::Network(vec![
            NetworkMatch::net(ipnet::Ipv4Net::default().into()),
            NetworkMatch::net(ipnet::Ipv6Net::default().into()),
        ])
    }

    /// The cluster's networks.
    pub fn cluster_networks() -> Self {
        Self::Network(vec![NetworkMatch {
            term: NetworkTerm::Symbol(NetworkSymbol::Cluster),
            except: Vec::new(),
        }])
    }
}

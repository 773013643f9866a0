//! Authorizations: conjunctions of conditions, each with the object that set it.

use crate::condition::SegmentCondition;
use crate::identity::IdentityMatch;
use crate::name::{ObjectRef, Source};
use crate::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use crate::request::{Subject, Tls};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Authorizations in the order they are tried and credited; the first that holds settles it.
/// An empty set grants nothing. Copies of a set share it.
#[derive(Clone)]
pub struct AuthorizationSet(SetStorage);

/// Storage of a set. Most routes have one grant of their own, which needs no list.
#[derive(Clone)]
enum SetStorage {
    One(Arc<Authorization>),
    /// Absent: none. Of two, a pointer to a list is half as large as a list.
    Other(Option<Arc<Box<[Arc<Authorization>]>>>),
}

/// One grant: it holds when every condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authorization {
    /// The object that grants.
    pub source: Source,
    /// All must hold.
    pub requirement: Requirement,
    /// True if a permit by this grant is logged as audited (Linkerd's `audit` policy).
    pub audit: bool,
}

/// The conditions of a grant. Two variants, so that an empty list can never be mistaken for
/// consent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// No condition: `requiredAuthenticationRefs: []`.
    Nothing,
    /// Every condition must hold. Empty is invalid and holds for nobody. Shared, because many
    /// grants have the same conditions.
    All(Arc<[Condition]>),
}

/// One condition of a grant and the object that set it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// The object that set it: the grant itself, or the authentication it refers to.
    pub source: Source,
    /// The predicate that must hold.
    pub test: Predicate,
}

/// A predicate over a [`Subject`], whose path is in the form that routes are matched on. An empty list
/// holds for no client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Predicate {
    /// The client's address is admitted by one of these.
    Network(Vec<NetworkMatch>),
    /// Mesh TLS was terminated here; the client need not have an identity.
    MeshTls,
    /// Mesh TLS was terminated here and the client proved an identity named by one of these.
    Identity(Vec<IdentityMatch>),
    /// The connection carries TLS that is passed through unread (HTTPS probes).
    TlsPassthrough,
    /// The request meets a condition on a path segment. It holds for no connection.
    Segment(SegmentCondition),
}

/// The lifetime of a predicate's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// For the life of the connection.
    Connection,
    /// For one request. Such a condition holds for no connection by itself.
    Request,
}

/// A grant that resolved to no authorization; kept for explanations only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnresolvedGrant {
    /// The object that would have granted.
    pub source: ObjectRef,
    /// The reason, in words for people; names the missing or invalid object.
    pub reason: Arc<str>,
}

impl AuthorizationSet {
    /// Returns the address of the shared storage. Copies of a set have the same address, and sets
    /// of the same address are equal as long as one of them lives. Equal sets may have different
    /// addresses.
    pub fn address(&self) -> usize {
        match &self.0 {
            SetStorage::One(grant) => Arc::as_ptr(grant).addr(),
            SetStorage::Other(None) => 0,
            SetStorage::Other(Some(grants)) => Arc::as_ptr(grants).addr(),
        }
    }
}

impl Deref for AuthorizationSet {
    type Target = [Arc<Authorization>];

    fn deref(&self) -> &[Arc<Authorization>] {
        match &self.0 {
            SetStorage::One(grant) => std::slice::from_ref(grant),
            SetStorage::Other(None) => &[],
            SetStorage::Other(Some(grants)) => grants,
        }
    }
}

impl Default for AuthorizationSet {
    fn default() -> Self {
        Self(SetStorage::Other(None))
    }
}

impl From<Vec<Arc<Authorization>>> for AuthorizationSet {
    fn from(mut grants: Vec<Arc<Authorization>>) -> Self {
        match grants.pop() {
            None => Self::default(),
            Some(one) if grants.is_empty() => Self(SetStorage::One(one)),
            Some(last) => {
                grants.push(last);
                Self(SetStorage::Other(Some(Arc::new(grants.into()))))
            }
        }
    }
}

impl<const N: usize> From<[Arc<Authorization>; N]> for AuthorizationSet {
    fn from(grants: [Arc<Authorization>; N]) -> Self {
        Vec::from(grants).into()
    }
}

impl FromIterator<Arc<Authorization>> for AuthorizationSet {
    fn from_iter<I: IntoIterator<Item = Arc<Authorization>>>(grants: I) -> Self {
        grants.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for AuthorizationSet {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address() || **self == **other
    }
}

impl Eq for AuthorizationSet {}

impl Hash for AuthorizationSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for AuthorizationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Authorization {
    /// Returns the narrowest scope of its conditions.
    pub fn scope(&self) -> Scope {
        let narrowest = match &self.requirement {
            Requirement::Nothing => None,
            Requirement::All(conditions) => conditions.iter().map(|c| c.test.scope()).max(),
        };
        narrowest.unwrap_or(Scope::Connection)
    }

    /// Returns true if every condition holds for `subject`. A grant of [`Scope::Request`] never
    /// holds for a connection without a request.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        if subject.request.is_none() && self.scope() == Scope::Request {
            return false;
        }
        match &self.requirement {
            Requirement::Nothing => true,
            Requirement::All(conditions) => {
                !conditions.is_empty() && conditions.iter().all(|c| c.test.holds(subject))
            }
        }
    }
}

impl Predicate {
    /// Returns the lifetime of its result: [`Scope::Request`] if it reads [`Subject::request`].
    pub fn scope(&self) -> Scope {
        match self {
            Self::Network(_) | Self::MeshTls | Self::Identity(_) | Self::TlsPassthrough => {
                Scope::Connection
            }
            Self::Segment(_) => Scope::Request,
        }
    }

    /// Returns true if the predicate holds for `subject`.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        let connection = subject.connection;
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
            Self::Segment(condition) => {
                subject.request.is_some_and(|request| condition.holds(request))
            }
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

//! Who an authentication names, who a policy grants to, and which grants a Server or a route has.

use super::condition::Reason;
use policy_core::{Authorization, IdentityMatch, NetworkMatch, UnresolvedGrant};
use policy_crds::{ObjectKey, ObjectMeta};
use std::sync::Arc;

/// The members of a MeshTLSAuthentication or NetworkAuthentication.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Members(pub(crate) ObjectKey);

/// See [`Members`]. Nobody, where the object is missing, invalid or of another kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clients {
    /// Clients by identity.
    Identities(Arc<[IdentityMatch]>),
    /// Clients by network.
    Networks(Arc<[NetworkMatch]>),
    /// Nobody.
    Nobody,
}

/// What an AuthorizationPolicy grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PolicyGrant(pub(crate) ObjectKey);

/// What a ServerAuthorization grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerAuthorizationGrant(pub(crate) ObjectKey);

/// What is granted on a Server, by policies that name it and then by those on its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerGrants(pub(crate) ObjectKey);

/// What is granted on a route by policies that name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RouteGrants(pub(crate) ObjectKey);

/// What one object grants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    /// Its place among other objects.
    pub(crate) rank: Rank,
    /// The grant, or why there is none.
    pub(crate) outcome: Result<Arc<Authorization>, Arc<str>>,
    /// What is wrong with its references, also where they are followed nonetheless.
    pub(crate) faults: Arc<[RefFault]>,
}

/// What is wrong with a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefFault {
    /// For programs.
    pub(crate) reason: Reason,
    /// For people.
    pub(crate) message: Arc<str>,
}

/// Oldest first, those without a time last, then by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rank {
    timeless: bool,
    created: Option<i64>,
    name: Arc<str>,
    namespace: Arc<str>,
    group: &'static str,
    kind: &'static str,
}

impl Rank {
    /// The place of an object.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self {
            timeless: meta.created.is_none(),
            created: meta.created,
            name: meta.key.name.clone(),
            namespace: meta.key.namespace.clone(),
            group: meta.key.kind.group(),
            kind: meta.key.kind.as_str(),
        }
    }

    /// The place of an object of which nothing is known but its name.
    pub(crate) fn unknown(key: &ObjectKey) -> Self {
        Self {
            timeless: true,
            created: None,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            group: key.kind.group(),
            kind: key.kind.as_str(),
        }
    }
}

/// Grants in the order in which they are tried, and those that came to nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GrantSet {
    /// Grants.
    pub(crate) authorizations: Vec<Arc<Authorization>>,
    /// Those that came to nothing.
    pub(crate) withheld: Vec<UnresolvedGrant>,
}

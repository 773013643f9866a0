//! Queries: the members of an authentication, the clients of a policy, and the grants on a Server
//! or a route.

use super::condition::Reason;
use policy_core::{Authorization, IdentityMatch, NetworkMatch, UnresolvedGrant};
use policy_crds::{ObjectKey, ObjectMeta};
use std::sync::Arc;

/// The members of a MeshTLSAuthentication or NetworkAuthentication.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MembersOf(pub(crate) ObjectKey);

/// See [`MembersOf`]. `Nobody` if the object is missing, invalid or of another kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clients {
    /// Clients by identity.
    Identities(Arc<[IdentityMatch]>),
    /// Clients by network.
    Networks(Arc<[NetworkMatch]>),
    /// No client.
    Nobody,
}

/// The grant of an AuthorizationPolicy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PolicyGrant(pub(crate) ObjectKey);

/// The grant of a ServerAuthorization.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerAuthorizationGrant(pub(crate) ObjectKey);

/// The grants on a Server, of policies that name it and then of those on its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerGrants(pub(crate) ObjectKey);

/// The grants on a route, of policies that name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RouteGrants(pub(crate) ObjectKey);

/// The grant of one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GrantResolution {
    /// Its place among other objects.
    pub(crate) rank: CreationOrder,
    /// The grant, or why there is none.
    pub(crate) outcome: Result<Arc<Authorization>, Arc<str>>,
    /// Errors of its references, also of those that are followed nonetheless.
    pub(crate) faults: Arc<[RefFault]>,
}

/// An error of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefFault {
    /// For programs.
    pub(crate) reason: Reason,
    /// For people.
    pub(crate) message: Arc<str>,
}

/// Oldest first, those without a time last, then by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CreationOrder {
    timeless: bool,
    created: Option<i64>,
    name: Arc<str>,
    namespace: Arc<str>,
    group: &'static str,
    kind: &'static str,
}

impl CreationOrder {
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

    /// The time of creation, in seconds since the epoch.
    pub(crate) fn created(&self) -> Option<i64> {
        self.created
    }

    /// The place of an object of which only the name is known.
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

/// Grants in the order in which they are tried, and withheld grants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GrantSet {
    /// Grants.
    pub(crate) authorizations: Vec<Arc<Authorization>>,
    /// Withheld grants, with the reason.
    pub(crate) withheld: Vec<UnresolvedGrant>,
}

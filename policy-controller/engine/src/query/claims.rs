//! Claims of roots on paths of hosts, their order and their state.
//!
//! A root claims each of its paths on each of its hosts, so that a short object has a thousand claims. What all of
//! them on a host have in common is held once, and hosts with the same claims share one list.

use policy_core::HostPattern;
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::cmp::Ordering;
use std::sync::Arc;

/// The place of a claim: recorded or first seen earlier, then by namespace and name. Claims without a
/// time are last.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimOrder {
    /// True if the claim has no time yet.
    pub timeless: bool,
    /// Seconds since the epoch.
    pub time: i64,
    /// The namespace of the root.
    pub namespace: Arc<str>,
    /// The name of the root.
    pub name: Arc<str>,
}

/// The claims of a root on the paths of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimGroup {
    /// The root.
    pub root: ObjectKey,
    /// The host.
    pub host: HostPattern,
    /// The claims, by path. Groups with equal ones share a list where they can.
    pub(crate) claims: Arc<[PathClaim]>,
}

/// A claim on a path of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathClaim {
    /// The path.
    pub(crate) path: PathPrefix,
    /// Seconds since the epoch, if the claim has a time.
    pub(crate) time: Option<i64>,
    /// Its state.
    pub(crate) state: ClaimState,
}

/// A claim of a root on a path of a host, as its group has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClaim<'c> {
    /// The root.
    pub root: &'c ObjectKey,
    /// The host.
    pub host: &'c HostPattern,
    /// The path.
    pub path: &'c PathPrefix,
    /// Seconds since the epoch, if the claim has a time.
    pub time: Option<i64>,
    /// Its state.
    pub state: &'c ClaimState,
}

/// The state of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// The root holds the path of the host.
    Active {
        /// True if another namespace holds a path above or below it.
        shared: bool,
        /// True if a route of another namespace was attached with the host, or one that overlaps, earlier.
        attached: bool,
    },
    /// It does not.
    Inactive(Arc<ClaimRefusal>),
}

/// The reason why a claim is inactive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// This root, which may be in another namespace, claimed earlier.
    AlreadyClaimed(ObjectKey),
    /// Roots are not allowed in the namespace.
    NamespaceNotAllowed,
    /// The RouteAdmissionPolicy is invalid, and the claim is not among those that were admitted before.
    PolicyInvalid,
    /// Wildcards are not allowed.
    WildcardNotAllowed,
    /// Claims of other namespaces are not known, and no flag assumes that there are none.
    NotAssumed,
    /// Services of another namespace are called by the host.
    ServiceName,
    /// This root, in another namespace, holds this other host, which overlaps with the host.
    Overlaps(ObjectKey, HostPattern),
}

/// Claims on a host, or on hosts that overlap. All lists share the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostClaims {
    /// The claims by root and host.
    pub(crate) groups: Vec<Arc<ClaimGroup>>,
    /// True if the namespace of an active claim owns its host as a whole.
    pub strict: bool,
}

impl ClaimOrder {
    /// True if the claim was made at a time, or before it. `None` is behind every claim.
    pub(crate) fn is_not_after(&self, time: Option<i64>) -> bool {
        time.is_none_or(|time| !self.timeless && self.time <= time)
    }

    /// The time of the claim, in seconds since the epoch, if it has one.
    pub(crate) fn time(&self) -> Option<i64> {
        (!self.timeless).then_some(self.time)
    }
}

impl ClaimState {
    /// A claim that nobody shares.
    pub(crate) const ACTIVE: Self = Self::Active { shared: false, attached: false };

    /// True if the root holds the path of the host.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Active { .. })
    }
}

impl ClaimGroup {
    /// The claims, by path.
    pub fn iter(&self) -> impl Iterator<Item = HostClaim<'_>> {
        self.claims.iter().map(|claim| self.claim(claim))
    }

    /// Those that are in force.
    pub(crate) fn active(&self) -> impl Iterator<Item = HostClaim<'_>> {
        self.iter().filter(HostClaim::is_active)
    }

    /// True if one of them is in force.
    pub(crate) fn has_active(&self) -> bool {
        self.claims.iter().any(|claim| claim.state.is_active())
    }

    /// True if all of them are in force.
    pub(crate) fn is_all_active(&self) -> bool {
        self.claims.iter().all(|claim| claim.state.is_active())
    }

    /// True if the root holds the path.
    pub(crate) fn holds(&self, path: &PathPrefix) -> bool {
        let at = self.claims.binary_search_by(|claim| claim.path.cmp(path)).ok();
        at.and_then(|at| self.claims.get(at)).is_some_and(|claim| claim.state.is_active())
    }

    fn claim<'c>(&'c self, claim: &'c PathClaim) -> HostClaim<'c> {
        let PathClaim { path, time, state } = claim;
        HostClaim { root: &self.root, host: &self.host, path, time: *time, state }
    }

    /// The same group with other claims.
    pub(crate) fn with(&self, claims: Arc<[PathClaim]>) -> Self {
        Self { root: self.root.clone(), host: self.host.clone(), claims }
    }
}

impl HostClaims {
    /// The claims, in the order in which they are decided.
    pub fn in_order(&self) -> Vec<HostClaim<'_>> {
        let mut all: Vec<HostClaim<'_>> =
            self.groups.iter().flat_map(|group| group.iter()).collect();
        all.sort_by(HostClaim::in_order);
        all
    }
}

impl<'c> HostClaim<'c> {
    /// True if the root holds the path of the host.
    pub fn is_active(&self) -> bool {
        self.state.is_active()
    }

    /// True if the rules in effect admit it, even if another root holds the path.
    pub fn is_admitted(&self) -> bool {
        let ClaimState::Inactive(refusal) = self.state else { return true };
        match **refusal {
            ClaimRefusal::AlreadyClaimed(_) | ClaimRefusal::Overlaps(..) => true,
            ClaimRefusal::NamespaceNotAllowed
            | ClaimRefusal::PolicyInvalid
            | ClaimRefusal::WildcardNotAllowed
            | ClaimRefusal::NotAssumed
            | ClaimRefusal::ServiceName => false,
        }
    }

    /// Its place among other claims.
    pub fn order(&self) -> ClaimOrder {
        ClaimOrder {
            timeless: self.time.is_none(),
            time: self.time.unwrap_or_default(),
            namespace: self.root.namespace.clone(),
            name: self.root.name.clone(),
        }
    }

    /// The order in which claims are decided.
    pub(crate) fn in_order(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }

    fn place(&self) -> impl Ord + use<'c> {
        let of = (&*self.root.namespace, &*self.root.name);
        let time = (self.time.is_none(), self.time.unwrap_or_default());
        (time, of, self.host, self.path)
    }

    /// True if a claim of another root was made before it.
    pub(crate) fn is_after(&self, other: &ClaimOrder) -> bool {
        let own = (
            self.time.is_none(),
            self.time.unwrap_or_default(),
            &self.root.namespace,
            &self.root.name,
        );
        own > (other.timeless, other.time, &other.namespace, &other.name)
    }
}

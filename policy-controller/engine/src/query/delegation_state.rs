//! The state of an InboundRoute, beyond its conditions, as its status and commands show it.

use super::condition::Reason;
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::sync::Arc;

/// The state of an InboundRoute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DelegationStateOf(pub(crate) ObjectKey);

/// See [`DelegationStateOf`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DelegationState {
    /// The claims of a root, by host in the order of the object, and by path.
    pub claims: Vec<ClaimEntry>,
    /// The places at which trees reach a vertex, or do not.
    pub delegations: Vec<DelegationEntry>,
    /// The rules of the object.
    pub routes: Vec<RouteEntry>,
    /// The objects that its rules name and that cannot be used, or not for all of a rule.
    pub faults: Vec<RuleFault>,
}

/// An object that a rule names and that cannot be used, or not for all of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleFault {
    /// For programs.
    pub reason: Reason,
    /// For people, with the path of the rule.
    pub message: Arc<str>,
}

/// A claim of a root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimEntry {
    /// The host.
    pub host: HostPattern,
    /// The path.
    pub path: PathPrefix,
    /// True if the root holds the path of the host.
    pub active: bool,
    /// True if the rules in effect admit it. One that they do not has no time, in the status either.
    pub admitted: bool,
    /// The time of the claim, in seconds since the epoch; `None`: it has none until its status
    /// records one.
    pub claimed_at: Option<i64>,
    /// Of a claim without a time: the latest time of claims of other roots that are in force on the host
    /// or on one that overlaps with it. The claim is later than these, whatever the clock says.
    pub after: Option<i64>,
    /// The reason of an inactive claim, and a remark on an active one.
    pub reason: Option<Reason>,
    /// The same for people. Of another namespace no object is named.
    pub message: Arc<str>,
}

/// A place of a vertex in a tree, or one that it had.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DelegationEntry {
    /// A tree reaches it.
    Connected {
        /// The object that delegates to it.
        parent: ObjectKey,
        /// The path that is delegated.
        prefix: PathPrefix,
        /// The fqdn of the root.
        fqdn: HostPattern,
        /// The hosts that reach it.
        hosts: Vec<HostPattern>,
        /// The time since which its status says so.
        connected_at: Option<i64>,
    },
    /// No tree reaches it.
    Orphaned {
        /// The object that delegated to it last.
        last_parent: Option<ObjectKey>,
        /// The reason.
        reason: OrphanReason,
        /// The time since which its status says so.
        since: Option<i64>,
    },
    /// An object delegates to it, and the delegation is refused.
    Rejected {
        /// The object that delegates to it.
        parent: ObjectKey,
        /// The path that would be delegated.
        prefix: PathPrefix,
        /// The reason.
        reason: Reason,
        /// The same for people.
        message: Arc<str>,
    },
}

impl DelegationEntry {
    /// The refusal of a delegation in words; `None` for another state.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Rejected { parent, prefix, reason: _, message } => {
                Some(format!("{parent} delegates `{prefix}` to it, which is refused: {message}"))
            }
            Self::Connected { .. } | Self::Orphaned { .. } => None,
        }
    }
}

/// The reason why no tree reaches a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrphanReason {
    /// Nothing has delegated to it yet.
    NeverDelegated,
    /// The object that delegated to it does not exist any more.
    ParentRemoved,
    /// The object that delegated to it is invalid.
    ParentInvalid,
    /// The object that delegated to it is reached by no tree.
    ParentOrphaned,
    /// The root that delegated to it lost its claims.
    RootInactive,
    /// The object that delegated to it does so no more.
    DelegationRemoved,
    /// It does not consent any more.
    NotPermitted,
    /// No ReferenceGrant permits the delegation any more.
    GrantRevoked,
    /// The delegation breaks another rule.
    DelegationRefused,
}

impl OrphanReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::NeverDelegated,
        Self::ParentRemoved,
        Self::ParentInvalid,
        Self::ParentOrphaned,
        Self::RootInactive,
        Self::DelegationRemoved,
        Self::NotPermitted,
        Self::GrantRevoked,
        Self::DelegationRefused,
    ];

    /// The `reason` in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverDelegated => "NeverDelegated",
            Self::ParentRemoved => "ParentRemoved",
            Self::ParentInvalid => "ParentInvalid",
            Self::ParentOrphaned => "ParentOrphaned",
            Self::RootInactive => "RootInactive",
            Self::DelegationRemoved => "DelegationRemoved",
            Self::NotPermitted => "NotPermitted",
            Self::GrantRevoked => "GrantRevoked",
            Self::DelegationRefused => "DelegationRefused",
        }
    }
}

/// A rule of an InboundRoute, over all trees that have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteEntry {
    /// Its match.
    pub path: PathPrefix,
    /// Its state.
    pub state: RouteState,
    /// The reason why its path is denied, on all of its hosts or on some.
    pub reason: Option<Reason>,
}

impl RouteEntry {
    /// True if some tree has the rule.
    pub(crate) fn is_reached(&self) -> bool {
        match self.state {
            RouteState::Blackholed | RouteState::Delegated | RouteState::Programmed => true,
            RouteState::Inactive | RouteState::Shadowed => false,
        }
    }
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteState {
    /// No tree has it, or another root holds its path.
    Inactive,
    /// An ancestor or an older object has its path.
    Shadowed,
    /// Its path is denied, because the delegation is refused or no Server can answer it.
    Blackholed,
    /// Others answer.
    Delegated,
    /// A Server answers.
    Programmed,
}

impl RouteState {
    /// The `state` in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "Inactive",
            Self::Shadowed => "Shadowed",
            Self::Blackholed => "Blackholed",
            Self::Delegated => "Delegated",
            Self::Programmed => "Programmed",
        }
    }
}

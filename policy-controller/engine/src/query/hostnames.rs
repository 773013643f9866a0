//! Hostnames of routes, and the hosts that roots of other namespaces claim.

use super::claims::ClaimOrder;
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use std::sync::Arc;

/// The hosts below the wildcard with this suffix that other namespaces claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClaimedBelowOf {
    /// The name.
    pub(crate) suffix: Arc<str>,
    /// The namespace whose own claims do not count.
    pub(crate) namespace: Arc<str>,
}

/// See [`ClaimedBelowOf`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimedBelow {
    /// The host.
    pub(crate) host: HostPattern,
    /// Its earliest claim by another namespace.
    pub(crate) order: ClaimOrder,
}

/// The wildcard hostnames of a Server's routes that are closed there as a whole, because others claimed too many
/// hosts below them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CrowdedHostnamesOf(pub(crate) ObjectKey);

/// The namespaces whose routes are attached to their own Servers with this host, or one that overlaps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AttachedTo(pub(crate) HostPattern);

/// See [`AttachedTo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedRoute {
    /// The namespace.
    pub(crate) namespace: Arc<str>,
    /// The time of the first of its routes, in seconds since the epoch.
    pub(crate) since: i64,
}

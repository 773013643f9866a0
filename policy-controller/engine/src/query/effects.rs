//! Queries: the policies that have effects on requests.

use super::grant::CreationOrder;
use policy_core::ObjectRef;
use policy_crds::ObjectKey;
use policy_crds::resource::{HeaderRewritePolicy, TimeoutPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The TimeoutPolicies and HeaderRewritePolicies on an object, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EffectPoliciesOn(pub(crate) ObjectKey);

/// The HeaderRewritePolicies of this namespace that may be about any of its Servers, because their
/// target cannot be read or is invalid, and without whose changes requests must not be forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UnreadRewritesIn(pub(crate) Arc<str>);

/// A policy that has effects on the requests of its target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EffectPolicy {
    /// Its place among other policies.
    pub(crate) rank: CreationOrder,
    /// The policy.
    pub(crate) key: ObjectKey,
    /// Its effects.
    pub(crate) effect: PolicyEffect,
}

/// The effects of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PolicyEffect {
    /// It bounds parts of an exchange.
    Timeouts(Arc<TimeoutPolicy>),
    /// It changes headers.
    Rewrites(Arc<HeaderRewritePolicy>),
    /// It cannot take effect, and requests must not be forwarded without its changes.
    Refuses(Refusal),
}

/// The reason why requests fail that must not be forwarded without the changes of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The policy is invalid.
    Invalid,
    /// Its target is invalid.
    TargetInvalid,
    /// A condition of its target, on which of the requests it is about, cannot be evaluated.
    RequestsUnknown,
}

/// The HeaderRewritePolicies on a Server, and on its routes, whose order changes what becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RewriteOverlapsOn(pub(crate) ObjectKey);

/// See [`RewriteOverlapsOn`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RewriteOverlaps {
    /// For each policy those that are applied before it, with the headers that both change.
    pub(crate) after: BTreeMap<ObjectRef, BTreeMap<ObjectRef, BTreeSet<Arc<str>>>>,
    /// True if the search stopped early, so that there may be more.
    pub(crate) cut: bool,
}

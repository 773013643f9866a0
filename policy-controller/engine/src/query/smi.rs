//! Queries about the objects of the Service Mesh Interface: the pods that a TrafficTarget closes, and what it
//! grants there.

use policy_core::{Authorization, RequestMatch};
use policy_crds::{LabelSelector, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The pods that the TrafficTargets of a namespace close, valid or not, by the name of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetsIn(pub(crate) Arc<str>);

/// See [`TargetsIn`].
pub(crate) type Targets = BTreeMap<Arc<str>, TargetedPods>;

/// The pods of a TrafficTarget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetedPods {
    /// Those of this ServiceAccount.
    Account(Arc<str>),
    /// Those with labels that one of these selects.
    Labels(Vec<LabelSelector>),
    /// Every pod of the namespace: nobody knows which are meant.
    Every,
}

/// The grant of a TrafficTarget.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetGrantOf(pub(crate) ObjectKey);

/// See [`TargetGrantOf`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetGrant {
    /// The clients and what they may send, or why it grants nothing.
    pub(crate) outcome: Result<TargetedTraffic, Arc<str>>,
    /// Its parts that cannot be used, in words.
    pub(crate) lost: Arc<[String]>,
}

/// The room that the grant of a TrafficTarget takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetSizeOf(pub(crate) ObjectKey);

/// See [`TargetSizeOf`]; empty for one that grants nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TargetSize {
    /// The requests that it allows.
    pub(crate) requests: usize,
    /// The identities that it names.
    pub(crate) identities: usize,
    /// The ports that it names.
    pub(crate) ports: Option<Arc<BTreeSet<NonZeroU16>>>,
}

/// The TrafficTargets of a namespace for whose grants it has no room, by name: the oldest have it first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetsWithoutRoom(pub(crate) Arc<str>);

/// The traffic that a TrafficTarget grants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetedTraffic {
    /// The clients.
    pub(crate) authorization: Arc<Authorization>,
    /// The ports; absent: every one.
    pub(crate) ports: Option<Arc<BTreeSet<NonZeroU16>>>,
    /// The requests; absent: any bytes.
    pub(crate) requests: Option<Arc<[Arc<RequestMatch>]>>,
}

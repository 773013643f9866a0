//! The Server that owns each port of a workload shape.

use super::workload::WorkloadShape;
use policy_crds::ObjectKey;
use policy_crds::resource::{PortRef, WorkloadSelector};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The claims of a namespace's Servers, in the order in which they own ports: oldest first, those
/// without a time before all others, then by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServersOf(pub(crate) Arc<str>);

/// The label keys that Servers of a namespace select by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SelectorKeys(pub(crate) Arc<str>);

/// The Server that owns each port of a workload shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortOwnersOf(pub(crate) Arc<WorkloadShape>);

/// The Servers of a namespace that take no effect, because Servers that come before them own their port
/// on every workload that they select: each with these others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DisplacedServersOf(pub(crate) Arc<str>);

/// See [`DisplacedServersOf`].
pub(crate) type DisplacedServers = BTreeMap<ObjectKey, BTreeSet<ObjectKey>>;

/// The claim of a Server, valid or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    /// The Server.
    pub(crate) server: ObjectKey,
    /// Creation time.
    pub(crate) created: Option<i64>,
    /// The selected workloads, if they can be read.
    pub(crate) workloads: Option<WorkloadSelector>,
    /// The claimed port, if it can be read.
    pub(crate) port: Option<PortRef>,
}

/// See [`PortOwnersOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PortOwners {
    /// By port.
    pub(crate) ports: BTreeMap<NonZeroU16, ObjectKey>,
    /// The Server that owns every other port: one whose own port cannot be read.
    pub(crate) rest: Option<ObjectKey>,
    /// Every Server that selects the workloads, owner or not, with the port that it claims, if that
    /// can be read.
    pub(crate) claimants: BTreeMap<ObjectKey, Option<PortRef>>,
}

impl PortOwners {
    /// The Server that owns a port.
    pub(crate) fn of(&self, port: NonZeroU16) -> Option<&ObjectKey> {
        self.ports.get(&port).or(self.rest.as_ref())
    }
}

/// The outcome of a Server's claim on the workloads that it selects.
#[derive(Debug, Default)]
pub(crate) struct ClaimOutcome {
    /// True if it owns its port on some of them.
    pub(crate) owns: bool,
    /// The Servers that own its port on others.
    pub(crate) owners: BTreeSet<ObjectKey>,
}

impl ClaimOutcome {
    /// Adds the workloads of a shape that `server` selects.
    pub(crate) fn add(
        &mut self,
        server: &ObjectKey,
        port: &PortRef,
        (shape, owners): (&WorkloadShape, &PortOwners),
    ) {
        for owner in shape.ports_meant(port).iter().filter_map(|port| owners.of(*port)) {
            if owner == server {
                self.owns = true;
            } else {
                self.owners.insert(owner.clone());
            }
        }
    }

    /// True if others own its port everywhere.
    pub(crate) fn is_displaced(&self) -> bool {
        !self.owns && !self.owners.is_empty()
    }
}

/// The most Servers or ports that a message lists.
const MAX_LISTED: usize = 8;

/// The first few of `items`, with commas.
pub(crate) fn listed<T: ToString>(items: impl ExactSizeIterator<Item = T>) -> String {
    let more = items.len() > MAX_LISTED;
    let shown: Vec<String> = items.take(MAX_LISTED).map(|item| item.to_string()).collect();
    format!("{}{}", shown.join(", "), if more { ", …" } else { "" })
}

/// The message about a Server whose port is owned by `owners`.
pub(crate) fn displaced_message(effect: &str, owners: &BTreeSet<ObjectKey>) -> String {
    let owners = listed(owners.iter());
    format!(
        "{effect}: what it selects is owned by {owners} (the older Server counts, then the first by \
         name)"
    )
}

//! Which Server owns each port of a workload shape.

use super::workload::Shape;
use policy_crds::ObjectKey;
use policy_crds::resource::{PortRef, WorkloadSelector};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The claims of a namespace's Servers, in the order in which they own ports: oldest first, those
/// without a time before all others, then by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServersOf(pub(crate) Arc<str>);

/// The label keys that some Server of a namespace asks about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SelectorKeys(pub(crate) Arc<str>);

/// Which Server owns each port of a workload shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortsOwned(pub(crate) Arc<Shape>);

/// What a Server claims, valid or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    /// The Server.
    pub(crate) server: ObjectKey,
    /// When it was created.
    pub(crate) created: Option<i64>,
    /// Which workloads, if that can be read.
    pub(crate) workloads: Option<WorkloadSelector>,
    /// Which port, if that can be read.
    pub(crate) port: Option<PortRef>,
}

/// See [`PortsOwned`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners {
    /// By port.
    pub(crate) ports: BTreeMap<NonZeroU16, ObjectKey>,
    /// The Server that owns every other port: one whose own port cannot be read.
    pub(crate) rest: Option<ObjectKey>,
}

impl Owners {
    /// The Server that owns a port.
    pub(crate) fn of(&self, port: NonZeroU16) -> Option<&ObjectKey> {
        self.ports.get(&port).or(self.rest.as_ref())
    }
}

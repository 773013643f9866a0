//! The values that `serve` receives: workloads, their facts, and one policy per port. No Kubernetes
//! type appears here.

pub mod destination;

use crate::epoch;
use policy_core::{Facts, Revision, ServerPolicy, UndeclaredPorts, WorkloadKey};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

/// The state of a workload apart from the policies of its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadState {
    /// The workload.
    pub key: WorkloadKey,
    /// Values of the network symbols in its policies.
    pub facts: Arc<Facts>,
    /// Ports that a container port, a probe, a hook, the proxy or a Server names.
    pub declared: BTreeSet<NonZeroU16>,
    /// Policy of all other ports.
    pub undeclared: UndeclaredPorts,
    /// Its ServiceAccount, in its own namespace; empty for an ExternalWorkload.
    pub service_account: Arc<str>,
    /// The mesh identity it stands for: derived from the ServiceAccount, or as the ExternalWorkload
    /// states it. Only this identity may watch the workload.
    pub identity: Arc<str>,
    /// The owner of its pod, such as `deployment/web`, else `pod/NAME` or `externalworkload/NAME`.
    pub owner: Arc<str>,
}

/// A workload, and which state of the world that reflects.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedWorkload {
    /// The workload.
    pub state: Arc<WorkloadState>,
    /// The revision that it reflects; `content` is 0. Workloads published at the same revision
    /// share it.
    pub revision: Arc<Revision>,
}

impl Deref for PublishedWorkload {
    type Target = WorkloadState;

    fn deref(&self) -> &WorkloadState {
        &self.state
    }
}

/// The policy of one port, and which state of the world it reflects.
#[derive(Clone, Debug, PartialEq)]
pub struct PortPolicy {
    /// The policy. Equal policies are one allocation, whichever workload they are for.
    pub policy: Arc<ServerPolicy>,
    /// The revision that it reflects.
    pub revision: Revision,
    /// Time of publication, from which the time until it is in force is counted.
    pub published: Instant,
}

/// The progress of the source. It shows whether this replica lags behind what a client has in
/// force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceProgress {
    /// Epoch, and per kind the version of the newest event read; `content` is 0.
    pub revision: Revision,
    /// Number of times that every kind has been listed completely since the start, one list after
    /// the other. A list begun after a client connected contains everything that the client can
    /// have seen: the second to end after that moment is certainly one.
    pub lists: u64,
}

impl SourceProgress {
    /// True if this replica may not have seen a version that a client has in force. Epochs of one
    /// Lease with different counters cannot be compared: the storage was restored between them, and
    /// either side may not have noticed yet. Other epochs are accepted.
    pub fn is_behind(&self, applied: &Revision) -> bool {
        epoch::of_one_lease(&self.revision.epoch, &applied.epoch)
            && !self.revision.has_caught_up_with(applied)
    }
}

/// Error of a lookup. Each may be worth a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No such workload.
    #[error("no such workload")]
    NotFound,
    /// The objects have not been listed completely yet, so nothing can be said.
    #[error("objects have not been listed yet")]
    NotSynced,
    /// As many ports of this workload are watched as the limits allow.
    #[error("too many ports of this workload are watched")]
    TooManyPorts,
    /// Destinations are not looked up, because Services are not watched.
    #[error("outbound discovery is off")]
    OutboundOff,
    /// As many destinations are followed as the limits allow.
    #[error("too many destinations are followed")]
    TooManyDestinations,
    /// The controller is ending.
    #[error("the controller is shutting down")]
    Stopped,
}

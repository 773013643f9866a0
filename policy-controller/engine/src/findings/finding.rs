//! One finding about an object.

use crate::query::condition::ConditionKind;
use policy_crds::{FieldError, ObjectKey};

/// One finding about an object: it is legal, but surely not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub object: ObjectKey,
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The field that it is about.
    pub field: String,
    /// The message.
    pub message: String,
    /// The object that is missing or meant, where the kind of the finding has one.
    pub other: Option<ObjectKey>,
}

/// The kinds of findings, which readers may weigh or leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A reference names no object, or one that may not be used, according to this condition.
    Dangling(ConditionKind),
    /// The object takes no effect, or only a part, according to this condition.
    Ineffective(ConditionKind),
    /// The object takes effect, with a remark of its condition.
    Remark,
    /// Linkerd's proxies would pick another rule for some requests.
    PrecedenceDiffers,
    /// The order of a policy among others matters to some requests.
    Overlaps,
    /// A Server selects no workload.
    SelectsNothing,
    /// A Server's port has a name that no selected workload has.
    PortName,
    /// A Server's port has a number that no selected workload declares, although all declare some.
    PortNumber,
    /// A Server's port has the number of a Service's port behind which its workloads listen on another.
    ServicePort,
    /// Nothing is granted on a Server or on a route of it.
    GrantsNobody {
        /// True if its access policy is stated. In manifests, where no API server writes the default
        /// for the author, it is then meant.
        stated: bool,
    },
    /// Other Servers own the port of every workload that a Server selects.
    Displaced,
    /// Other Servers own the port of some workloads that a Server selects.
    DisplacedInPart,
    /// A match is never reached, because an earlier one takes all of its requests.
    NeverReached,
    /// The same on Servers of other namespaces. Not reported to users who may not read these.
    NeverReachedElsewhere,
    /// A policy is about an InboundRoute for which no Server answers.
    NotServed,
    /// A route or binding is the only one of a Server that has grants of its own, which would apply to
    /// every request without it; or an object keeps a Server in a tree that would be open otherwise.
    OnlyRoute,
    /// Routes leave a part of what objects grant on their Server.
    TakesAway,
    /// A ServiceAccount of the object's own namespace does not exist.
    ClientMissing,
    /// A ServiceAccount of another namespace, or a Namespace, does not exist. Not reported to users
    /// who may not read that namespace.
    ForeignClientMissing,
    /// An identity ends in no trust domain of this mesh.
    ForeignIdentity,
    /// No policy refers to an authentication.
    Unused,
    /// The same of one that policies of other namespaces may refer to.
    UnusedOffered,
    /// A ReferenceGrant permits references to every object of a kind.
    GrantsEvery,
    /// A ReferenceGrant lets routes of another namespace attach to Servers.
    TrustsRoutes,
    /// No reference uses a ReferenceGrant.
    UnusedGrant,
    /// The policy of a Server takes more than half of what a message may have.
    LargePort,
}

impl From<Finding> for FieldError {
    fn from(finding: Finding) -> Self {
        Self { field: finding.field, message: finding.message }
    }
}

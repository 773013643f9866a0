//! `targetRef` of the kinds of this project that are about requests of Servers.

use crate::kind::Kind;
use crate::object::{FieldError, ObjectKey};
use crate::parse::target::{Reference, Target};
use crate::reader::JsonNode;
use crate::resource::PolicyTarget;
use crate::spec::{Field, ObjectReference, ReferenceTarget};
use std::sync::Arc;

/// The fields of a reference into the own namespace.
const FIELDS: &[&str] = &["group", "kind", "name"];

/// The kinds that a policy about requests may target.
pub(super) const TARGETS: &[Kind] = &[
    Kind::Server,
    Kind::HttpRouteBinding,
    Kind::HttpRouteClass,
    Kind::GrpcServiceBinding,
    Kind::GrpcServiceClass,
    Kind::InboundRoute,
    Kind::PolicyHttpRoute,
    Kind::GatewayHttpRoute,
    Kind::GrpcRoute,
];

/// The target of a policy about requests.
pub(super) fn policy_target(node: &JsonNode<'_>) -> Option<PolicyTarget> {
    let allowed: Vec<Target> = TARGETS.iter().copied().map(Target::Kind).collect();
    let reference = Reference::read_by_kind(node, FIELDS, &allowed)?;
    let name = reference.name();
    match reference.target {
        Target::Kind(Kind::Server) => name.map(PolicyTarget::Server),
        Target::Kind(kind) => Some(PolicyTarget::Route { kind, name: name? }),
        Target::NetworkSet => None,
    }
}

/// The name of an object of one kind.
pub(super) fn only(node: &JsonNode<'_>, kind: Kind) -> Option<Arc<str>> {
    Reference::read_by_kind(node, FIELDS, &[Target::Kind(kind)])?.name()
}

/// The reference to a target.
pub(super) fn reference(to: ObjectKey) -> ObjectReference {
    ObjectReference { field: Field::Target, what: ReferenceTarget::One(to) }
}

/// The remark on an object that does `nothing`, because its target is on no port.
pub(super) fn idle(nothing: &str, target: &PolicyTarget, namespace: &str) -> FieldError {
    let why = match target {
        PolicyTarget::Server(name) => {
            format!("Server {namespace}/{name} owns no port of any workload")
        }
        PolicyTarget::Namespace => {
            format!("no Server of namespace `{namespace}` owns a port of any workload")
        }
        PolicyTarget::Route { kind, name } => {
            format!("{} {namespace}/{name} is on no port of any workload", kind.in_full())
        }
    };
    FieldError::new("spec.targetRef.name", format!("{nothing}: {why}"))
}

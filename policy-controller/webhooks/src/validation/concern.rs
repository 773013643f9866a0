//! Which objects are ours to judge, and which part of them. The conditions under which the API server
//! asks at all (`configuration`) say the same in its language.

use crate::injector::about_injection;
use policy_crds::{Kind, annotation};
use serde_json::Value;

/// What is done about objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// Every object is judged.
    Policy,
    /// Objects with a Server among their parents are judged. Others belong to whoever owns their
    /// parents.
    Route,
    /// Objects that open one of our kinds to other namespaces are judged.
    Grant,
    /// Never refused: their author is told of annotations that cannot be read, those of namespaces
    /// about injection too.
    Workload,
    /// None of ours.
    Foreign,
}

/// The group of our kinds.
pub(super) const GROUP: &str = "policy.linkerd.io";
/// Groups under which a parent of kind Server is taken for ours: its own, and those that have no such
/// kind and stand there by mistake.
pub(super) const SERVER_GROUPS: [&str; 4] = [GROUP, "", "core", "gateway.networking.k8s.io"];
/// Annotations of routes for outbound traffic, checked where a route is for both directions.
pub(super) const ROUTE_ANNOTATIONS: [&str; 7] = [
    "retry.linkerd.io/limit",
    "retry.linkerd.io/timeout",
    "retry.linkerd.io/http",
    "retry.linkerd.io/grpc",
    "timeout.linkerd.io/response",
    "timeout.linkerd.io/request",
    "timeout.linkerd.io/idle",
];

/// Annotations of a workload that policy depends on.
pub(super) const WORKLOAD_ANNOTATIONS: [&str; 8] = [
    annotation::DEFAULT_POLICY[0],
    annotation::DEFAULT_POLICY[1],
    annotation::DEFAULT_POLICY[2],
    annotation::DEFAULT_POLICY[3],
    annotation::UNDECLARED_PORTS,
    annotation::ADMIN_PORT,
    annotation::OPAQUE_PORTS,
    annotation::REQUIRE_IDENTITY,
];
/// Those that a Server heeds.
const SERVER_ANNOTATIONS: [&str; 3] = [
    annotation::PATH_NORMALIZATION,
    annotation::INFORMATIONAL_HEADERS[0],
    annotation::INFORMATIONAL_HEADERS[1],
];

/// Annotations of a namespace that policy depends on.
const NAMESPACE_ANNOTATIONS: [&str; 7] = [
    annotation::DEFAULT_POLICY[0],
    annotation::DEFAULT_POLICY[1],
    annotation::DEFAULT_POLICY[2],
    annotation::DEFAULT_POLICY[3],
    annotation::UNDECLARED_PORTS,
    annotation::OPAQUE_PORTS,
    annotation::REQUIRE_IDENTITY,
];

impl Concern {
    /// What is done about objects of `kind`.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Server
            | Kind::ServerAuthorization
            | Kind::AuthorizationPolicy
            | Kind::MeshTlsAuthentication
            | Kind::NetworkAuthentication
            | Kind::HttpLocalRateLimitPolicy
            | Kind::ExternalWorkload => Self::Policy,
            Kind::PolicyHttpRoute | Kind::GatewayHttpRoute | Kind::GrpcRoute => Self::Route,
            Kind::ReferenceGrant => Self::Grant,
            Kind::Pod | Kind::Namespace => Self::Workload,
            Kind::EgressNetwork
            | Kind::Node
            | Kind::ServiceAccount
            | Kind::Deployment
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::ReplicaSet
            | Kind::Job
            | Kind::CronJob => Self::Foreign,
        }
    }

    /// Whether this object of such a kind is judged.
    pub(super) fn covers(self, object: &Value) -> bool {
        match self {
            Self::Policy | Self::Workload => true,
            Self::Route => has_server(object),
            Self::Grant => opens_ours(object),
            Self::Foreign => false,
        }
    }
}

/// Whether a Server is among the parents of a route, or may be meant by what cannot be read.
fn has_server(route: &Value) -> bool {
    match route.get("spec").and_then(|spec| spec.get("parentRefs")) {
        None => false,
        Some(Value::Array(parents)) => parents.iter().any(is_server),
        Some(_) => true,
    }
}

fn is_server(parent: &Value) -> bool {
    if !parent.is_object() {
        return true;
    }
    let kind = match parent.get("kind") {
        None => false,
        Some(Value::String(kind)) => kind.eq_ignore_ascii_case(Kind::Server.as_str()),
        Some(_) => true,
    };
    kind && match parent.get("group") {
        Some(Value::String(group)) => {
            SERVER_GROUPS.iter().any(|ours| group.eq_ignore_ascii_case(ours))
        }
        None | Some(_) => true,
    }
}

/// Whether a ReferenceGrant offers objects of our group, or may mean to.
fn opens_ours(grant: &Value) -> bool {
    match grant.get("spec").and_then(|spec| spec.get("to")) {
        None => false,
        Some(Value::Array(to)) => to.iter().any(|to| match to.get("group") {
            Some(Value::String(group)) => group.eq_ignore_ascii_case(GROUP),
            None | Some(_) => !to.is_object() || to.get("group").is_some(),
        }),
        Some(_) => true,
    }
}

/// Whether anything that is judged differs between two versions of an object.
pub(super) fn differs(kind: Kind, old: &Value, new: &Value) -> bool {
    // Of a Pod nothing but annotations is judged, but what they mean depends on its ports.
    (Concern::of(kind) != Concern::Workload && old.get("spec") != new.get("spec"))
        || annotations(kind).iter().any(|name| value(old, name) != value(new, name))
        || (kind == Kind::Namespace && about_injection(old) != about_injection(new))
}

/// The annotations that policy depends on, by kind.
pub(super) fn annotations(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Server => &SERVER_ANNOTATIONS,
        Kind::PolicyHttpRoute | Kind::GatewayHttpRoute | Kind::GrpcRoute => &ROUTE_ANNOTATIONS,
        Kind::Pod | Kind::ExternalWorkload => &WORKLOAD_ANNOTATIONS,
        Kind::Namespace => &NAMESPACE_ANNOTATIONS,
        Kind::ServerAuthorization
        | Kind::AuthorizationPolicy
        | Kind::MeshTlsAuthentication
        | Kind::NetworkAuthentication
        | Kind::HttpLocalRateLimitPolicy
        | Kind::EgressNetwork
        | Kind::ReferenceGrant
        | Kind::Node
        | Kind::ServiceAccount
        | Kind::Deployment
        | Kind::StatefulSet
        | Kind::DaemonSet
        | Kind::ReplicaSet
        | Kind::Job
        | Kind::CronJob => &[],
    }
}

fn value<'a>(object: &'a Value, annotation: &str) -> Option<&'a Value> {
    object.get("metadata")?.get("annotations")?.get(annotation)
}

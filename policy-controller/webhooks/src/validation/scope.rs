//! Which objects are ours to judge, and which part of them. The conditions under which the API server
//! asks at all (`configuration`) say the same in its language.

use crate::injector::injection_annotations;
use policy_crds::Kind;
use policy_crds::spec::Admission;
use serde_json::Value;

/// The group of our kinds.
pub(super) const GROUP: &str = "policy.linkerd.io";
/// Groups under which a parent of kind Server is taken for ours: its own, and those that have no such
/// kind and stand there by mistake.
pub(super) const SERVER_GROUPS: [&str; 4] = [GROUP, "", "core", "gateway.networking.k8s.io"];

/// Whether an object of a kind that is judged so is itself one that is judged.
pub(super) fn covers(admission: Admission, object: &Value) -> bool {
    match admission {
        Admission::Policy | Admission::Workload => true,
        Admission::Route => has_server(object),
        Admission::Grant => opens_ours(object),
        Admission::Foreign => false,
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
pub(super) fn has_changed(kind: Kind, old: &Value, new: &Value) -> bool {
    // Of a Pod nothing but annotations is judged, but what they mean depends on its ports.
    let spec = kind.spec();
    (spec.admission != Admission::Workload && old.get("spec") != new.get("spec"))
        || spec.annotations.iter().any(|name| value(old, name) != value(new, name))
        || (kind == Kind::Namespace && injection_annotations(old) != injection_annotations(new))
}

fn value<'a>(object: &'a Value, annotation: &str) -> Option<&'a Value> {
    object.get("metadata")?.get("annotations")?.get(annotation)
}

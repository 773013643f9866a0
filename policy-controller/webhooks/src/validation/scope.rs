//! The scope of validation: the objects, and the parts of them, that are validated. `configuration`
//! has the same conditions in CEL.

use crate::injector::injection_annotations;
use policy_crds::Kind;
use policy_crds::spec::Admission;
use serde_json::Value;

/// The API group of our kinds.
pub(super) const GROUP: &str = "policy.linkerd.io";
/// The API group of this project's own kinds.
pub(super) const OWN_GROUP: &str = "portcullis.dev";
/// The kinds of parents through which a route counts for inbound traffic, in lower case.
pub(super) const PARENT_KINDS: [&str; 2] = ["server", "inboundroute"];
/// Groups under which such a parent counts as ours: the right ones, and those that have no such kind
/// and are given by mistake.
pub(super) const PARENT_GROUPS: [&str; 5] =
    [GROUP, OWN_GROUP, "", "core", "gateway.networking.k8s.io"];

/// The validation that an object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Its rules, with the remarks and findings about it.
    Policy,
    /// Its rules alone, and of a route those about outbound traffic alone: nothing of it takes effect
    /// here.
    Outbound,
    /// None.
    Nothing,
}

/// Returns the validation of an object. Outbound policy is validated only with `linkerd_compatible`.
pub(super) fn coverage(kind: Kind, object: &Value, linkerd_compatible: bool) -> Coverage {
    let admission = kind.spec().admission;
    let is_policy = match admission {
        Admission::Policy | Admission::Workload => true,
        Admission::Route => has_inbound(object),
        Admission::Grant => opens_ours(object),
        Admission::Outbound | Admission::Foreign => false,
    };
    let is_outbound = || match admission {
        Admission::Outbound => true,
        Admission::Route => has_outbound(object, kind.group()),
        Admission::Policy | Admission::Workload | Admission::Grant | Admission::Foreign => false,
    };
    if is_policy {
        Coverage::Policy
    } else if linkerd_compatible && is_outbound() {
        Coverage::Outbound
    } else {
        Coverage::Nothing
    }
}

/// True if a parent of a route is of a kind of outbound policy. The API server writes the group of the
/// route (`own`) where the reference names none.
fn has_outbound(route: &Value, own: &str) -> bool {
    let parents = route.get("spec").and_then(|spec| spec.get("parentRefs"));
    parents.and_then(Value::as_array).into_iter().flatten().any(|parent| {
        let text = |name: &str| parent.get(name).and_then(Value::as_str);
        let kind = text("kind").and_then(|kind| Kind::find(text("group").unwrap_or(own), kind));
        kind.is_some_and(|kind| kind.spec().admission == Admission::Outbound)
    })
}

/// True if a parent of a route is a Server or an InboundRoute, or an unreadable reference that may be
/// one.
fn has_inbound(route: &Value) -> bool {
    match route.get("spec").and_then(|spec| spec.get("parentRefs")) {
        None => false,
        Some(Value::Array(parents)) => parents.iter().any(is_inbound),
        Some(_) => true,
    }
}

fn is_inbound(parent: &Value) -> bool {
    if !parent.is_object() {
        return true;
    }
    let kind = match parent.get("kind") {
        None => false,
        Some(Value::String(kind)) => {
            PARENT_KINDS.iter().any(|ours| kind.eq_ignore_ascii_case(ours))
        }
        Some(_) => true,
    };
    kind && match parent.get("group") {
        Some(Value::String(group)) => {
            PARENT_GROUPS.iter().any(|ours| group.eq_ignore_ascii_case(ours))
        }
        None | Some(_) => true,
    }
}

/// True if a ReferenceGrant is for objects of our groups, or may be, or lets InboundRoutes refer to
/// others.
fn opens_ours(grant: &Value) -> bool {
    let part = |name: &str| grant.get("spec").and_then(|spec| spec.get(name));
    let to_ours = match part("to") {
        None => false,
        Some(Value::Array(to)) => to.iter().any(|to| match to.get("group") {
            Some(Value::String(group)) => {
                [GROUP, OWN_GROUP].iter().any(|ours| group.eq_ignore_ascii_case(ours))
            }
            None | Some(_) => !to.is_object() || to.get("group").is_some(),
        }),
        Some(_) => true,
    };
    let from = part("from").and_then(Value::as_array).into_iter().flatten();
    let mut groups = from.filter_map(|from| from.get("group").and_then(Value::as_str));
    to_ours || groups.any(|group| group.eq_ignore_ascii_case(OWN_GROUP))
}

/// True if a validated part differs between two versions of an object.
pub(super) fn has_changed(kind: Kind, old: &Value, new: &Value) -> bool {
    // Only the annotations of a Pod are validated, although their meaning depends on its ports.
    let spec = kind.spec();
    (spec.admission != Admission::Workload && old.get("spec") != new.get("spec"))
        || spec.annotations.iter().any(|name| value(old, name) != value(new, name))
        || (kind == Kind::Namespace && injection_annotations(old) != injection_annotations(new))
}

/// True if the labels of a Server differ, by which grants select it.
pub(super) fn is_relabelled(kind: Kind, old: &Value, new: &Value) -> bool {
    let labels = "/metadata/labels";
    kind == Kind::Server && old.pointer(labels) != new.pointer(labels)
}

fn value<'a>(object: &'a Value, annotation: &str) -> Option<&'a Value> {
    object.get("metadata")?.get("annotations")?.get(annotation)
}

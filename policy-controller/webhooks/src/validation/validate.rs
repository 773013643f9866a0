//! Validates one request on its own, without the index.

use super::scope::{Coverage, coverage, has_changed, is_relabelled};
use crate::injector::injection_remarks;
use crate::review::{AdmissionRequest, Cause, Details, Status};
use policy_crds::spec::Admission;
use policy_crds::{Body, FieldError, Kind, Object, unread_annotations};
use policy_engine::annotation_errors;
use serde_json::Value;
use std::borrow::Cow;

/// Result of validating a request.
#[derive(Debug)]
pub(crate) struct Validation {
    /// The kind, if the controller reads it.
    pub(crate) kind: Option<Kind>,
    /// The verdict on the request.
    pub(crate) verdict: Verdict,
}

/// The verdict on a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Out of scope, or nothing that is validated has changed.
    OutOfScope,
    /// The object is valid.
    Valid {
        /// Remarks that may surprise its author.
        remarks: Vec<FieldError>,
        /// The object to query the index for; absent if the index adds nothing.
        object: Option<Box<Object>>,
    },
    /// A deletion, which is never denied, of an object to query the index for.
    Deletion(Box<Object>),
    /// The object is invalid.
    Denied(Status),
}

/// Validates a request; with `linkerd_compatible` also one about outbound policy.
pub(crate) fn validate(request: &AdmissionRequest<'_>, linkerd_compatible: bool) -> Validation {
    let kind = Kind::find(request.group, request.kind);
    let verdict = match kind {
        Some(kind) if changes_the_object(request) => verdict(kind, request, linkerd_compatible),
        Some(kind) if deletes_the_object(request) => deletion(kind, request),
        Some(_) | None => Verdict::OutOfScope,
    };
    Validation { kind, verdict }
}

fn changes_the_object(request: &AdmissionRequest<'_>) -> bool {
    request.subresource.is_empty() && matches!(request.operation, "CREATE" | "UPDATE")
}

fn deletes_the_object(request: &AdmissionRequest<'_>) -> bool {
    request.subresource.is_empty() && request.operation == "DELETE"
}

/// Checks a deletion of a route, a binding or an InboundRoute. Other objects never restrict access, but
/// without its last route or binding a Server is decided as a whole, and without its last InboundRoute
/// by its own policy.
fn deletion(kind: Kind, request: &AdmissionRequest<'_>) -> Verdict {
    let restricts = kind.is_route() || kind.is_binding() || kind == Kind::InboundRoute;
    let Some(old) = request.old.filter(|_| restricts) else { return Verdict::OutOfScope };
    if is_being_deleted(old) || coverage(kind, old, false) != Coverage::Policy {
        return Verdict::OutOfScope;
    }
    policy_crds::parse(old)
        .map_or(Verdict::OutOfScope, |object| Verdict::Deletion(Box::new(object)))
}

fn verdict(kind: Kind, request: &AdmissionRequest<'_>, linkerd_compatible: bool) -> Verdict {
    let admission = kind.spec().admission;
    let Some(object @ Value::Object(_)) = request.object else {
        let validated = match admission {
            Admission::Workload | Admission::Foreign => false,
            Admission::Outbound => linkerd_compatible,
            Admission::Policy | Admission::Route | Admission::Grant => true,
        };
        return if validated {
            Verdict::Denied(Status::malformed("the request has no `object`"))
        } else {
            Verdict::OutOfScope
        };
    };
    let coverage = coverage(kind, object, linkerd_compatible);
    if is_being_deleted(object) || coverage == Coverage::Nothing {
        return Verdict::OutOfScope;
    }
    // An object that was admitted, or stored without validation, must stay changeable in all other
    // parts.
    match request.old.filter(|_| request.operation == "UPDATE") {
        Some(old) if !has_changed(kind, old, object) => unvalidated(kind, request, old, object),
        Some(_) | None => validated(kind, request, object, coverage),
    }
}

/// The verdict on an update of parts that are not validated: it is never denied.
fn unvalidated(kind: Kind, request: &AdmissionRequest<'_>, old: &Value, new: &Value) -> Verdict {
    if is_relabelled(kind, old, new)
        && let sound @ Verdict::Valid { .. } = validated(kind, request, new, Coverage::Policy)
    {
        return sound;
    }
    let known = unread_annotations(Some(kind), old);
    let added = unread_annotations(Some(kind), new).into_iter().filter(|one| !known.contains(one));
    let remarks: Vec<FieldError> = added.map(|unread| unread.about).collect();
    match remarks.is_empty() {
        true => Verdict::OutOfScope,
        false => Verdict::Valid { remarks, object: None },
    }
}

/// The verdict on an object whose validated parts are new.
fn validated(
    kind: Kind,
    request: &AdmissionRequest<'_>,
    object: &Value,
    coverage: Coverage,
) -> Verdict {
    let parsed = policy_crds::parse(&completed(object, request));
    match (parsed, kind.spec().admission) {
        (Err(_), Admission::Workload) => Verdict::OutOfScope,
        (Err(error), _) => {
            let field = error.field().to_owned();
            let message = error.message();
            Verdict::Denied(refusal(kind, request.name, &[FieldError { field, message }]))
        }
        (Ok(parsed), Admission::Workload) => {
            let mut remarks = annotation_errors(&parsed);
            if kind == Kind::Namespace {
                remarks.extend(injection_remarks(object));
            }
            add_unread(&mut remarks, kind, object);
            Verdict::Valid { remarks, object: None }
        }
        (Ok(parsed), _) => {
            let mut verdict = validate_policy(kind, parsed, coverage);
            if let Verdict::Valid { remarks, .. } = &mut verdict {
                add_unread(remarks, kind, object);
            }
            verdict
        }
    }
}

/// Adds the annotations of policy that nothing reads, where nothing is said of them yet.
fn add_unread(remarks: &mut Vec<FieldError>, kind: Kind, object: &Value) {
    for unread in unread_annotations(Some(kind), object) {
        if remarks.iter().all(|known| known.field != unread.about.field) {
            remarks.push(unread.about);
        }
    }
}

fn validate_policy(kind: Kind, object: Object, coverage: Coverage) -> Verdict {
    let name = object.meta.key.name.clone();
    let mut errors = match &object.body {
        Body::Invalid(invalid) => invalid.errors.clone(),
        Body::Valid(_) => annotation_errors(&object),
    };
    if coverage == Coverage::Outbound && kind.is_route() {
        errors.retain(is_of_outbound);
    }
    if !errors.is_empty() {
        return Verdict::Denied(refusal(kind, &name, &errors));
    }
    if coverage == Coverage::Outbound {
        return Verdict::Valid { remarks: Vec::new(), object: None };
    }
    // Omitting the networks is the usual way to mean the cluster's.
    let unusual = |remark: &FieldError| remark.field != "spec.client.networks";
    let remarks = object.remarks().into_iter().filter(unusual).collect();
    Verdict::Valid { remarks, object: Some(Box::new(object)) }
}

/// True if an error of a route matters where the route is for outbound traffic alone: the port of a
/// parent, and annotations. The rest is for the controller that uses it, and some of our rules are
/// stricter than Linkerd's.
fn is_of_outbound(error: &FieldError) -> bool {
    let field = error.field.as_str();
    (field.starts_with("spec.parentRefs[") && field.ends_with("].port"))
        || field.starts_with("metadata.annotations[")
}

fn is_being_deleted(object: &Value) -> bool {
    let metadata = object.get("metadata");
    metadata.and_then(|m| m.get("deletionTimestamp")).is_some_and(|time| !time.is_null())
}

/// Returns the object with the name and namespace that the API server will set.
fn completed<'a>(object: &'a Value, request: &AdmissionRequest<'_>) -> Cow<'a, Value> {
    let Some(Value::Object(metadata)) = object.get("metadata") else {
        return Cow::Borrowed(object);
    };
    let is_absent = |field: &str| match metadata.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    let generated = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    let name = match (request.name, generated) {
        ("", "") => None,
        ("", prefix) => Some(format!("{prefix}00000")),
        (name, _) => Some(name.to_owned()),
    };
    let namespace = Some(request.namespace.to_owned()).filter(|namespace| !namespace.is_empty());
    let missing = [("name", name), ("namespace", namespace)];
    let missing = missing.into_iter().filter_map(|(field, value)| Some((field, value?)));
    let missing: Vec<_> = missing.filter(|(field, _)| is_absent(field)).collect();
    if missing.is_empty() {
        // The usual case; objects are large.
        return Cow::Borrowed(object);
    }
    let mut completed = object.clone();
    if let Some(Value::Object(metadata)) = completed.get_mut("metadata") {
        let named = |(field, value): (&str, String)| (field.to_owned(), value.into());
        metadata.extend(missing.into_iter().map(named));
    }
    Cow::Owned(completed)
}

/// Returns the status of a denial with every error.
fn refusal(kind: Kind, name: &str, errors: &[FieldError]) -> Status {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let cause = |error: &FieldError| Cause {
        reason: "FieldValueInvalid",
        message: error.message.clone(),
        field: error.field.clone(),
    };
    Status {
        message: format!("{} {name} is invalid: {}", kind.as_str(), all.join("; ")),
        reason: "Invalid",
        code: 422,
        details: Some(Details {
            name: name.to_owned(),
            group: kind.group().to_owned(),
            kind: kind.as_str().to_owned(),
            causes: errors.iter().map(cause).collect(),
        }),
    }
}

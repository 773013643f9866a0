//! The verdict on one request, from nothing but the request.

use super::scope::{covers, has_changed};
use crate::injector::injection_remarks;
use crate::review::{AdmissionRequest, Cause, Details, Status};
use policy_crds::spec::Admission;
use policy_crds::{Body, FieldError, Kind, Object};
use policy_engine::annotation_errors;
use serde_json::Value;
use std::borrow::Cow;

/// What becomes of a request.
#[derive(Debug)]
pub(crate) struct Validation {
    /// The kind, if it is one that is read.
    pub(crate) kind: Option<Kind>,
    /// What becomes of it.
    pub(crate) verdict: Verdict,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is no concern of ours, or nothing that is judged changes.
    OutOfScope,
    /// It breaks no rule.
    Valid {
        /// What may surprise its author.
        remarks: Vec<FieldError>,
        /// What the index is to be asked about; absent where it has nothing to say.
        object: Option<Box<Object>>,
    },
    /// It is a deletion, which is never refused, of an object that the index is to be asked about.
    Deletion(Box<Object>),
    /// It breaks a rule.
    Denied(Status),
}

/// Judges a request.
pub(crate) fn validate(request: &AdmissionRequest<'_>) -> Validation {
    let kind = Kind::find(request.group, request.kind);
    let verdict = match kind {
        Some(kind) if changes_the_object(request) => verdict(kind, request),
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

/// Routes alone restrict while they are there. Without the last one its Server is decided as a whole.
fn deletion(kind: Kind, request: &AdmissionRequest<'_>) -> Verdict {
    let Some(old) = request.old.filter(|_| kind.is_route()) else { return Verdict::OutOfScope };
    if is_being_deleted(old) || !covers(Admission::Route, old) {
        return Verdict::OutOfScope;
    }
    policy_crds::parse(old)
        .map_or(Verdict::OutOfScope, |object| Verdict::Deletion(Box::new(object)))
}

fn verdict(kind: Kind, request: &AdmissionRequest<'_>) -> Verdict {
    let admission = kind.spec().admission;
    if admission == Admission::Foreign {
        return Verdict::OutOfScope;
    }
    let Some(object @ Value::Object(_)) = request.object else {
        return match admission {
            Admission::Workload | Admission::Foreign => Verdict::OutOfScope,
            Admission::Policy | Admission::Route | Admission::Grant => {
                Verdict::Denied(Status::malformed("the request has no `object`"))
            }
        };
    };
    if is_being_deleted(object) || !covers(admission, object) {
        return Verdict::OutOfScope;
    }
    // What was admitted, or stored when nobody judged, must stay changeable in everything else.
    if let Some(old) = request.old.filter(|_| request.operation == "UPDATE")
        && !has_changed(kind, old, object)
    {
        return Verdict::OutOfScope;
    }
    let parsed = policy_crds::parse(&completed(object, request));
    match (parsed, admission) {
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
            Verdict::Valid { remarks, object: None }
        }
        (Ok(object), _) => validate_policy(kind, object),
    }
}

fn validate_policy(kind: Kind, object: Object) -> Verdict {
    let name = object.meta.key.name.clone();
    let errors = match &object.body {
        Body::Invalid(invalid) => invalid.errors.clone(),
        Body::Valid(_) => annotation_errors(&object),
    };
    if !errors.is_empty() {
        return Verdict::Denied(refusal(kind, &name, &errors));
    }
    // Leaving the networks out is the ordinary way to mean the cluster's.
    let unusual = |remark: &FieldError| remark.field != "spec.client.networks";
    let remarks = object.remarks().into_iter().filter(unusual).collect();
    Verdict::Valid { remarks, object: Some(Box::new(object)) }
}

fn is_being_deleted(object: &Value) -> bool {
    let metadata = object.get("metadata");
    metadata.and_then(|m| m.get("deletionTimestamp")).is_some_and(|time| !time.is_null())
}

/// The object with the name and the namespace that the API server gives it.
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
        // The ordinary case; objects are large.
        return Cow::Borrowed(object);
    }
    let mut completed = object.clone();
    if let Some(Value::Object(metadata)) = completed.get_mut("metadata") {
        let named = |(field, value): (&str, String)| (field.to_owned(), value.into());
        metadata.extend(missing.into_iter().map(named));
    }
    Cow::Owned(completed)
}

/// A refusal that names every broken rule.
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

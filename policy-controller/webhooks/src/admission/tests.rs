//! Admitted and denied reviews, by example and by property.

mod certificates;
mod configured;
mod http;
mod http2;
mod outbound;
mod passing;
mod properties;
mod refusals;
mod shares;

use crate::review::AdmissionRequest;
use crate::validation::{Verdict, validate};
use policy_crds::Kind;
use serde_json::{Value, json};

/// Parses a manifest.
pub(super) fn value(manifest: &str) -> Value {
    let documents = policy_crds::document::read(manifest);
    assert_eq!(documents.len(), 1, "{manifest}");
    documents.into_iter().next().unwrap().value.unwrap()
}

/// Returns a review of a change from `old` to `new`.
pub(super) fn review(operation: &str, new: &Value, old: &Value) -> Value {
    let api_version = new["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "6a1b",
            "kind": {"group": group, "version": version, "kind": new["kind"]},
            "operation": operation,
            "namespace": new["metadata"]["namespace"],
            "name": new["metadata"]["name"],
            "object": new,
            "oldObject": old,
        }
    })
}

/// Returns the verdict on a review: `passed`, `sound` and the remarks, or the message of the
/// denial.
pub(super) fn verdict(review: &Value) -> String {
    verdict_of(review, false)
}

fn verdict_of(review: &Value, linkerd_compatible: bool) -> String {
    let validation = validate(&AdmissionRequest::read(review).unwrap(), linkerd_compatible);
    match validation.verdict {
        Verdict::OutOfScope => "passed".to_owned(),
        Verdict::Deletion(_) => "deletes".to_owned(),
        Verdict::Denied(status) => status.message,
        Verdict::Valid { remarks, .. } => {
            let all: Vec<String> = remarks.iter().map(ToString::to_string).collect();
            format!("sound{}{}", if all.is_empty() { "" } else { ": " }, all.join("; "))
        }
    }
}

pub(super) fn created(manifest: &str) -> String {
    verdict(&review("CREATE", &value(manifest), &Value::Null))
}

/// The verdict of an admission that validates outbound policy, too.
pub(super) fn created_as_linkerd(manifest: &str) -> String {
    verdict_of(&review("CREATE", &value(manifest), &Value::Null), true)
}

pub(super) fn updated(old: &str, new: &str) -> String {
    verdict(&review("UPDATE", &value(new), &value(old)))
}

/// Returns the manifest of an object in namespace `shop` with this spec.
pub(super) fn object(kind: Kind, spec: &str) -> String {
    let group = kind.group();
    let version = kind.versions()[0];
    let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
    format!(
        "{{apiVersion: {api_version}, kind: {}, metadata: {{name: one, namespace: shop}}, \
          spec: {spec}}}",
        kind.as_str()
    )
}

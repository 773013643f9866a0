//! Explains empty lists and selectors.

use super::finding::Finding;
use super::locations::Locations;
use policy_crds::{Body, Kind};
use policy_engine::Compiled;
use policy_engine::source::Severity;
use serde_json::Value;

pub(super) fn findings(compiled: &Compiled, locations: &mut Locations) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in &compiled.objects {
        let key = &object.meta.key;
        // Invalid objects have more important errors.
        if !is_policy_kind(key.kind) || matches!(object.body, Body::Invalid(_)) {
            continue;
        }
        let Some(spec) = locations.value(key).and_then(|value| value.get("spec")) else { continue };
        let mut empty = Vec::new();
        visit(spec, "spec", &mut empty);
        findings.extend(empty.into_iter().filter_map(|field| {
            let message = meaning(key.kind, &field)?.to_owned();
            let warning = Finding::warning(key, field, message);
            Some(match selects_all(key.kind, &warning.field) {
                true => Finding { severity: Severity::Note, explains: false, ..warning },
                false => warning,
            })
        }));
    }
    findings
}

fn is_policy_kind(kind: Kind) -> bool {
    matches!(kind.group(), "policy.linkerd.io" | "gateway.networking.k8s.io")
}

/// Collects the paths of all empty lists and mappings.
fn visit(value: &Value, path: &str, empty: &mut Vec<String>) {
    match value {
        Value::Array(items) if items.is_empty() => empty.push(path.to_owned()),
        Value::Object(fields) if fields.is_empty() => empty.push(path.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{path}[{index}]"), empty);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                visit(value, &format!("{path}.{key}"), empty);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// True for a selector that is often empty on purpose.
fn selects_all(kind: Kind, field: &str) -> bool {
    let last = field.rsplit('.').next().unwrap_or(field);
    matches!(
        (kind, last),
        (Kind::Server, "podSelector" | "externalWorkloadSelector")
            | (Kind::ServerAuthorization, "selector")
    )
}

/// Meaning of an empty field; `None` where it is obvious.
fn meaning(kind: Kind, field: &str) -> Option<&'static str> {
    let last = field.rsplit('.').next().unwrap_or(field);
    match (kind, last) {
        (_, "requiredAuthenticationRefs") => {
            Some("empty asks for nothing: everybody is authorized")
        }
        (Kind::Server, "podSelector") => Some("empty selects every pod of the namespace"),
        (Kind::Server, "externalWorkloadSelector") => {
            Some("empty selects every ExternalWorkload of the namespace")
        }
        (Kind::ServerAuthorization, "selector") => {
            Some("empty selects every Server of the namespace")
        }
        (Kind::ServerAuthorization, "networks") => {
            Some("empty is as if absent: the cluster's networks")
        }
        (_, "matchLabels" | "matchExpressions") => {
            Some("empty is as if absent: it restricts nothing")
        }
        (_, "hostnames") => Some("empty is as if absent: every host"),
        (_, "parentRefs") => Some("empty is as if absent: the route is attached to nothing"),
        (_, "matches") => Some("empty is as if absent: every request matches"),
        (_, "headers" | "queryParams" | "filters" | "backendRefs" | "except" | "overrides") => {
            Some("empty is as if absent")
        }
        _ => None,
    }
}

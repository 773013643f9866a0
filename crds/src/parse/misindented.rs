//! Fields of `metadata` and `spec` of a manifest that stand beside them, because a line is indented too
//! little, and a `spec` within `metadata`, whose lines are indented too far. An API server drops them, or
//! refuses the object.

use crate::kind::Kind;
use crate::object::FieldError;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The fields of metadata without which an object is another, or is selected otherwise.
const METADATA: [&str; 5] = ["name", "generateName", "namespace", "labels", "annotations"];

/// The fields of a spec without which a route or a ReferenceGrant says something else.
const SPEC: [&str; 5] = ["parentRefs", "hostnames", "rules", "from", "to"];

/// The object of a manifest with such fields where they belong, so that it keeps what it claims, and an
/// error about each. A field that is there already stays as it is there. Only kinds of policy and Namespaces are looked at.
pub(super) fn straightened(value: &Value) -> (Cow<'_, Value>, Vec<FieldError>) {
    let mut errors = Vec::new();
    let Some(fields) = value.as_object().filter(|fields| is_of_policy(fields)) else {
        return (Cow::Borrowed(value), errors);
    };
    let has_stray = METADATA.iter().chain(&SPEC).any(|name| fields.contains_key(*name));
    let inner_spec = fields.get("metadata").and_then(|metadata| metadata.get("spec"));
    let inner_spec = inner_spec.filter(|_| fields.get("spec").is_none_or(Value::is_null));
    if !has_stray && inner_spec.is_none() {
        return (Cow::Borrowed(value), errors);
    }
    let mut moved = fields.clone();
    if let Some(spec) = inner_spec {
        moved.insert("spec".to_owned(), spec.clone());
        if let Some(metadata) = moved.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("spec");
        }
        let message = "belongs beside `metadata`: its lines are indented too far";
        errors.push(FieldError::new("metadata.spec", message));
    }
    for (place, names) in [("metadata", METADATA), ("spec", SPEC)] {
        for name in names {
            let inside = fields.get(place).is_some_and(|inside| inside.get(name).is_some());
            let Some(stray) = fields.get(name) else { continue };
            if inside {
                moved.remove(name);
                let message = format!("is in `{place}` too: an API server drops this one");
                errors.push(FieldError::new(name, message));
                continue;
            }
            let within = moved.entry(place).or_insert_with(|| Value::Object(Map::new()));
            if within.is_null() {
                *within = Value::Object(Map::new());
            }
            let Some(within) = within.as_object_mut() else { continue };
            within.insert(name.to_owned(), stray.clone());
            moved.remove(name);
            let message = format!("belongs in `{place}`: the line is indented too little");
            errors.push(FieldError::new(name, message));
        }
    }
    if errors.is_empty() {
        return (Cow::Borrowed(value), errors);
    }
    (Cow::Owned(Value::Object(moved)), errors)
}

/// True for an object of a group of policy, and for a Namespace.
fn is_of_policy(fields: &Map<String, Value>) -> bool {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (group, _) = text("apiVersion").rsplit_once('/').unwrap_or_default();
    let is_policy = |kind: &Kind| kind.is_custom() && *kind != Kind::ExternalWorkload;
    let mut kinds = Kind::ALL.into_iter().filter(is_policy);
    kinds.any(|kind| kind.group() == group) || (group.is_empty() && text("kind") == "Namespace")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_at_another_depth_is_read_where_it_belongs() {
        let route = |metadata: Value, spec: Value| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": metadata, "spec": spec,
            })
        };
        let whole = route(json!({"name": "a", "namespace": "shop"}), json!({"rules": []}));
        assert_eq!(straightened(&whole), (Cow::Borrowed(&whole), Vec::new()));
        let mut stray = route(json!({"name": "a"}), Value::Null);
        stray["namespace"] = json!("shop");
        stray["rules"] = json!([]);
        let (found, errors) = straightened(&stray);
        assert_eq!(*found, whole);
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "namespace: belongs in `metadata`: the line is indented too little",
                "rules: belongs in `spec`: the line is indented too little",
            ]
        );
        let mut twice = whole.clone();
        twice["rules"] = json!([{"matches": []}]);
        let (found, errors) = straightened(&twice);
        assert_eq!(*found, whole);
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["rules: is in `spec` too: an API server drops this one"]);
        let mut within = whole.clone();
        within["spec"] = Value::Null;
        within["metadata"]["spec"] = whole["spec"].clone();
        let (found, errors) = straightened(&within);
        assert_eq!(*found, whole);
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let message = "metadata.spec: belongs beside `metadata`: its lines are indented too far";
        assert_eq!(errors, [message]);
        let other = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "labels": {}});
        assert_eq!(straightened(&other), (Cow::Borrowed(&other), Vec::new()));
    }
}

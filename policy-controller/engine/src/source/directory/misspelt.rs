//! Misspelt fields of the Gateway API's routes in files. An API server drops such a field, and the route
//! then matches more than its author wrote, so that a cluster's controller never sees it. Here it is
//! still there, and the route is invalid: it keeps its claims and permits nothing.

use policy_crds::unknown::unknown_fields;
use policy_crds::{Body, FieldError, Invalid, Object, Resource};
use serde_json::Value;

/// API group of the routes whose readers pass over unknown fields.
const GATEWAY: &str = "gateway.networking.k8s.io";

/// Returns the object, or an invalid one if it is a route with a field that is nearly one of its schema.
pub(super) fn without_misspelt(object: Object, value: &Value) -> Object {
    let Body::Valid(resource @ Resource::Route(route)) = &object.body else { return object };
    let kind = object.meta.key.kind;
    if kind.group() != GATEWAY || route.is_of_others() {
        return object;
    }
    let errors = misspelt(&object, value);
    if errors.is_empty() {
        return object;
    }
    let claims = kind.spec().claims(Some(resource));
    Object { body: Body::Invalid(Invalid { errors, claims }), ..object }
}

fn misspelt(object: &Object, value: &Value) -> Vec<FieldError> {
    let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    let found = unknown_fields(object.meta.key.kind, version, value).unwrap_or_default();
    let of_spec = found.into_iter().filter(|unknown| unknown.field.starts_with("spec."));
    let error = |near: String, field| {
        let message = format!("unknown field, did you mean `{near}`?");
        FieldError { field, message }
    };
    of_spec.filter_map(|unknown| Some(error(unknown.near?, unknown.field))).collect()
}

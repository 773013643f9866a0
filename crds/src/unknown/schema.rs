//! The walk through an object along the schema of its kind.

use super::field::{StatedFields, UnknownField};
use super::gateway;
use crate::field::join_index;
use crate::kind::Kind;
use crate::render::profile::Profile;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Schemas by kind and version.
static SCHEMAS: LazyLock<BTreeMap<(Kind, &'static str), Value>> = LazyLock::new(|| {
    let of_kind = |kind: Kind| kind.versions().iter().map(move |version| (kind, *version));
    let all = Kind::ALL.into_iter().flat_map(of_kind);
    all.filter_map(|(kind, version)| Some(((kind, version), schema(kind, version)?))).collect()
});

/// The schema of a version of a kind; `None` if it is part of Kubernetes.
fn schema(kind: Kind, version: &str) -> Option<Value> {
    match kind.spec().definition {
        Some(definition) => definition(Profile::Portcullis).schema(version),
        None => gateway::schema(kind),
    }
}

/// The unknown fields of an object, outside its metadata, which every kind has. `None` if the schema of
/// the kind and version is not known here: kinds of Kubernetes itself, and versions that are not read.
pub fn unknown_fields(kind: Kind, version: &str, object: &Value) -> Option<Vec<UnknownField>> {
    let ((_, _), schema) = SCHEMAS.iter().find(|((k, v), _)| *k == kind && *v == version)?;
    let mut found = Vec::new();
    visit(kind, schema, object, "", &mut found);
    Some(found)
}

fn visit(kind: Kind, schema: &Value, value: &Value, path: &str, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(stated) => {
            // A mapping without a list of its fields has free ones.
            let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let mapping = StatedFields { kind: Some(kind), path, stated };
            found.extend(mapping.unknown(&names));
            for (name, value) in stated {
                let Some(schema) = known.get(name) else { continue };
                visit(kind, schema, value, &mapping.field(name), found);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                visit(kind, schema, item, &join_index(path, index), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The stated fields of a route that its API has and that nothing here acts on, by their paths. Backends
/// are not among them: they are for proxies that send requests, and most routes have some.
pub fn unused_fields(kind: Kind, object: &Value) -> Vec<String> {
    if !matches!(kind, Kind::GatewayHttpRoute | Kind::GrpcRoute) {
        return Vec::new();
    }
    let Some(spec) = object.get("spec") else { return Vec::new() };
    let of_spec = gateway::UNUSED_IN_SPEC.iter().filter(|name| spec.get(name).is_some());
    let mut found: Vec<String> = of_spec.map(|name| format!("spec.{name}")).collect();
    let rules = spec.get("rules").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let stated = gateway::UNUSED_IN_RULES.iter().filter(|name| rule.get(name).is_some());
        found.extend(stated.map(|name| format!("spec.rules[{index}].{name}")));
    }
    found
}

//! A builder of OpenAPI schemas, as far as CRDs need them.

use serde_json::{Map, Value, json};

/// A DNS label.
pub(crate) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// An API group: empty or dotted labels.
pub(crate) const GROUP: &str =
    "^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A kind.
pub(crate) const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";
/// An identity that is not a SPIFFE id.
pub(crate) const IDENTITY: &str =
    "^(\\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A host name, optionally with a wildcard in front.
pub(crate) const HOST: &str =
    "^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A host name without wildcard.
pub(crate) const PRECISE_HOST: &str =
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A mapping of known fields.
pub(crate) fn object(about: &str, fields: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let mut schema = json!({"description": about, "type": "object"});
    // The API server drops empty properties, and a comparison with what it stores would differ.
    if !properties.is_empty() {
        set(&mut schema, "properties", properties.into());
    }
    if !required.is_empty() {
        set(&mut schema, "required", json!(required));
    }
    schema
}

/// Exactly one of these fields must be there.
pub(crate) fn exactly_one(mut schema: Value, fields: &[&str]) -> Value {
    let alternatives: Vec<Value> = fields.iter().map(|f| json!({"required": [f]})).collect();
    set(&mut schema, "oneOf", json!(alternatives));
    schema
}

/// A list.
pub(crate) fn list(about: &str, items: Value) -> Value {
    json!({"description": about, "type": "array", "items": items})
}

/// A list of a bounded number of elements.
pub(crate) fn list_of(about: &str, items: Value, min: Option<u32>, max: Option<u32>) -> Value {
    let mut schema = list(about, items);
    set_some(&mut schema, "minItems", min);
    set_some(&mut schema, "maxItems", max);
    schema
}

/// A bound of a list.
pub(crate) fn at_most(count: usize) -> Option<u32> {
    u32::try_from(count).ok()
}

/// Text.
pub(crate) fn text(about: &str) -> Value {
    json!({"description": about, "type": "string"})
}

/// Text of 1 to `max` characters.
pub(crate) fn text_up_to(about: &str, max: u32) -> Value {
    json!({"description": about, "type": "string", "minLength": 1, "maxLength": max})
}

/// Text that matches a pattern.
pub(crate) fn matching(about: &str, pattern: &str) -> Value {
    json!({"description": about, "type": "string", "pattern": pattern})
}

/// Text that is one of these.
pub(crate) fn one_of(about: &str, values: &[&str]) -> Value {
    json!({"description": about, "type": "string", "enum": values})
}

/// A point in time.
pub(crate) fn time(about: &str) -> Value {
    json!({"description": about, "type": "string", "format": "date-time"})
}

/// A truth value.
pub(crate) fn boolean(about: &str) -> Value {
    json!({"description": about, "type": "boolean"})
}

/// A whole number.
pub(crate) fn integer(about: &str, format: &str, min: Option<u32>, max: Option<u32>) -> Value {
    let mut schema = json!({"description": about, "type": "integer", "format": format});
    set_some(&mut schema, "minimum", min);
    set_some(&mut schema, "maximum", max);
    schema
}

/// A port number.
pub(crate) fn port(about: &str) -> Value {
    integer(about, "int32", Some(1), Some(65535))
}

/// The same schema with a default.
pub(crate) fn or(mut schema: Value, default: Value) -> Value {
    set(&mut schema, "default", default);
    schema
}

/// Sets a keyword of a schema.
pub(crate) fn set(schema: &mut Value, keyword: &str, value: Value) {
    if let Some(map) = schema.as_object_mut() {
        map.insert(keyword.to_owned(), value);
    }
}

fn set_some(schema: &mut Value, keyword: &str, value: Option<u32>) {
    if let Some(value) = value {
        set(schema, keyword, json!(value));
    }
}

/// A label selector.
pub(crate) fn selector(about: &str) -> Value {
    let expression = object(
        "A condition on one label.",
        &[
            ("key", text("The label's name.")),
            ("operator", one_of("Operator.", &["In", "NotIn", "Exists", "DoesNotExist"])),
            ("values", list("For `In` and `NotIn`.", json!({"type": "string"}))),
        ],
        &["key", "operator"],
    );
    let labels = json!({
        "description": "Labels that must have these values.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let expressions = list("Conditions that must hold.", expression);
    object(about, &[("matchLabels", labels), ("matchExpressions", expressions)], &[])
}

/// A list that has each name once.
pub(crate) fn named(mut list: Value) -> Value {
    set(&mut list, "x-kubernetes-list-type", json!("map"));
    set(&mut list, "x-kubernetes-list-map-keys", json!(["name"]));
    list
}

/// Predicates over headers.
pub(crate) fn headers() -> Value {
    named(list_of("Header fields.", value_match(4096), None, Some(16)))
}

/// Predicates over query parameters.
pub(crate) fn query_params() -> Value {
    named(list_of("Parameters.", value_match(1024), None, Some(16)))
}

fn value_match(max: u32) -> Value {
    let kinds = &["Exact", "RegularExpression"];
    object(
        "Name and value.",
        &[
            ("type", or(one_of("Type of the comparison of the value.", kinds), json!("Exact"))),
            ("name", text_up_to("Name.", 256)),
            ("value", text_up_to("Value.", max)),
        ],
        &["name", "value"],
    )
}

/// A rule in CEL that the API server checks.
pub(crate) fn rule(schema: Value, rule: &str, message: &str) -> Value {
    let mut schema = schema;
    set(&mut schema, "x-kubernetes-validations", json!([{"rule": rule, "message": message}]));
    schema
}

/// A list of networks with exceptions.
pub(crate) fn networks(about: &str) -> Value {
    let cidr = "A network such as `10.0.0.0/8`, or an address.";
    let except = list("Networks inside it that are excluded.", json!({"type": "string"}));
    let network = object("A network.", &[("cidr", text(cidr)), ("except", except)], &["cidr"]);
    list(about, network)
}

/// Group, kind and name of an object of the same namespace.
pub(crate) fn local_reference(about: &str) -> Value {
    object(about, &reference_fields(), &["kind", "name"])
}

/// Group, kind, name and optional namespace of an object.
pub(crate) fn reference(about: &str, namespace: Value, required: &[&str]) -> Value {
    let mut fields = reference_fields();
    fields.push(("namespace", namespace));
    object(about, &fields, required)
}

/// A namespace, up to 253 characters.
pub(crate) fn any_namespace() -> Value {
    json!({
        "description": "Namespace; absent: that of this object.",
        "type": "string",
        "maxLength": 253,
    })
}

fn reference_fields() -> Vec<(&'static str, Value)> {
    let mut group = matching("API group; empty: the core group.", GROUP);
    set(&mut group, "maxLength", json!(253));
    let mut kind = matching("Kind.", KIND);
    set(&mut kind, "minLength", json!(1));
    set(&mut kind, "maxLength", json!(63));
    vec![("group", group), ("kind", kind), ("name", text_up_to("Name.", 253))]
}

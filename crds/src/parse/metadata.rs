//! `metadata`: lenient, only what policy depends on is typed.

use super::error::NotAnObject;
use super::name::{is_dns_label, is_dns_name};
use crate::kind::Kind;
use crate::object::{ObjectKey, ObjectMeta};
use crate::reader::{Fields, Known, Node, describe, quote, shared};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where `kubectl` puts an object that names no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Reads the metadata. Without a name there is no object; all else that is wrong is an error of
/// the object.
pub(crate) fn read(root: &Fields<'_>, kind: Kind) -> Result<ObjectMeta, NotAnObject> {
    let metadata = root.get("metadata").ok_or_else(|| fail("metadata", "is required"))?;
    if !metadata.value().is_object() {
        return Err(fail("metadata", "expected a mapping"));
    }
    let fields =
        metadata.fields(Known::Any).ok_or_else(|| fail("metadata", "expected a mapping"))?;
    let key = ObjectKey { kind, namespace: namespace(&fields, kind)?, name: name(&fields)? };
    Ok(ObjectMeta {
        key,
        labels: texts(fields.get("labels")),
        annotations: texts(fields.get("annotations")),
        created: created(&fields),
        uid: fields.get("uid").and_then(|n| n.text()).map(shared),
        generation: fields.get("generation").and_then(|n| n.integer(0, i64::MAX)),
    })
}

fn fail(field: &str, message: &str) -> NotAnObject {
    NotAnObject::Field { field: field.to_owned(), message: message.to_owned() }
}

/// `n`, `yes` and `7` are no text in YAML, though they may be meant as names.
fn not_text(value: &Value) -> String {
    format!("expected text, found {}: put it in quotes", describe(value))
}

fn name(fields: &Fields<'_>) -> Result<Arc<str>, NotAnObject> {
    const FIELD: &str = "metadata.name";
    let Some(node) = fields.get("name") else {
        let message = match fields.get("generateName") {
            Some(_) => "is required, `generateName` only means something to a cluster",
            None => "is required",
        };
        return Err(fail(FIELD, message));
    };
    let Value::String(text) = node.value() else {
        return Err(fail(FIELD, &not_text(node.value())));
    };
    if !is_dns_name(text) {
        let rule = "lower-case letters, digits, `-` and `.` are allowed";
        return Err(fail(FIELD, &format!("{} is not a name: {rule}", quote(text))));
    }
    Ok(shared(text))
}

fn namespace(fields: &Fields<'_>, kind: Kind) -> Result<Arc<str>, NotAnObject> {
    const FIELD: &str = "metadata.namespace";
    if !kind.is_namespaced() {
        return Ok(shared(""));
    }
    let Some(node) = fields.get("namespace") else { return Ok(shared(DEFAULT_NAMESPACE)) };
    let Value::String(text) = node.value() else {
        return Err(fail(FIELD, &not_text(node.value())));
    };
    if text.is_empty() {
        return Ok(shared(DEFAULT_NAMESPACE));
    }
    if !is_dns_label(text) {
        let rule = "up to 63 lower-case letters, digits and `-` are allowed";
        return Err(fail(FIELD, &format!("{} is not a namespace: {rule}", quote(text))));
    }
    Ok(shared(text))
}

/// A mapping of text to text (labels, annotations). What is not text is an error, the rest is kept.
pub(crate) fn texts(node: Option<Node<'_>>) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(fields) = node.and_then(|n| n.fields(Known::Any)) else { return BTreeMap::new() };
    let text = |(key, node): (&str, Node<'_>)| Some((shared(key), shared(node.text()?)));
    fields.entries().filter_map(text).collect()
}

fn created(fields: &Fields<'_>) -> Option<i64> {
    let node = fields.get("creationTimestamp")?;
    let text = node.text()?;
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Some(time.as_second()),
        Err(_) => {
            node.error(format!("{} is not a time such as `2026-01-31T12:00:00Z`", quote(text)));
            None
        }
    }
}

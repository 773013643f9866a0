//! The kind of a value, by `apiVersion` and `kind`, and its `metadata`: lenient, only the parts
//! that policy depends on are typed.

use super::error::{NotAnObject, fail, not_text};
use super::generated;
use super::name::{is_dns_label, is_dns_name};
use super::part::MAX_LIST_DEPTH;
use super::recorded;
use crate::kind::Kind;
use crate::object::{ObjectKey, ObjectMeta};
use crate::reader::{AllowedFields, Fields, JsonNode, describe, one_of, quote, shared};
use policy_core::suggest::nearest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The namespace of objects that name none, as for `kubectl`.
const DEFAULT_NAMESPACE: &str = "default";

/// The kind and version that a value says it is.
pub(super) fn kind_of<'a>(fields: &Fields<'a>) -> Result<(Kind, &'a str), NotAnObject> {
    let text = |name: &str| {
        let without = || NotAnObject::WithoutKind { field: name.to_owned() };
        let node = fields.get(name).ok_or_else(without)?;
        match node.value().as_str() {
            Some("") => Err(fail(name, "must not be empty")),
            Some(text) => Ok(text),
            None => Err(fail(name, &format!("expected text, found {}", describe(node.value())))),
        }
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if (api_version, kind) == ("v1", "List") {
        // A readable list has been split into its items before.
        return Err(NotAnObject::Field {
            field: "items".to_owned(),
            message: format!(
                "expected a list, in at most {MAX_LIST_DEPTH} lists around it: nothing of it is read"
            ),
        });
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    // Group and kind of a manifest are exact for the API server; references are compared without
    // case.
    let exact = Kind::ALL.into_iter().find(|k| k.group() == group && k.as_str() == kind);
    exact.map(|kind| (kind, version)).ok_or_else(|| unknown_kind(api_version, group, kind))
}

/// True if all kinds of a group are read.
fn is_our_group(group: &str) -> bool {
    let defined = |kind: &Kind| kind.spec().is_defined_here() && kind.group() == group;
    Kind::ALL.iter().any(defined)
}

fn unknown_kind(api_version: &str, group: &str, kind: &str) -> NotAnObject {
    let mistaken =
        |field: &str, message: String| NotAnObject::Mistaken { field: field.to_owned(), message };
    // The right kind in a wrong group. Not for core and `apps` kinds, whose names are too common.
    let elsewhere: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|k| k.as_str().eq_ignore_ascii_case(kind) && k.group().contains('.'))
        .collect();
    let known_group = is_our_group(group);
    if !elsewhere.is_empty() && (known_group || group.is_empty() || near_group(group)) {
        let options: Vec<String> = elsewhere
            .iter()
            .map(|k| format!("{}/{}", k.group(), k.versions().first().unwrap_or(&"v1")))
            .collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let name = elsewhere.first().map_or(kind, |k| k.as_str());
        let message = if name == kind {
            format!("{name} is not in {}, expected {}", quote(api_version), one_of(&options))
        } else {
            format!(
                "{} is not a kind of {}, did you mean `{name}`?",
                quote(kind),
                quote(api_version)
            )
        };
        return mistaken("apiVersion", message);
    }
    if !known_group {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        return NotAnObject::Foreign { api_version, kind };
    }
    let names: Vec<&str> =
        Kind::ALL.into_iter().filter(|k| k.group() == group).map(Kind::as_str).collect();
    let message = match nearest(kind, &names) {
        Some(name) => format!("unknown kind {}, did you mean `{name}`?", quote(kind)),
        None => format!("unknown kind {}, expected {}", quote(kind), one_of(&names)),
    };
    mistaken("kind", message)
}

/// True if a group looks like a misspelling of one of those that are read.
fn near_group(group: &str) -> bool {
    let known = Kind::ALL.map(Kind::group);
    let dotted: Vec<&str> = known.into_iter().filter(|group| group.contains('.')).collect();
    nearest(group, &dotted).is_some()
}

/// Reads the metadata. Without a name there is no object; all other errors are errors of the
/// object.
pub(crate) fn read(root: &Fields<'_>, kind: Kind) -> Result<ObjectMeta, NotAnObject> {
    let metadata = root.get("metadata").ok_or_else(|| fail("metadata", "is required"))?;
    if !metadata.value().is_object() {
        return Err(fail("metadata", "expected a mapping"));
    }
    let fields = metadata
        .fields(AllowedFields::Any)
        .ok_or_else(|| fail("metadata", "expected a mapping"))?;
    let key = ObjectKey { kind, namespace: namespace(&fields, kind)?, name: name(&fields, root)? };
    let status = root.get("status").filter(|_| kind == Kind::InboundRoute);
    let mut labels = texts(fields.get("labels"));
    if kind == Kind::Namespace {
        // An API server adds it to every Namespace, whatever its author writes.
        labels.insert(shared("kubernetes.io/metadata.name"), Arc::clone(&key.name));
    }
    Ok(ObjectMeta {
        recorded: status.and_then(|status| recorded::read(status.value())),
        key,
        labels,
        annotations: texts(fields.get("annotations")),
        created: created(&fields),
        uid: fields.get("uid").and_then(|n| n.text()).map(shared),
        generation: fields.get("generation").and_then(|n| n.integer(0, i64::MAX)),
    })
}

fn name(fields: &Fields<'_>, root: &Fields<'_>) -> Result<Arc<str>, NotAnObject> {
    const FIELD: &str = "metadata.name";
    let Some(node) = fields.get("name") else {
        let prefix = fields.get("generateName").filter(|node| node.value().as_str() != Some(""));
        let prefix = prefix.ok_or_else(|| fail(FIELD, "is required"))?;
        return generated::name(prefix.value(), root);
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

/// A mapping of text to text (labels, annotations). Values that are not text are errors, the others
/// are kept.
pub(crate) fn texts(node: Option<JsonNode<'_>>) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(fields) = node.and_then(|n| n.fields(AllowedFields::Any)) else {
        return BTreeMap::new();
    };
    let text = |(key, node): (&str, JsonNode<'_>)| Some((shared(key), shared(node.text()?)));
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
